//! Members of `custom` that Faktory Enterprise implements and some stores ignore. They are passed to
//! the worker, and counted because a client that sets them relies on them.

use crate::custom::CustomMembers;

/// A member of `custom` that a store may ignore ([`crate::store::Capabilities::custom`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IgnoredMember {
    ExpiresAt,
}

impl IgnoredMember {
    /// All members, in the order of their discriminants.
    pub(crate) const ALL: [Self; 1] = [Self::ExpiresAt];

    /// Returns the member's name in jobs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ExpiresAt => "expires_at",
        }
    }

    /// Returns a phrase that says how the behavior differs from what a client expects.
    pub(crate) const fn consequence(self) -> &'static str {
        match self {
            Self::ExpiresAt => "such jobs do not expire",
        }
    }
}

/// The number of jobs that had each member.
pub(crate) type IgnoredCounts = [u64; IgnoredMember::ALL.len()];

/// Counts the members of a job that a store may ignore.
pub(super) fn count(custom: &CustomMembers, counts: &mut IgnoredCounts) {
    counts[IgnoredMember::ExpiresAt as usize] += u64::from(custom.expires_at.is_some());
}
