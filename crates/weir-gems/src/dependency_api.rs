//! `/api/v1/dependencies`: lists the releases of the requested gems with their dependencies.
//!
//! Every request asks for other gems, so responses are not cached. They are joined from one
//! [`Fragment`] per gem, which is rewritten whenever the gem changes.

mod document;
mod fragment;

pub use self::document::Document;
pub use self::fragment::{Fragment, FragmentError, FragmentRelease, write_fragment};
