//! Members of presence channels of a shared log: what its client calls.

use super::Hub;
use crate::broker::{Announcement, Broker as _};
use crate::metrics::LimitKind;
use crate::pusher::webhook::WebhookEvent;
use crate::shared_log::{ChannelKey, Delivery, MemberChanges, MembersMessage};

impl Hub {
    /// Begins a connection to the log, which is told all members of this node again. Returns all
    /// presence channels.
    #[must_use]
    pub fn begin_members(&self) -> Vec<ChannelKey> {
        // First: a channel is created either before it is listed, or with this.
        self.broker.local.set_log_connected(true);
        let held = self.held_channels().into_iter().map(|held| held.key);
        held.filter(|key| self.held(key).is_some_and(|(_, channel)| channel.begin_members()))
            .collect()
    }

    /// Notes that the connection to the log has ended. It is told of no members until the next one.
    pub fn end_members(&self) {
        self.broker.local.set_log_connected(false);
        for app in self.apps() {
            for channel in app.channels.with_prefix("") {
                channel.end_members();
            }
        }
    }

    /// Returns at most `max` changes of this node's members that the log was not told, and whether there
    /// are more.
    #[must_use]
    pub fn take_member_changes(&self, key: &ChannelKey, max: usize) -> (MemberChanges, bool) {
        let held = self.held(key);
        held.map(|(_, channel)| channel.take_member_changes(max)).unwrap_or_default()
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

    /// Sends webhooks for users who came to the first node, and for users who left the last one.
    pub fn send_member_webhooks(&self, key: &ChannelKey, added: &[String], removed: &[String]) {
        let Some(app) = self.app_by_id(&key.app) else { return };
        let (settings, channel) = (app.settings(), &*key.channel);
        for user_id in added {
            let event = WebhookEvent::MemberAdded { channel, user_id };
            self.webhooks.enqueue(&settings.hooks, &event);
        }
        for user_id in removed {
            let event = WebhookEvent::MemberRemoved { channel, user_id };
            self.webhooks.enqueue(&settings.hooks, &event);
        }
    }
}
