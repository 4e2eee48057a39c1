//! A RubyGems server: serves the index that Bundler and RubyGems read, byte for byte.
//!
//! - [`name`], [`version`], [`platform`], [`requirement`], [`release`]: the basic types and their
//!   rules;
//! - [`index`]: the texts of the compact index and their digests;
//! - [`dependency_api`], [`marshal`]: responses for clients without support for the compact index;
//! - [`package`]: reads `.gem` files from untrusted sources;
//! - [`store`]: persistent data and its transactions; [`import_file`]: bulk import of releases;
//! - [`webhooks`]: notifies other servers of pushes and yanks;
//! - [`mirror`]: copies gems of other indexes;
//! - `http`: handles requests, starting at [`Gems::answer`]; `files`: the directory of `.gem`
//!   files; `downloads`: download counts;
//! - [`keys`], [`settings`], `metrics`; `blocking`: runs work that may block on a disk;
//! - for operators: [`view`], the data that they may see; [`operations`], the actions that they can
//!   take.

mod blocking;
pub mod dependency_api;
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
