//! What the client of a shared log calls: events of all nodes, and comparisons with the log.

use std::sync::Arc;

use super::Hub;
use crate::app::App;
use crate::broker::{Broker as _, ClientPublication, PublishError};
use crate::channel::Channel;
use crate::cores::CoreBusy;
use crate::metrics::LimitKind;
use crate::pusher::position::ChannelPosition;
use crate::settings::HistoryLimits;
use crate::shared_log::{
    ChannelKey, ChannelState, ClientBroadcast, Comparison, Delivery, HeldMembers, LogRecord,
};

/// A copy of a channel of the log.
#[derive(Clone, Debug)]
pub struct HeldChannel {
    /// The channel.
    pub key: ChannelKey,
    /// The position of its last delivered event. None while it is not known.
    pub position: Option<ChannelPosition>,
    /// What the node keeps of the channel.
    pub history: HistoryLimits,
    /// Whether it is a cache channel.
    pub caches: bool,
    /// What is known of its members.
    pub members: HeldMembers,
    /// Whether subscribers receive the number of subscriptions.
    pub has_count: bool,
}

impl Hub {
    /// Delivers an event of the log to the subscribers of this node.
    pub fn deliver(&self, key: &ChannelKey, record: &LogRecord) -> Delivery {
        let Some((app, channel)) = self.held(key) else { return Delivery::NotNeeded };
        let history = app.settings().history;
        let (delivery, change) = channel.deliver(record, history, &self.cores, self.clock.now());
        match delivery {
            Delivery::Delivered => self.broker.local.count_delivered(&app, &channel, change),
            Delivery::Busy => self.metrics.limit_hit(LimitKind::CoreQueue),
            Delivery::NotNeeded | Delivery::Hole => {}
        }
        delivery
    }

    /// Delivers an event of a client of another node. Where a core has no room it is dropped and
    /// counted.
    pub fn deliver_client_event(&self, event: &ClientBroadcast) {
        let Some((app, channel)) = self.held(&event.key) else { return };
        let publication = ClientPublication {
            name: &event.name,
            data: event.data.as_deref(),
            sender: event.sender,
            user_id: event.user_id.as_deref(),
        };
        let _ = self.broker.local.publish_client_event(&app, &channel, publication);
    }

    /// Closes the connections of a user, as another node requested.
    ///
    /// # Errors
    /// Returns an error if a core has no room. Try again.
    pub fn terminate(&self, app: &str, user: &str) -> Result<(), CoreBusy> {
        let Some(app) = self.app_by_id(app) else { return Ok(()) };
        match self.end_connections(&app, user) {
            Err(PublishError::Busy(busy)) => Err(busy),
            _ => Ok(()),
        }
    }

    /// Compares the copy of a channel with the log's state. Delivers events that it lacks, and
    /// notifies subscribers of a gap if the log has them no longer.
    pub fn synchronize(&self, key: &ChannelKey, state: &ChannelState) -> Comparison {
        let Some((app, channel)) = self.held(key) else {
            return Comparison { late: 0, is_complete: true };
        };
        let now = self.clock.now();
        let result = channel.synchronize(state, &app.settings(), &self.cores, now);
        self.metrics.gaps_sent(result.gaps);
        self.broker.local.count_delivered(&app, &channel, result.history_change);
        if result.is_busy {
            self.metrics.limit_hit(LimitKind::CoreQueue);
        }
        Comparison { late: result.delivered, is_complete: !result.is_busy }
    }

    /// Returns whether the cores with subscribers of a channel have room for several events.
    #[must_use]
    pub fn has_room(&self, key: &ChannelKey) -> bool {
        self.held(key).is_none_or(|(_, channel)| channel.has_room(&self.cores))
    }

    /// Returns the copy of one channel.
    #[must_use]
    pub fn held_channel(&self, key: &ChannelKey) -> Option<HeldChannel> {
        let (app, channel) = self.held(key)?;
        Some(view(&app, &channel))
    }

    /// Returns all copies, and the parts of the directories of users that this node follows.
    #[must_use]
    pub fn held_channels(&self) -> Vec<HeldChannel> {
        let mut held = Vec::new();
        for app in self.apps() {
            let channels = app.channels.with_prefix("").into_iter();
            held.extend(channels.map(|channel| view(&app, &channel)));
            let followed = app.directory.parts().filter(|part| part.is_followed());
            held.extend(followed.map(|part| view(&app, &part.channel)));
        }
        held
    }

    pub(super) fn held(&self, key: &ChannelKey) -> Option<(Arc<App>, Arc<Channel>)> {
        let app = self.app_by_id(&key.app)?;
        let channel = match key.is_directory() {
            false => app.channels.get(&key.channel)?,
            true => {
                let part = app.directory.get(&key.channel).filter(|part| part.is_followed())?;
                Arc::clone(&part.channel)
            }
        };
        Some((app, channel))
    }
}

fn view(app: &App, channel: &Channel) -> HeldChannel {
    let settings = app.settings();
    HeldChannel {
        key: ChannelKey {
            app: Arc::clone(&settings.id),
            channel: Arc::from(channel.name.as_str()),
        },
        position: channel.synchronized_position(),
        history: settings.history,
        caches: channel.kind.caches,
        members: channel.held_members(),
        has_count: settings.has_subscription_counts && channel.kind.sends_subscription_count(),
    }
}
