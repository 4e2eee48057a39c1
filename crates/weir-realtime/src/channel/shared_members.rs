//! The members of a presence channel by node, and which of this node's the shared log was not told.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::members::ListedMember;
use crate::pusher::position::ChannelPosition;
use crate::shared_log::{MemberChanges, SharedMember};

/// The members by node.
#[derive(Debug, Default)]
pub(super) struct SharedMembers {
    /// Users with connections to this node.
    local: HashMap<Arc<str>, LocalMember, RandomState>,
    /// Whether there is a connection to the log, which is told of changes.
    tells: bool,
    /// Users that came to this node or left it since the log was told. At most one for each user that
    /// is here, or was at that time.
    untold: HashMap<Arc<str>, Option<ListedMember>, RandomState>,
    /// The users of each other node.
    pub(super) remote: HashMap<Arc<str>, HashSet<Arc<str>, RandomState>, RandomState>,
    /// The last change of the other nodes, if it is known.
    pub(super) version: Option<ChannelPosition>,
    /// Whether the members of the other nodes were compared with the log since the connection began.
    pub(super) is_compared: bool,
    /// Whether members are kept that the log does not have at present.
    pub(super) keeps_absent: bool,
}

#[derive(Debug)]
struct LocalMember {
    member: ListedMember,
    connections: u32,
}

impl SharedMembers {
    pub(super) fn new(tells: bool) -> Self {
        Self { tells, ..Self::default() }
    }

    /// Adds a connection of a user to this node.
    pub(super) fn join(&mut self, member: &ListedMember) {
        let local = self.local.entry(Arc::clone(&member.user_id)).or_insert_with(|| {
            if self.tells {
                self.untold.insert(Arc::clone(&member.user_id), Some(member.clone()));
            }
            LocalMember { member: member.clone(), connections: 0 }
        });
        local.connections += 1;
    }

    /// Removes a connection of a user to this node.
    pub(super) fn leave(&mut self, user_id: &str) {
        let Some(local) = self.local.get_mut(user_id) else { return };
        local.connections -= 1;
        if local.connections == 0
            && let Some((user_id, _)) = self.local.remove_entry(user_id)
            && self.tells
        {
            self.untold.insert(user_id, None);
        }
    }

    /// Returns whether the log was told of all changes.
    pub(super) fn is_told(&self) -> bool {
        self.untold.is_empty()
    }

    /// Begins a connection to the log, which is told all members.
    pub(super) fn begin(&mut self) {
        (self.version, self.is_compared, self.tells) = (None, false, true);
        let local = self.local.iter();
        self.untold =
            local.map(|(user_id, it)| (Arc::clone(user_id), Some(it.member.clone()))).collect();
    }

    /// Notes that the connection to the log has ended.
    pub(super) fn end(&mut self) {
        self.tells = false;
        self.untold.clear();
    }

    /// Returns at most `max` changes that the log was not told.
    pub(super) fn take_untold(&mut self, max: usize) -> MemberChanges {
        let users: Vec<Arc<str>> = self.untold.keys().take(max).cloned().collect();
        let mut changes = MemberChanges::default();
        for user_id in users {
            match self.untold.remove(&user_id) {
                Some(Some(ListedMember { user_id, user_info })) => {
                    changes.added.push(SharedMember { user_id, user_info });
                }
                _ => changes.removed.push(user_id),
            }
        }
        changes
    }

    /// Returns whether this is the change after the last one.
    pub(super) fn is_next(&self, version: ChannelPosition) -> bool {
        match self.version {
            Some(last) => version.epoch == last.epoch && version.offset == last.offset + 1,
            None => version.offset == 1,
        }
    }

    /// Returns whether this change is known.
    pub(super) fn is_old(&self, version: ChannelPosition) -> bool {
        self.version
            .is_some_and(|last| version.epoch == last.epoch && version.offset <= last.offset)
    }
}
