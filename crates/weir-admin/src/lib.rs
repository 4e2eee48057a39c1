//! The admin API for operators, scripts and the command line, and the metrics of all parts.
//!
//! Each part has one module with the same structure: a table of its requests, the types of their
//! bodies, which the command line shares, `router(..)` with the state of its routes, and `errors`
//! for its errors.
//!
//! - [`jobs`], [`realtime`], [`gems`], [`workers`]: the parts.
//! - [`autopilot`]: what the autopilot sees and does.
//! - [`audit`]: the audit log, and the record of what is changed over the socket.
//! - [`switches`], [`restart`]: requests that concern several parts or the process.
//! - [`status`]: one router for everything, `/v1/status`, `/health`, `/ready` and `/metrics`.
//! - [`measured`], [`observed`]: the inputs of doctor.
//! - [`openapi`]: the description of all requests; `api_routes`: routes that describe themselves.
//! - [`paused_apps`]: apps that operators have paused, kept across restarts.
//! - [`process_metrics`], [`verdict_metrics`], [`workers_metrics`]: metrics of no single part;
//!   `exposition`: their formats.

mod api_routes;
pub mod audit;
pub mod autopilot;
mod exposition;
pub mod gems;
pub mod jobs;
pub mod measured;
pub mod observed;
pub mod openapi;
pub mod paused_apps;
pub mod process_metrics;
pub mod realtime;
mod response;
pub mod restart;
pub mod status;
pub mod switches;
pub mod verdict_metrics;
pub mod workers;
pub mod workers_metrics;

pub use self::response::Done;
