//! Webhooks that the client of a shared log has sent.

use std::time::Duration;

use super::Hub;
use crate::pusher::webhook::WebhookEvent;
use crate::shared_log::{ChannelKey, SharedChange, SharedWebhook};
use crate::webhooks::{HeldMax, Receipt, WebhookKind};

/// What the log reports. An endpoint that receives one of two opposite kinds needs both.
const KINDS: [WebhookKind; 4] = [
    WebhookKind::ChannelOccupied,
    WebhookKind::ChannelVacated,
    WebhookKind::MemberAdded,
    WebhookKind::MemberRemoved,
];

impl Hub {
    /// Returns whether any endpoint receives webhooks about subscribers or members of a channel.
    #[must_use]
    pub fn wants_shared_webhooks(&self, key: &ChannelKey) -> bool {
        let Some(app) = self.app_by_id(&key.app).filter(|_| !key.is_directory()) else {
            return false;
        };
        let hooks = &app.settings().hooks;
        KINDS.iter().any(|kind| hooks.has_endpoint_for_channel(*kind, &key.channel))
    }

    /// Sends a webhook to the endpoints of the app, which may be none. `receipt` tells when it is settled.
    pub fn send_shared_webhook(&self, webhook: &SharedWebhook, receipt: Receipt) {
        let Some(app) = self.app_by_id(&webhook.key.app) else { return };
        let channel = &*webhook.key.channel;
        let event = match &webhook.change {
            SharedChange::Occupied => WebhookEvent::ChannelOccupied { channel },
            SharedChange::Vacated => WebhookEvent::ChannelVacated { channel },
            SharedChange::MemberAdded(user_id) => WebhookEvent::MemberAdded { channel, user_id },
            SharedChange::MemberRemoved(user_id) => {
                WebhookEvent::MemberRemoved { channel, user_id }
            }
        };
        self.webhooks.enqueue_shared(&app.settings().hooks, &event, &webhook.id, receipt);
    }

    /// Returns how long a webhook waits for a change that cancels it.
    #[must_use]
    pub fn vacated_delay(&self) -> Duration {
        self.webhooks.vacated_delay()
    }

    /// Returns how many webhooks may wait for such a change.
    #[must_use]
    pub fn webhooks_held_max(&self) -> HeldMax {
        self.webhooks.held_max()
    }

    /// Counts webhooks that are sent before that time, because more would wait.
    pub fn count_early_webhooks(&self, count: usize) {
        self.webhooks.count_early(count as u64);
    }
}
