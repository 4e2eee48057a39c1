//! Broken systems in a real Redis and a real Postgres, observed and advised on; a healthy one gives no finding.
//!
//! Needs `redis-server` and Postgres; without one of them its tests are skipped, and say so.

#![allow(clippy::unwrap_used, reason = "a test that can not go on says where it stopped")]
#![allow(clippy::print_stderr, reason = "what is skipped says so")]

mod findings;
mod job_sessions;
mod lately;
mod layouts;
mod pgbouncer;
mod places;
mod pooler;
mod postgres;
mod postgres_server;
#[allow(dead_code, reason = "the tests of weir-sidekiq start Sentinels and use sockets as well")]
#[path = "../../../weir-sidekiq/tests/it/redis_server.rs"]
mod redis_server;
mod refusals;
mod shards;
mod slots;
mod watch;
