//! Data that is derived from the releases of one gem.

use crate::dependency_api::write_fragment;
use crate::index::digest::Digests;
use crate::index::info;
use crate::release::Release;

/// Data that is stored with a gem, so that readers need not compute it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Derived {
    pub(super) info: String,
    pub(super) digests: Digests,
    pub(super) fragment: Vec<u8>,
}

impl Derived {
    /// Computes the derived data of `releases`, which must be in order.
    pub(super) fn of(releases: &[Release]) -> Self {
        let mut text = String::new();
        info::write(&mut text, releases);
        let digests = Digests::of(text.as_bytes());
        Self { info: text, digests, fragment: write_fragment(releases) }
    }
}
