//! Links to the pages of gems.

use weir_gems::store::StoreError;

use crate::address::address;
use crate::page_error::PageError;
use crate::visible::visible;

/// A gem's name, with the address of its page.
pub(super) struct GemLink {
    pub(super) name: String,
    pub(super) address: String,
}

impl GemLink {
    pub(super) fn new(name: &str) -> Self {
        Self { name: visible(name).into_owned(), address: gem_address(name) }
    }
}

/// Returns the address of a gem's page.
pub(super) fn gem_address(name: &str) -> String {
    address("/gem", &[("name", name)])
}

/// Returns the error for an unreadable index.
pub(super) fn unavailable(error: StoreError) -> PageError {
    PageError::Unavailable(error.to_string())
}
