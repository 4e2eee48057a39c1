//! Looks at real Redis servers, filled as Sidekiq's versions fill them, and at a real Sidekiq.
//!
//! Needs `redis-server`; one test needs `ruby` and `sidekiq`. What is missing is skipped, and says so.

#![allow(clippy::unwrap_used, reason = "a test that can not go on says where it stopped")]
#![allow(clippy::print_stderr, reason = "what is skipped says so")]

mod acl;
mod arrivals;
mod backlog;
mod connections;
#[allow(dead_code, reason = "the tests of weir-jobs use the rest of it")]
mod contract;
mod cost;
mod latencies;
mod limited_queues;
mod limits;
mod links;
mod power_cut;
mod real_sidekiq;
mod redis_cluster;
#[allow(dead_code, reason = "the tests of weir start one where another was")]
mod redis_server;
mod shared_redis;
mod slot_proxy;
mod store;
mod versions;
