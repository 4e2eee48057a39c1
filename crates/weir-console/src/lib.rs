//! The dashboard on port 7420: pages rendered on the server, live through server-sent events.
//!
//! - [`settings`]: what an operator can set.
//! - [`router`]: all that port 7420 answers; [`sampler::Sampler`] feeds its charts and live pages.
//! - [`metrics`]: all that the console counts.
//! - [`verdict`]: what is wrong, how long until it is over, what to do, as pure rules.
//! - `guard`: hosts, sessions, forms, headers: who may see and do what.
//! - [`front`]: what it shows of the front's apps, and who tells it; [`gems`]: the same of the index,
//!   [`observed`] of a Sidekiq that Weir looks at.
//! - `pages`: one file per page; they read and act through the job server's handle, realtime's
//!   views, [`front::Operated`] and [`gems::Index`] only.

mod address;
mod assets;
mod console;
mod fetchers;
mod figures;
pub mod front;
pub mod gems;
mod guard;
mod jobs;
mod json_text;
pub mod live;
pub mod metrics;
pub mod observed;
mod pages;
mod place;
mod queue_histories;
mod realtime;
pub mod sampler;
pub mod settings;
mod totals;
mod verdict;
mod visible;

use std::sync::Arc;

use axum::Router;
use weir_base::clock::Clock;

use crate::console::Console;
pub use crate::jobs::{Histories, Jobs};
use crate::live::Live;
pub use crate::realtime::Realtime;
use crate::settings::Settings;

/// What the console stands on.
#[derive(Clone, Debug)]
pub struct Deps {
    /// None: they are not served here, and have no pages.
    pub jobs: Option<Jobs>,
    /// Shared with [`sampler::Sampler`].
    pub live: Live,
    pub clock: Clock,
    pub settings: Settings,
    /// None: it is not served here, and has no pages.
    pub realtime: Option<Realtime>,
    /// None: apps are not served here, and have no page.
    pub front: Option<front::Front>,
    /// None: they are not served here, and have no pages.
    pub gems: Option<Arc<dyn gems::Index>>,
    /// None: nothing is observed, and there are no pages of it.
    pub observed: Option<observed::Observed>,
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
