//! Nodes that share a real Redis.

#![allow(clippy::print_stderr, reason = "a long trial prints its counts")]
#![allow(clippy::unwrap_used, reason = "a test that can not go on says where it stopped")]

#[path = "../../../weir-sidekiq/tests/it/links/authority.rs"]
mod authority;
mod client;
mod cluster;
mod connections;
mod counts;
mod events;
mod failover;
mod fault_rounds;
mod faults;
mod joining;
mod layouts;
mod limits;
mod node_reports;
mod permissions;
mod presence;
mod redis_cluster;
mod redis_server;
mod rig;
mod shards;
mod suspension;
mod switches;
mod users;
