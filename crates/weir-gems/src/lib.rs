//! A RubyGems index: what Bundler and RubyGems ask of it, byte for byte.
//!
//! - [`name`], [`version`], [`platform`], [`requirement`], [`release`]: the words, with their rules;
//! - [`index`]: the texts of the compact index, and their digests;
//! - [`dependency_api`], [`marshal`]: answers for clients that know no compact index;
//! - [`package`]: `.gem` files, which anybody may have written;
//! - [`store`]: what is kept, and how it changes; [`import_file`]: many releases from elsewhere.

pub mod dependency_api;
pub mod import_file;
pub mod index;
pub mod marshal;
pub mod name;
pub mod package;
pub mod platform;
pub mod release;
pub mod requirement;
pub mod store;
pub mod version;
