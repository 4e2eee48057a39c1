//! Subscriptions of all nodes, or of this one without a shared log.

use std::sync::Arc;

use super::Hub;
use crate::app::App;
use crate::channel::Channel;
use crate::pusher::api::ListRequest;
use crate::pusher::channel::ChannelName;
use crate::pusher::webhook::WebhookEvent;
use crate::shared_log::{AppendError, ChannelKey, CountChange, NodeSubscriptions, SharedCounts};

impl Hub {
    /// Returns the channels with subscribers on any node that a request lists.
    pub(crate) async fn list_channels(
        &self,
        app: &App,
        request: ListRequest<'_>,
    ) -> Result<Vec<(String, SharedCounts)>, AppendError> {
        let prefix = request.filter_by_prefix;
        if let Some(log) = &self.broker.log {
            let id = Arc::clone(&app.settings().id);
            return log.channels(id, Box::from(prefix), request.info.user_count).await;
        }
        let channels = app.channels.with_prefix(prefix).into_iter();
        let counted = channels.map(|channel| (channel.name.to_string(), counts(&channel)));
        Ok(counted.filter(|(_, counts)| counts.subscriptions > 0).collect())
    }

    /// Returns the counts of channels on all nodes.
    pub(crate) async fn channel_counts(
        &self,
        app: &App,
        names: &[ChannelName],
    ) -> Result<Vec<SharedCounts>, AppendError> {
        if let Some(log) = &self.broker.log {
            let keys = names.iter().map(|name| app.key_of(name)).collect();
            let counted = log.counts(keys).await?;
            // This node's own subscriptions may still be on their way to the log.
            let least = names.iter().map(|name| local_counts(app, name));
            return Ok(counted
                .into_iter()
                .zip(least)
                .map(|(all, own)| all.at_least(own))
                .collect());
        }
        Ok(names.iter().map(|name| local_counts(app, name)).collect())
    }

    /// Returns a channel's subscriptions on this node.
    #[must_use]
    pub fn node_subscriptions(&self, key: &ChannelKey) -> NodeSubscriptions {
        let held = self.removed_first(key);
        let count = held.iter().map(|(_, channel)| channel.counted_subscribers()).sum();
        NodeSubscriptions { count, is_announced: self.announces_count(key) }
    }

    /// Notes that the log has this node's subscriptions of a channel. Returns whether it had some before,
    /// so that the channel is not new even if the log was emptied.
    pub fn on_subscriptions_stored(
        &self,
        key: &ChannelKey,
        own: usize,
        change: CountChange,
    ) -> bool {
        let CountChange { before, after } = change;
        if before != after
            && self.announces_count(key)
            && let Some(app) = self.app_by_id(&key.app)
        {
            let channel = &*key.channel;
            let event = WebhookEvent::SubscriptionCount { channel, subscription_count: after };
            self.webhooks.enqueue(&app.settings().hooks, &event);
        }
        self.held(key).is_some_and(|(_, channel)| channel.set_counted(own > 0))
    }

    /// Notes the subscriptions of a channel on all nodes. Returns whether subscribers are to be notified.
    pub fn deliver_count(&self, key: &ChannelKey, count: usize) -> bool {
        self.held(key).is_some_and(|(_, channel)| channel.set_shared_count(count))
    }

    /// Returns whether subscribers receive the number of subscriptions.
    fn announces_count(&self, key: &ChannelKey) -> bool {
        let Some(app) = self.app_by_id(&key.app) else { return false };
        let limits = &self.settings().limits.pusher;
        let kind = ChannelName::parse(&key.channel, limits).map(|name| name.kind());
        app.settings().has_subscription_counts
            && kind.is_ok_and(|kind| kind.sends_subscription_count())
    }
}

fn local_counts(app: &App, name: &ChannelName) -> SharedCounts {
    app.channels.get(name.as_str()).map(|channel| counts(&channel)).unwrap_or_default()
}

fn counts(channel: &Channel) -> SharedCounts {
    let info = channel.info();
    SharedCounts { subscriptions: info.subscribers, users: info.users }
}
