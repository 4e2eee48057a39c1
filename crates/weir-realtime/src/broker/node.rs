//! The broker of a node: the local one, or a shared log in front of it.
//!
//! With a shared log, events of servers are appended to the log, which returns them to every node
//! ([`crate::shared_log`]). The local broker distributes them, and holds copies of the channels that
//! have subscribers here. Client events are delivered here first, and sent to the other nodes. Subscriptions
//! members of presence channels and signed-in users are
//! those of all nodes.

use std::sync::{Arc, OnceLock};

use super::{
    Announcement, Broker, ClientPublication, LocalBroker, PublishError, ServerEvent, SubscribeError,
};
use crate::app::App;
use crate::channel::{
    Channel, Departure, HistoryEntry, Join, JoinRequest, LeaveRequest, PreparedEvent, Published,
    VersionedList,
};
use crate::cores::CoreBusy;
use crate::durable::{DurableHistories, OwnedEvent};
use crate::pusher::channel::ChannelName;
use crate::pusher::position::ChannelPosition;
use crate::shared_log::{ChannelKey, ClientBroadcast, LogEvent, NewEvent, SharedLog};
use crate::users::SignedIn;

/// The broker of a node.
#[derive(Debug)]
pub(crate) struct NodeBroker {
    pub(crate) local: Arc<LocalBroker>,
    pub(crate) log: Option<Arc<dyn SharedLog>>,
    /// The log of durable histories, if an app had them when Weir started.
    pub(crate) durable: OnceLock<DurableHistories>,
}

impl Broker for NodeBroker {
    async fn publish(
        &self,
        app: &Arc<App>,
        channel: &ChannelName,
        event: ServerEvent<'_>,
    ) -> Result<Published, PublishError> {
        let Some(log) = &self.log else {
            return match self.durable_of(app) {
                None => self.local.publish(app, channel, event).await,
                Some(durable) => {
                    self.publish_durably(durable, app, std::iter::once((channel, event))).await
                }
            };
        };
        let positions = log.append(vec![new_event(app, channel, event)]).await?;
        self.local.count_appended(1);
        let has_positions = app.settings().history.events_max > 0;
        let subscribers = app.channels.get(channel.as_str()).map_or(0, |it| it.subscribers());
        let position = positions.first().copied().filter(|_| has_positions);
        Ok(Published { position, subscribers, history_change: 0 })
    }

    async fn publish_all<'a>(
        &self,
        app: &Arc<App>,
        events: impl Iterator<Item = (&'a ChannelName, ServerEvent<'a>)> + Send,
    ) -> Result<(), PublishError> {
        let Some(log) = &self.log else {
            return match self.durable_of(app) {
                None => self.local.publish_all(app, events).await,
                Some(durable) => self.publish_durably(durable, app, events).await.map(drop),
            };
        };
        let events: Vec<NewEvent> =
            events.map(|(channel, event)| new_event(app, channel, event)).collect();
        let count = events.len() as u64;
        log.append(events).await?;
        self.local.count_appended(count);
        Ok(())
    }

    fn publish_client_event(
        &self,
        app: &App,
        channel: &Channel,
        event: ClientPublication<'_>,
    ) -> Result<(), CoreBusy> {
        self.local.publish_client_event(app, channel, event)?;
        if let Some(log) = &self.log {
            log.broadcast(broadcast(app.key_of(&channel.name), event));
        }
        Ok(())
    }

    fn subscribe(
        &self,
        app: &App,
        channel: &ChannelName,
        joining: &JoinRequest,
        on_join: impl Fn(&Channel, &Join),
    ) -> Result<(Arc<Channel>, Join), SubscribeError> {
        let Some(log) = &self.log else {
            return self.local.subscribe(app, channel, joining, on_join);
        };
        match self.local.subscribe(app, channel, joining, &on_join) {
            Err(SubscribeError::Unsynchronized) => {}
            subscribed => return self.note_subscriber(app, channel, subscribed),
        }
        if log.request(app.key_of(channel), app.settings().history) {
            return Err(SubscribeError::Unsynchronized);
        }
        // The log does not respond. The subscriber is notified of a gap when it does.
        let joining = JoinRequest { needs_position: false, ..joining.clone() };
        let subscribed = self.local.subscribe(app, channel, &joining, on_join);
        self.note_subscriber(app, channel, subscribed)
    }

    fn unsubscribe(
        &self,
        app: &App,
        channel: &Channel,
        request: LeaveRequest<'_>,
        on_leave: impl FnOnce(Departure),
    ) -> Departure {
        let departure = self.local.unsubscribe(app, channel, request, on_leave);
        if let Some(log) = &self.log {
            log.subscribers_changed(app.key_of(&channel.name));
        }
        departure
    }

    fn announce_changes(&self, app: &App, channel: &Channel, subscribers: usize) -> Announcement {
        let subscribers = match self.log {
            Some(_) => channel.announced_subscribers(),
            None => subscribers,
        };
        self.local.announce_changes(app, channel, subscribers)
    }

    fn members(&self, app: &App, channel: &str, version: Option<u64>) -> Option<VersionedList> {
        self.local.members(app, channel, version)
    }

    fn history(
        &self,
        app: &App,
        channel: &str,
        after: u64,
        events_max: usize,
    ) -> Option<(ChannelPosition, Vec<HistoryEntry>)> {
        let held = app.channels.get(channel)?;
        held.synchronized_position()?;
        self.local.history(app, channel, after, events_max)
    }
}

impl NodeBroker {
    /// Returns the log of durable histories, if it has those of an app.
    pub(crate) fn durable_of(&self, app: &App) -> Option<&DurableHistories> {
        self.durable.get().filter(|_| app.is_durable)
    }

    /// Publishes events of an app with durable histories. Returns the last one.
    async fn publish_durably<'a>(
        &self,
        durable: &DurableHistories,
        app: &Arc<App>,
        events: impl Iterator<Item = (&'a ChannelName, ServerEvent<'a>)>,
    ) -> Result<Published, PublishError> {
        let (events, now) = (self.local.prepare_all(app, events)?, self.local.now());
        let own = |(prepared, event): (PreparedEvent, ServerEvent<'_>)| OwnedEvent {
            prepared,
            name: Box::from(event.name),
            data: Box::from(event.data),
            except: event.except,
            trace: event.trace.cloned(),
        };
        let events: Vec<OwnedEvent> = events.into_iter().map(own).collect();
        if events.is_empty() {
            return Ok(Published::default());
        }
        Ok(durable.publish(Arc::clone(app), events, now).await?)
    }

    /// Notes for the log that a channel has one more subscriber, or that a user waits to be admitted.
    fn note_subscriber<T>(
        &self,
        app: &App,
        channel: &ChannelName,
        subscribed: Result<T, SubscribeError>,
    ) -> Result<T, SubscribeError> {
        if let Some(log) = &self.log
            && matches!(subscribed, Ok(_) | Err(SubscribeError::Unadmitted))
        {
            log.subscribers_changed(app.key_of(channel));
        }
        subscribed
    }

    /// Notes for the log that a connection of a user has signed in, and follows the users on its watchlist.
    pub(crate) fn note_sign_in(&self, app: &App, user: &SignedIn) {
        let Some(log) = &self.log else { return };
        let part = self.local.directory_part(app, &user.user_id, &**log);
        part.channel.user_signed_in(&user.user_id);
        log.subscribers_changed(app.key_of(&part.channel.name));
        for watched in &user.watchlist {
            let part = self.local.directory_part(app, watched, &**log);
            if part.follow() {
                // While the log does not respond, nothing: all copies are compared when it does.
                log.request(app.key_of(&part.channel.name), app.settings().history);
            }
        }
    }

    /// Notes for the log that a connection of a user has signed out, or ended.
    pub(crate) fn note_sign_out(&self, app: &App, user: &SignedIn) {
        let Some(log) = &self.log else { return };
        let part = self.local.directory_part(app, &user.user_id, &**log);
        part.channel.user_signed_out(&user.user_id);
        log.subscribers_changed(app.key_of(&part.channel.name));
    }

    /// Ends the request to admit a user whose connection does not join the channel any more.
    pub(crate) fn cancel_admission(&self, app: &App, channel: &ChannelName, user_id: &str) {
        let Some(log) = &self.log else { return };
        let held = app.channels.get(channel.as_str());
        if held.is_some_and(|held| held.cancel_admission(user_id)) {
            log.subscribers_changed(app.key_of(channel));
        }
    }

    /// Requests the log's state of a channel, to read its history afterwards. Returns whether the
    /// history can be read now.
    pub(crate) fn prepare_history(
        &self,
        app: &App,
        name: &ChannelName,
    ) -> Result<bool, PublishError> {
        let Some(log) = &self.log else { return Ok(true) };
        let channel = self.local.channel(app, name)?;
        if channel.synchronized_position().is_some() {
            return Ok(true);
        }
        match log.request(app.key_of(name), app.settings().history) {
            true => Ok(false),
            false => Err(crate::shared_log::AppendError::Away.into()),
        }
    }
}

fn broadcast(key: ChannelKey, event: ClientPublication<'_>) -> ClientBroadcast {
    let ClientPublication { name, data, sender, user_id } = event;
    let (data, user_id) = (data.map(Box::from), user_id.map(Box::from));
    ClientBroadcast { key, name: Box::from(name), data, sender, user_id }
}

fn new_event(app: &App, channel: &ChannelName, event: ServerEvent<'_>) -> NewEvent {
    let ServerEvent { name, data, except, idempotency_key, trace: _ } = event;
    NewEvent {
        key: app.key_of(channel),
        event: LogEvent { name: Box::from(name), data: Box::from(data), except },
        idempotency_key: idempotency_key.map(Box::from),
        history: app.settings().history,
        cache_age: channel.kind().caches.then(|| app.settings().cache_age_max),
    }
}
