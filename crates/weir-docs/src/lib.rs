//! The documentation (docs/ of the repository), compressed in the binary.
//!
//! - [`library`], [`Library`]: the whole, and the pages by their names.
//! - `pack`: the compressed files, which build.rs writes; `files`: those files.
//! - [`summary`]: docs/SUMMARY.md, the order of the pages.
//! - [`site`]: the addresses of pages: under the console's `/docs`, or in a folder of files.
//! - `links`: where a link of a page leads.
//! - [`page`]: one page as HTML, with its headings and the texts that are searched; `markdown`, `html`: its source and parts.
//! - `anchors`: anchors of headings and settings.
//! - [`search`]: search over all pages.
//!
//! `cargo xtask docs` checks that the summary lists all pages and that every link leads somewhere.

mod anchors;
mod files;
mod html;
mod library;
mod links;
mod markdown;
mod pack;
pub mod page;
pub mod search;
pub mod site;
pub mod summary;

pub use crate::anchors::anchors;
pub use crate::library::{Library, library};
