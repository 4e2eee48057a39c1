//! Members of presence channels of a shared log: what its client calls.

use super::Hub;
use crate::broker::{Announcement, Broker as _};
use crate::metrics::LimitKind;
use crate::shared_log::{ChannelKey, Delivery, MembersMessage, SharedMember, UnsentMembers};

impl Hub {
    /// Begins a connection to the log, to which all subscriptions and members of this node in the included
    /// channels are sent again. Returns those with either. From now on
    /// [`SharedLog::takes_members`](crate::shared_log::SharedLog::takes_members) must be true for them.
    #[must_use]
    pub fn begin_log_session(&self, is_included: impl Fn(&ChannelKey) -> bool) -> Vec<ChannelKey> {
        let mut keys = Vec::new();
        for (app, channel) in self.all_channels() {
            let key = app.key_of(&channel.name);
            if is_included(&key) && (channel.begin_members() || channel.subscribers() > 0) {
                keys.push(key);
            }
        }
        keys
    }

    /// Notes that the connection to the log has ended. Nothing of the included channels is sent to it until
    /// the next one.
    pub fn end_log_session(&self, is_included: impl Fn(&ChannelKey) -> bool) {
        for (app, channel) in self.all_channels() {
            if is_included(&app.key_of(&channel.name)) {
                channel.end_members();
            }
        }
    }

    /// Returns at most `max` changes of this node's members to send to the log, and whether there are
    /// more.
    #[must_use]
    pub fn take_member_changes(&self, key: &ChannelKey, max: usize) -> (UnsentMembers, bool) {
        // Members of a removed app first: they may have joined the app that replaced it.
        let mut held = self.removed_first(key).into_iter();
        while let Some((app, channel)) = held.next() {
            let (unsent, has_more) = channel.take_member_changes(max);
            if !unsent.is_empty() {
                let members_max = app.settings().presence.members_max;
                let has_more = has_more || held.len() > 0;
                return (UnsentMembers { members_max, ..unsent }, has_more);
            }
        }
        (UnsentMembers::default(), false)
    }

    /// Notes which of the users that this node has requested the log has admitted.
    pub fn settle_admissions(
        &self,
        key: &ChannelKey,
        requested: &[SharedMember],
        rejected: &[String],
    ) {
        for (_, channel) in self.removed_first(key) {
            channel.settle_admissions(requested, rejected);
        }
    }

    /// Takes back changes that could not be sent, so that
    /// [`take_member_changes`](Self::take_member_changes) returns them again. Returns false if the channel
    /// is gone: then all members must be sent again.
    #[must_use]
    pub fn return_member_changes(&self, key: &ChannelKey, unsent: UnsentMembers) -> bool {
        let held = self.removed_first(key);
        held.first().is_some_and(|(_, channel)| channel.return_member_changes(unsent))
    }

    /// Applies changes of another node's members. Those of this node are only noted.
    pub fn deliver_members(&self, message: &MembersMessage, is_own: bool) -> Delivery {
        let Some((app, channel)) = self.held(&message.key) else { return Delivery::NotNeeded };
        let now = self.clock.now();
        let delivery = channel.deliver_members(message, is_own, &app.settings(), &self.cores, now);
        if delivery == Delivery::Busy {
            self.metrics.limit_hit(LimitKind::CoreQueue);
        }
        delivery
    }

    /// Sends subscribers of a large presence channel the changes of its members, if it is time. Returns
    /// whether something is still to be sent.
    pub fn announce_members(&self, key: &ChannelKey) -> bool {
        let Some((app, channel)) = self.held(key) else { return false };
        let subscribers = channel.subscribers();
        self.broker.announce_changes(&app, &channel, subscribers) == Announcement::Due
    }
}
