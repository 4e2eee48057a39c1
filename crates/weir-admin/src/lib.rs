//! The admin API: what operators, scripts and the command line read and do, and the metrics of the whole.
//!
//! Each part has one module with the same pattern: a table of its requests, the types of their bodies,
//! which the command line shares, `router(..)` with what its routes stand on, and `problem` for its errors.
//!
//! - [`jobs`], [`realtime`], [`gems`], [`workers`]: the parts.
//! - [`switches`], [`restart`]: what concerns several of them, or the process.
//! - [`status`]: all of it as one router, `/v1/status`, `/health`, `/ready` and `/metrics`.
//! - [`measured`], [`observed`]: what doctor reads.
//! - [`holds`]: what operators have held up, over a restart too.
//! - [`process_metrics`], [`workers_metrics`]: metrics that no part has; `exposition`: their formats.

mod exposition;
pub mod gems;
pub mod holds;
pub mod jobs;
pub mod measured;
pub mod observed;
pub mod process_metrics;
pub mod realtime;
mod response;
pub mod restart;
pub mod status;
pub mod switches;
pub mod workers;
pub mod workers_metrics;

pub use self::response::Done;
