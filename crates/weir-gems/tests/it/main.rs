//! Tests of the crate's public behaviour.
#![allow(clippy::unwrap_used, reason = "a test that can not go on says where it stopped")]
#![allow(clippy::print_stdout, reason = "a test that was skipped says so")]

mod client;
mod http;
mod mirror;
mod package;
mod package_mutations;
mod ruby;
mod store;
mod webhooks;
