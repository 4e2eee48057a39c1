//! The job server, which speaks the Faktory protocol.
//!
//! - [`model`], [`settings`], [`allocation`]: the parsed types that all other modules share.
//! - [`job`], [`job_text`], [`stamp`]: parsing of a pushed job's JSON, and its later changes.
//! - [`custom`]: the members of `custom` that the server obeys. `features`, `unique`, [`tracks`],
//!   [`batches`], `callback_text`: what it does for them in any store.
//! - [`key_path`]: the member of a job whose value is its key.
//! - [`rules`], [`dispatch`], [`lanes`]: pure functions that decide how a failure ends, which queue is
//!   served next, and which tenant in it.
//! - [`start_rate`]: how often jobs may start. [`resources`]: limits that jobs of several types and queues have
//!   together. [`temporary_limits`]: limits that are set at run time.
//! - [`store`]: the trait of all operations on jobs.
//! - [`memory`]: a store without persistence. [`engine`]: the store on disk.
//! - [`cron`]: jobs that are enqueued at the times of a schedule.
//! - `faktory`: the wire protocol. `workers`: the connected worker processes.
//! - [`node`]: what the nodes that share a store report about themselves.
//! - [`server`]: the thread that owns a store and serves it. [`handle`]: access from other threads.
//! - [`view`]: plain data for the console, the command line and the admin API.
//! - [`quarantine`]: the queues of jobs that were set apart.
//! - `job_traces`: the spans of jobs that carry a trace context.
//! - [`job_types`]: counts, durations and errors by type of job.
//! - [`xray`]: what the jobs of a queue or set consist of.
//! - [`export_lines`]: the lines of an export, and the check that all of them are there.
//! - [`salvage`]: recovers jobs from the bytes that were set aside from a damaged log.
//! - [`metrics`]: the counters and histograms.

pub mod allocation;
pub mod batches;
mod callback_text;
mod cancellations;
pub mod cron;
pub mod custom;
pub mod dispatch;
pub mod engine;
pub mod export_lines;
mod faktory;
mod features;
pub mod filter;
pub mod handle;
pub mod job;
pub mod job_class;
pub mod job_text;
mod job_traces;
pub mod job_types;
pub mod key_path;
pub mod lanes;
pub mod memory;
pub mod metrics;
pub mod model;
pub mod node;
pub mod quarantine;
pub mod resources;
pub mod rules;
pub mod salvage;
pub mod server;
pub mod settings;
pub mod stamp;
pub mod start_rate;
pub mod store;
pub mod temporary_limits;
pub mod tracks;
mod unique;
pub mod view;
mod waiters;
mod workers;
pub mod xray;
