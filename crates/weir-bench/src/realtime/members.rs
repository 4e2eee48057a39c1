//! What one client knows about the members of its presence channel.

mod follower;
mod membership;
mod messages;
mod set;

use self::follower::Follower;
pub(crate) use self::follower::PageRequest;
pub(crate) use self::membership::{MemberMessageCounts, MembershipCheck};
pub(crate) use self::messages::{MemberChange, MemberMessage, MembersPage, user_id};
pub(crate) use self::set::MemberSet;

#[derive(Debug, Default)]
pub(crate) struct KnownMembers {
    /// Number of members; `None` until the server reports it.
    count: Option<u64>,
    /// The list of members, for clients that follow the changes.
    follower: Option<Box<Follower>>,
    /// Whether [`MembershipCheck`] counts this client's number and list as exact.
    knows_count: bool,
    holds_list: bool,
}

impl KnownMembers {
    /// Makes this client keep a list of members.
    pub(crate) fn add_follower(&mut self) {
        self.follower = Some(Box::default());
    }

    pub(crate) fn is_follower(&self) -> bool {
        self.follower.is_some()
    }

    /// Returns a follower's request for the first page.
    pub(crate) fn start_fetch(&mut self) -> Option<PageRequest> {
        self.follower.as_mut().map(|follower| follower.start_fetch())
    }

    /// Applies a message of the server. Returns a request if a follower needs another page.
    pub(crate) fn apply(
        &mut self,
        message: MemberMessage,
        membership: &mut MembershipCheck,
    ) -> Option<PageRequest> {
        membership.count_message(&message);
        let mut request = None;
        match message {
            MemberMessage::Count(count) => self.count = Some(count),
            MemberMessage::Joined => self.count = self.count.map(|count| count + 1),
            MemberMessage::Left => self.count = self.count.map(|count| count.saturating_sub(1)),
            MemberMessage::Page(page) => {
                request = self.follower.as_mut().and_then(|follower| follower.add_page(page));
            }
            MemberMessage::Changed(change) => {
                self.count = Some(change.count);
                if let Some(follower) = &mut self.follower {
                    follower.add_change(change);
                }
            }
        }
        self.recheck(membership);
        request
    }

    /// Compares with the expected members again, after either has changed.
    pub(crate) fn recheck(&mut self, membership: &mut MembershipCheck) {
        let follower = self.follower.as_ref();
        let holds_list = follower.is_some_and(|follower| follower.is_exact(membership.expected()));
        let knows_count = self.count == Some(membership.expected_count());
        update_count(&mut membership.exact_counts, &mut self.knows_count, knows_count);
        update_count(&mut membership.exact_lists, &mut self.holds_list, holds_list);
    }

    /// Forgets all members, because the connection was closed.
    pub(crate) fn clear(&mut self, membership: &mut MembershipCheck) {
        self.count = None;
        self.follower = None;
        self.recheck(membership);
    }

    /// Returns what is wrong with a follower's list.
    pub(crate) fn mismatch(&self, membership: &MembershipCheck) -> Option<String> {
        self.follower.as_ref()?.mismatch(membership.expected())
    }
}

/// Adds a client to `total`, or removes it.
fn update_count(total: &mut usize, is_counted: &mut bool, should_count: bool) {
    *total += usize::from(should_count);
    *total -= usize::from(*is_counted);
    *is_counted = should_count;
}
