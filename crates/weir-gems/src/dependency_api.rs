//! `/api/v1/dependencies`: for each of some gems, its releases with their dependencies.
//!
//! What is asked changes with every request, so answers are not kept; they are put together from a
//! [`Fragment`] of each gem that is written whenever the gem changes.

mod document;
mod fragment;

pub use self::document::Document;
pub use self::fragment::{Fragment, FragmentError, FragmentRelease, write_fragment};
