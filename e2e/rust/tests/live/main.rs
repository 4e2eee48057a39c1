//! Crate `faktory` 0.13 against a live server, whose address is in `WEIR_JOBS_URL`.

mod failures;
mod harness;
mod jobs;
mod server;
mod workers;
