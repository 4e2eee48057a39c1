//! The texts of the compact index, and their digests.
//!
//! Source: RubyGems' `compact_index` gem and Bundler's `CompactIndexClient`, versions 2.3 to 4.
//!
//! - [`info`]: `/info/NAME`, the releases of one gem;
//! - [`versions`]: `/versions`, all releases; grows at its end;
//! - [`names`]: the list of all gems, `/names`;
//! - [`digest`]: what clients check, continued from where it was saved;
//! - [`text`]: a text that grows, as one snapshot.

pub mod digest;
pub mod info;
pub mod names;
pub mod text;
pub mod versions;
