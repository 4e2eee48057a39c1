//! Who should be there, and how many clients know it.

use super::{MemberNews, MemberSet};

#[derive(Debug, Clone, Default)]
pub(crate) struct Roll {
    expected: MemberSet,
    expected_count: u64,
    /// Clients that know how many members there are, and followers that know who.
    pub(crate) knowing: usize,
    pub(crate) exact: usize,
    pub(crate) heard: HeardOfMembers,
}

/// Messages about members, by their kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HeardOfMembers {
    /// One member came or went.
    pub(crate) events: u64,
    pub(crate) counts: u64,
    pub(crate) pages: u64,
    pub(crate) changes: u64,
}

impl HeardOfMembers {
    pub(crate) fn all(&self) -> u64 {
        self.events + self.counts + self.pages + self.changes
    }

    pub(crate) fn since(&self, before: Self) -> Self {
        Self {
            events: self.events - before.events,
            counts: self.counts - before.counts,
            pages: self.pages - before.pages,
            changes: self.changes - before.changes,
        }
    }
}

impl Roll {
    pub(crate) fn expected(&self) -> &MemberSet {
        &self.expected
    }

    pub(super) fn expected_count(&self) -> u64 {
        self.expected_count
    }

    /// Others are to be there from now on: every client has to be compared again.
    pub(crate) fn expect(&mut self, members: MemberSet) {
        self.expected_count = members.len();
        self.expected = members;
    }

    pub(super) fn tally(&mut self, news: &MemberNews) {
        let HeardOfMembers { events, counts, pages, changes } = &mut self.heard;
        *match news {
            MemberNews::Came | MemberNews::Went => events,
            MemberNews::Count(_) => counts,
            MemberNews::Page(_) => pages,
            MemberNews::Changed(_) => changes,
        } += 1;
    }
}
