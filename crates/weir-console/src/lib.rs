//! The dashboard on port 7420: pages rendered on the server, live through server-sent events.
//!
//! - [`settings`]: what an operator can set.
//! - [`router`]: the routes of port 7420; [`sampler::Sampler`] feeds its charts and live pages.
//! - [`metrics`]: the console's metrics.
//! - `verdict`: what is wrong, how long until it is over, what to do, as pure rules.
//! - `guard`: hosts, sessions, forms, headers: who may see and do what.
//! - [`front`], [`gems`], [`observed`]: traits through which the console reads the front's apps, the
//!   index of gems, and a Sidekiq that Weir observes.
//! - `pages`: one file per page; they read and act through the job server's handle, realtime's
//!   views, [`front::AppControl`] and [`gems::GemIndex`] only.

mod address;
mod assets;
mod console;
mod deps;
mod fetchers;
mod figures;
pub mod front;
pub mod gems;
mod guard;
mod job_location;
mod jobs;
mod json_text;
pub mod live;
pub mod metrics;
pub mod observed;
mod page_error;
mod pages;
mod queue_histories;
mod realtime;
pub mod sampler;
pub mod settings;
mod theme;
mod totals;
mod verdict;
mod visible;

use std::sync::Arc;

use axum::Router;

use crate::console::Console;
pub use crate::deps::{Deps, Routes};
pub use crate::jobs::{Histories, JobsSource};
pub use crate::realtime::RealtimeSource;

/// The routes of port 7420.
///
/// Serve it with `into_make_service_with_connect_info::<SocketAddr>()`: without the client's
/// address all clients share one count of login tries.
pub fn router(deps: Deps) -> Router {
    let routes = deps.routes.clone();
    guard::protect(Arc::new(Console::new(deps)), pages::routes(), routes)
}
