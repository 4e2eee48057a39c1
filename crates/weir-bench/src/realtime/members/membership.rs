//! The expected members, and how many clients know them.

use super::{MemberMessage, MemberSet};

#[derive(Debug, Clone, Default)]
pub(crate) struct MembershipCheck {
    expected: MemberSet,
    expected_count: u64,
    /// Clients that know the number of members, and followers that know the list.
    pub(crate) exact_counts: usize,
    pub(crate) exact_lists: usize,
    pub(crate) messages: MemberMessageCounts,
}

/// Messages about members, by their kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MemberMessageCounts {
    /// One member joined or left.
    pub(crate) events: u64,
    pub(crate) counts: u64,
    pub(crate) pages: u64,
    pub(crate) changes: u64,
}

impl MemberMessageCounts {
    pub(crate) fn total(&self) -> u64 {
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

impl MembershipCheck {
    pub(crate) fn expected(&self) -> &MemberSet {
        &self.expected
    }

    pub(super) fn expected_count(&self) -> u64 {
        self.expected_count
    }

    /// Sets the expected members. Every client has to be checked again after it.
    pub(crate) fn expect(&mut self, members: MemberSet) {
        self.expected_count = members.len();
        self.expected = members;
    }

    pub(super) fn count_message(&mut self, message: &MemberMessage) {
        let MemberMessageCounts { events, counts, pages, changes } = &mut self.messages;
        *match message {
            MemberMessage::Joined | MemberMessage::Left => events,
            MemberMessage::Count(_) => counts,
            MemberMessage::Page(_) => pages,
            MemberMessage::Changed(_) => changes,
        } += 1;
    }
}
