//! A RubyGems index: what Bundler and RubyGems ask of it, byte for byte.
//!
//! - [`name`], [`version`], [`platform`], [`requirement`], [`release`]: the words, with their rules;
//! - [`index`]: the texts of the compact index, and their digests;
//! - [`dependency_api`], [`marshal`]: answers for clients that know no compact index;
//! - [`package`]: `.gem` files, which anybody may have written;
//! - [`store`]: what is kept, and how it changes; [`import_file`]: many releases from elsewhere;
//! - [`webhooks`]: servers elsewhere are told of pushes and yanks;
//! - [`mirror`]: gems of other indexes;
//! - `http`: requests, from [`Gems::answer`] on; `files`: the folder of `.gem` files; `downloads`:
//!   how often they were asked for;
//! - [`keys`], [`settings`], `metrics`, `blocking`: threads that may wait for a disk;
//! - for operators: [`view`], what they may see; [`operations`], what they can do.

mod blocking;
pub mod dependency_api;
mod downloads;
mod files;
mod http;
pub mod import_file;
pub mod index;
pub mod keys;
pub mod marshal;
mod metrics;
pub mod mirror;
pub mod name;
pub mod operations;
pub mod package;
pub mod platform;
pub mod release;
pub mod requirement;
pub mod settings;
pub mod store;
pub mod version;
pub mod view;
pub mod webhooks;

pub use files::{FileProblem, Files};
pub use http::{Endpoint, Gems, GemsParts};
pub use metrics::{GemsMetrics, MirrorMetrics};
