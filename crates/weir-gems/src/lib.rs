//! A RubyGems index: what Bundler and RubyGems ask of it, byte for byte.
//!
//! - [`name`], [`version`], [`platform`], [`requirement`], [`release`]: the words, with their rules;
//! - [`index`]: the texts of the compact index, and their digests;
//! - [`package`]: `.gem` files, which anybody may have written.

pub mod index;
pub mod name;
pub mod package;
pub mod platform;
pub mod release;
pub mod requirement;
pub mod version;
