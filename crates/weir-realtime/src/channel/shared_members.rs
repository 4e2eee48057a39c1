//! The members of a presence channel by node, and which changes of this node's were not sent to the
//! shared log.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use serde_json::value::RawValue;

use super::admissions::{Admission, Admissions};
use super::members::ListedMember;
use crate::pusher::position::ChannelPosition;
use crate::shared_log::{MemberChanges, SharedMember, UnsentMembers};

/// The members by node.
#[derive(Debug, Default)]
pub(super) struct SharedMembers {
    /// Users with connections to this node.
    local: HashMap<Arc<str>, LocalMember, RandomState>,
    /// Whether there is a connection to the log, to which changes are sent.
    is_connected: bool,
    /// Users that joined or left this node since changes were last sent to the log. At most one for each
    /// user that is here, or was at that time.
    unsent: HashMap<Arc<str>, Option<ListedMember>, RandomState>,
    /// Users that wait until the log admits them.
    admissions: Admissions,
    /// The users of each other node.
    pub(super) remote: HashMap<Arc<str>, RemoteUsers, RandomState>,
    /// The last change of the other nodes, if it is known.
    pub(super) version: Option<ChannelPosition>,
    /// Whether the members of the other nodes were compared with the log since the connection began.
    pub(super) is_compared: bool,
    /// Whether members are kept that the log does not have at present.
    pub(super) keeps_absent: bool,
}

/// The users of another node, and the information that it has of each.
type RemoteUsers = HashMap<Arc<str>, Option<Arc<RawValue>>, RandomState>;

/// How a node's user differs from what was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemoteChange {
    /// The user joined that node.
    Joined,
    /// The user left that node and joined again with other information.
    Rejoined,
    None,
}

#[derive(Debug)]
struct LocalMember {
    member: ListedMember,
    connections: u32,
}

impl SharedMembers {
    pub(super) fn new(is_connected: bool) -> Self {
        Self { is_connected, ..Self::default() }
    }

    /// Adds a connection of a user to this node.
    pub(super) fn join(&mut self, member: &ListedMember) {
        let local = self.local.entry(Arc::clone(&member.user_id)).or_insert_with(|| {
            let admission = self.admissions.remove(&member.user_id);
            if self.is_connected && admission != Some(Admission::Admitted) {
                self.unsent.insert(Arc::clone(&member.user_id), Some(member.clone()));
            }
            LocalMember { member: member.clone(), connections: 0 }
        });
        local.connections += 1;
    }

    /// Returns whether a user may join, as far as the log decides that. None: it does not, because the user is
    /// here, or the log can't be written at present.
    pub(super) fn admission(
        &mut self,
        member: &ListedMember,
        may_request: bool,
    ) -> Option<Admission> {
        if !self.is_connected || self.local.contains_key(&member.user_id) {
            return None;
        }
        match self.admissions.take_reply(&member.user_id) {
            Some(Admission::Undecided) => return None,
            Some(admission) => return Some(admission),
            None => {}
        }
        if !may_request {
            return Some(Admission::Rejected);
        }
        self.admissions.request(&member.user_id);
        self.unsent.insert(Arc::clone(&member.user_id), Some(member.clone()));
        Some(Admission::Requested)
    }

    /// Ends the request of a user that does not join. Returns whether there was one.
    pub(super) fn cancel_admission(&mut self, user_id: &str) -> bool {
        let is_cancelled = self.admissions.remove(user_id).is_some();
        if is_cancelled {
            self.unsent.insert(Arc::from(user_id), None);
        }
        is_cancelled
    }

    /// Notes which of the requested users the log has admitted.
    pub(super) fn settle_admissions(&mut self, requested: &[SharedMember], rejected: &[String]) {
        self.admissions.settle(requested, rejected);
    }

    /// Returns whether users wait until the log admits them.
    pub(super) fn has_admissions(&self) -> bool {
        !self.admissions.is_empty()
    }

    /// Removes a connection of a user to this node.
    pub(super) fn leave(&mut self, user_id: &str) {
        let Some(local) = self.local.get_mut(user_id) else { return };
        local.connections -= 1;
        if local.connections == 0
            && let Some((user_id, _)) = self.local.remove_entry(user_id)
            && self.is_connected
        {
            self.unsent.insert(user_id, None);
        }
    }

    /// Returns whether all changes were sent to the log, and no user waits for it.
    pub(super) fn is_all_sent(&self) -> bool {
        self.unsent.is_empty() && self.admissions.is_empty()
    }

    /// Begins a connection to the log, to which all members are sent.
    pub(super) fn begin(&mut self) {
        (self.version, self.is_compared, self.is_connected) = (None, false, true);
        // Those that wait ask again.
        self.admissions.clear();
        let local = self.local.iter();
        self.unsent =
            local.map(|(user_id, it)| (Arc::clone(user_id), Some(it.member.clone()))).collect();
    }

    /// Notes that the connection to the log has ended.
    pub(super) fn end(&mut self) {
        self.is_connected = false;
        self.unsent.clear();
        self.admissions.clear();
    }

    /// Returns at most `max` changes to send to the log, and whether there are more.
    pub(super) fn take_unsent(&mut self, max: usize) -> (UnsentMembers, bool) {
        let users: Vec<Arc<str>> = self.unsent.keys().take(max).cloned().collect();
        let mut unsent = UnsentMembers::default();
        for user_id in users {
            match self.unsent.remove(&user_id) {
                Some(Some(ListedMember { user_id, user_info })) => {
                    let waits = self.admissions.contains(&user_id);
                    let list =
                        if waits { &mut unsent.requested } else { &mut unsent.changes.added };
                    list.push(SharedMember { user_id, user_info });
                }
                _ => unsent.changes.removed.push(user_id),
            }
        }
        (unsent, !self.unsent.is_empty())
    }

    /// Takes back changes that were not sent, except of users that have changed since.
    pub(super) fn return_unsent(&mut self, unsent: UnsentMembers) {
        let UnsentMembers { changes: MemberChanges { added, removed }, requested, .. } = unsent;
        self.admissions.leave_undecided(&requested);
        let added = added.into_iter().map(|SharedMember { user_id, user_info }| {
            (Arc::clone(&user_id), Some(ListedMember { user_id, user_info }))
        });
        for (user_id, change) in added.chain(removed.into_iter().map(|user_id| (user_id, None))) {
            self.unsent.entry(user_id).or_insert(change);
        }
    }

    /// Notes a user of another node.
    pub(super) fn set_remote(&mut self, node: &Arc<str>, member: &SharedMember) -> RemoteChange {
        let users = self.remote.entry(Arc::clone(node)).or_default();
        let SharedMember { user_id, user_info } = member.clone();
        let Some(before) = users.insert(user_id, user_info) else { return RemoteChange::Joined };
        let before = before.as_deref().map(RawValue::get);
        match before == member.user_info.as_deref().map(RawValue::get) {
            true => RemoteChange::None,
            false => RemoteChange::Rejoined,
        }
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
