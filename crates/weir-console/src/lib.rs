//! The dashboard on port 7420: pages rendered on the server, updated by server-sent events.
//!
//! - [`settings`]: the console's settings.
//! - [`router`]: the routes of port 7420; [`sampler::Sampler`] feeds its charts and live pages.
//! - [`metrics`]: the console's metrics.
//! - `verdict`: pure rules that find problems, estimate their end and suggest remedies.
//! - `guard`: access control: hosts, sessions, forms, headers.
//! - [`front`], [`gems`], [`observed`]: traits through which the console reads the front's apps,
//!   the gem index, and an observed Sidekiq.
//! - `pages`: one file per page. Pages read and act only through the job server's handle,
//!   realtime's views, [`front::AppControl`] and [`gems::GemIndex`].

mod address;
mod assets;
mod console;
mod demo;
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
mod new_jobs;
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
pub use crate::demo::DemoControl;
pub use crate::deps::{Deps, Routes};
pub use crate::guard::accounts::Accounts;
pub use crate::jobs::{Histories, JobsSource};
pub use crate::realtime::RealtimeSource;

/// Returns the routes of port 7420.
///
/// Serve it with `into_make_service_with_connect_info::<SocketAddr>()`: without the client's
/// address all clients share one count of login attempts.
pub fn router(deps: Deps) -> Router {
    let routes = deps.routes.clone();
    guard::protect(Arc::new(Console::new(deps)), pages::routes(), routes)
}
