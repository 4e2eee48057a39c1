//! The texts of the compact index, and their digests.
//!
//! The format is that of RubyGems' `compact_index` gem and Bundler's `CompactIndexClient`, versions
//! 2.3 to 4.
//!
//! - [`info`]: `/info/NAME`, the releases of one gem;
//! - [`versions`]: `/versions`, all releases; changes are appended;
//! - [`names`]: `/names`, the names of all gems;
//! - [`digest`]: digests that clients check, resumable from a saved state;
//! - [`text`]: a snapshot of a text that grows.

pub mod digest;
pub mod info;
pub mod names;
pub mod text;
pub mod versions;
