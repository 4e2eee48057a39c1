//! The exporter against collectors that the tests turn by hand.

#![allow(clippy::unwrap_used, reason = "a test that can not go on says where it stopped")]

mod collector;
mod export;
