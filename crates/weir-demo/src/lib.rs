//! The app, the workers, the clients and the flood of `weir demo`. Everything here speaks to Weir
//! over its public protocols: Faktory, Pusher, HTTP and the admin API.
//!
//! - [`config`]: the settings that the demo starts Weir with.
//! - `traffic`: what is sent, how often, and [`FloodRequest`] with its limits. Pure.
//! - [`app`]: the web app behind the front.
//! - [`load`]: runs all clients and workers. Its parts: `faktory` and `jobs`, `pusher` and `realtime`, `requests`.
//! - `flood`: the worker that receives floods, and [`flood::request`], which asks for one.
//! - `samples`, `figures`, [`report`]: what was measured, and how it reads.
//! - `flood_jobs`, `observer`, [`summary`]: what a flood and the demo as a whole amounted to.
//!
//! Promise: every figure was measured by these clients or read from the admin API. The crate must not know any other part
//! of Weir than the base and the HTTP client.

pub mod app;
pub mod config;
mod context;
mod faktory;
mod figures;
pub mod flood;
mod flood_jobs;
mod http;
mod jobs;
pub mod load;
mod observer;
mod pusher;
mod realtime;
pub mod report;
mod requests;
mod samples;
pub mod summary;
mod traffic;

pub use context::LoadSettings;
pub use faktory::FaktoryError;
pub use load::LoadEvent;
pub use traffic::{CLIENTS_DEFAULT, CLIENTS_MAX, FloodRequest, FloodRequestError, WORKER_LABEL};
