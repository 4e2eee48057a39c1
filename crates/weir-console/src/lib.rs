//! The dashboard on port 7420: pages rendered on the server, live through server-sent events.
//!
//! - [`settings`]: what an operator can set.
//! - [`router`]: all that port 7420 answers; [`sampler::Sampler`] feeds its charts and live pages.
//! - [`metrics`]: all that the console counts.
//! - [`verdict`]: what is wrong, how long until it is over, what to do, as pure rules.
//! - `guard`: hosts, sessions, forms, headers: who may see and do what.
//! - `pages`: one file per page; they read and act through the job server's handle and
//!   realtime's views only.

mod address;
mod assets;
mod console;
mod fetchers;
mod figures;
mod guard;
mod json_text;
pub mod live;
pub mod metrics;
mod pages;
mod place;
pub mod queue_histories;
mod realtime;
pub mod sampler;
pub mod settings;
mod totals;
pub mod verdict;
mod visible;

use std::sync::Arc;

use axum::Router;
use weir_base::clock::Clock;
use weir_base::history::History;
use weir_jobs::handle::Handle;

use crate::console::Console;
use crate::live::Live;
use crate::queue_histories::QueueHistories;
pub use crate::realtime::Realtime;
use crate::settings::Settings;

/// What the console stands on.
#[derive(Clone, Debug)]
pub struct Deps {
    pub handle: Handle,
    /// Opened with [`sampler::COLUMNS`].
    pub history: Arc<History>,
    /// The charts of single queues.
    pub queue_histories: Arc<QueueHistories>,
    /// Shared with [`sampler::Sampler`].
    pub live: Live,
    pub clock: Clock,
    pub settings: Settings,
    /// The job server's own limits: some verdicts name them.
    pub jobs_limits: weir_jobs::settings::Limits,
    /// Where clients reach the job server (`tcp://127.0.0.1:7419`), for the empty page's advice.
    pub jobs_url: String,
    /// None: it is not served here, and has no pages.
    pub realtime: Option<Realtime>,
    pub routes: Routes,
}

/// Other parts' answers on the same port.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// The admin API, without its prefix: mounted at `/v1`, behind the token, or a session with
    /// the CSRF token in `x-csrf-token`.
    pub api: Router,
    /// `/metrics`: behind the token or a session, unless `metrics_without_login`.
    pub metrics: Router,
    /// `/health`, `/ready`: answered to everybody.
    pub open: Router,
}

/// All that port 7420 answers.
///
/// Serve it with `into_make_service_with_connect_info::<SocketAddr>()`: without the client's
/// address all clients share one count of login tries.
pub fn router(deps: Deps) -> Router {
    let routes = deps.routes.clone();
    guard::protect(Arc::new(Console::new(deps)), pages::routes(), routes)
}
