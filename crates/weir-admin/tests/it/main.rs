//! Integration tests of the admin API, in one binary.

#![allow(clippy::unwrap_used, reason = "a test that can not go on says where it stopped")]

#[path = "../../../weir-jobs/tests/it/faktory_server.rs"]
#[allow(dead_code, reason = "the tests of weir-jobs use the rest of it")]
mod faktory_server;
mod jobs;
