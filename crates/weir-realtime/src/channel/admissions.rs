//! Users whom the shared log admits to a presence channel before they join it, so that the limit of users
//! holds over all nodes.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::shared_log::SharedMember;

/// Whether a user may join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// The log has not replied yet.
    Requested,
    /// The log counts the user as a member of this node.
    Admitted,
    /// The channel has reached its limit of users.
    Rejected,
    /// The log can't write the channel for now: the members that this node knows decide.
    Undecided,
}

/// The log's replies by user. Each belongs to a connection that waits to join: it ends when that
/// connection joins, is rejected or leaves.
#[derive(Debug, Default)]
pub(super) struct Admissions(HashMap<Arc<str>, Admission, RandomState>);

impl Admissions {
    /// Notes that the log is asked to admit a user.
    pub(super) fn request(&mut self, user_id: &Arc<str>) {
        self.0.insert(Arc::clone(user_id), Admission::Requested);
    }

    /// Returns the state of a request. One that was not admitted is forgotten, so that the user may try again.
    pub(super) fn take_reply(&mut self, user_id: &str) -> Option<Admission> {
        let admission = *self.0.get(user_id)?;
        if matches!(admission, Admission::Rejected | Admission::Undecided) {
            self.0.remove(user_id);
        }
        Some(admission)
    }

    /// Notes the log's reply to requests that have not ended.
    pub(super) fn settle(&mut self, requested: &[SharedMember], rejected: &[String]) {
        for SharedMember { user_id, .. } in requested {
            let is_rejected = rejected.iter().any(|rejected| **rejected == **user_id);
            if let Some(admission) = self.0.get_mut(user_id) {
                *admission = if is_rejected { Admission::Rejected } else { Admission::Admitted };
            }
        }
    }

    /// Notes that the log can't reply to these requests for now.
    pub(super) fn leave_undecided(&mut self, requested: &[SharedMember]) {
        for SharedMember { user_id, .. } in requested {
            if let Some(admission) = self.0.get_mut(user_id) {
                *admission = Admission::Undecided;
            }
        }
    }

    /// Ends a request. Returns its state.
    pub(super) fn remove(&mut self, user_id: &str) -> Option<Admission> {
        self.0.remove(user_id)
    }

    pub(super) fn contains(&self, user_id: &str) -> bool {
        self.0.contains_key(user_id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
