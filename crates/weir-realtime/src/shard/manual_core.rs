//! A core without sockets, for tests and fuzzers ([`crate::measure`]). The caller decides when it
//! processes input and when clients receive messages.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weir_base::clock::{Clock, Timestamp};
use weir_net::server::Peer;

use super::Shard;
use super::close_reason::CloseReason;
use super::state::ShardState;
use super::upkeep::ROUNDS;
use crate::broker::ServerEvent;
use crate::cores::{CoreMessages, SessionKey};
use crate::hub::{Hub, single_core};
use crate::operations::OperationError;
use crate::pusher::channel::ChannelName;
use crate::pusher::position::ChannelPosition;
use crate::pusher::socket_id::SocketId;
use crate::session::{ConnectionState, Transport};
use crate::settings::{AppSettings, Settings};

/// One core of a hub. Its background work runs only when the caller asks for it.
#[derive(Debug)]
pub struct ManualCore(pub(super) Rc<Shard>);

/// A connection, which may be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManualConnection {
    pub(super) key: SessionKey,
    /// The connection's id.
    pub socket_id: SocketId,
}

/// Messages that a client has not received yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnreadMessages {
    /// Number of writes that they came from.
    pub writes: usize,
    /// Their size in bytes.
    pub bytes: usize,
}

/// What a core still holds. When all clients have left, it must equal the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Number of connections of the core.
    pub sessions: usize,
    /// Number of channels with subscribers, in each of the two maps.
    pub channels: (usize, usize),
    /// Number of channels ready for a turn, and of messages to single connections.
    pub ready: (usize, usize),
    /// Number of apps whose connections are being closed.
    pub app_ends: usize,
    /// Number of channels with changes to announce.
    pub uncounted: usize,
    /// Number of connections that wait until they may subscribe.
    pub waiting_to_subscribe: usize,
    /// Events and bytes that wait for the core.
    pub budget: (usize, usize),
    /// Number of channels of all apps.
    pub registered: usize,
    /// Number of connections of all apps.
    pub connections: usize,
    /// Number of users that are signed in or watched.
    pub users: usize,
    /// Bytes of all histories.
    pub history_bytes: usize,
    /// Bytes of all cached events.
    pub cache_bytes: usize,
    /// Values of gauges: connections, subscriptions, queued bytes, and clients with queued bytes.
    pub gauges: [u64; 4],
}

impl ManualCore {
    /// Returns a core with a manual clock, which [`ManualCore::advance_time`] advances.
    #[must_use]
    pub fn new(settings: Settings, apps: Vec<AppSettings>) -> Self {
        let clock = Clock::manual(Timestamp::from_millis(1_000_000));
        Self::of_hub(single_core::single_core_hub(&clock, settings, apps, None))
    }

    /// Returns a core whose hub shares a log with others.
    #[cfg(test)]
    pub(crate) fn with_log(
        settings: Settings,
        apps: Vec<AppSettings>,
        log: Arc<dyn crate::shared_log::SharedLog>,
    ) -> Self {
        let clock = Clock::manual(Timestamp::from_millis(1_000_000));
        Self::of_hub(single_core::single_core_hub(&clock, settings, apps, Some(log)))
    }

    /// Returns a core of this hub, which has one core.
    #[must_use]
    pub fn of_hub(hub: Arc<Hub>) -> Self {
        Self(Shard::new(hub, 0, CancellationToken::new()))
    }

    /// Closes the connections of a user.
    ///
    /// # Errors
    /// As [`Hub::disconnect_user`].
    pub fn disconnect_user(&self, app: &str, user: &str) -> Result<usize, OperationError> {
        single_core::poll_now(self.hub().disconnect_user(app, user))
    }

    /// Returns the hub.
    #[must_use]
    pub fn hub(&self) -> &Arc<Hub> {
        &self.0.hub
    }

    /// Opens a connection to this app, or returns None if the app accepts none.
    #[must_use]
    pub fn connect(&self, app_key: &str) -> Option<ManualConnection> {
        let peer = Peer { address: None, is_tls: true, listener: 0 };
        let (app, quota) = self.0.admit_to_app(app_key, peer).ok()?;
        let state = &mut *self.0.state.borrow_mut();
        let (key, socket_id) = self.0.register(state, app, quota, Transport::Events);
        Some(ManualConnection { key, socket_id })
    }

    /// Processes bytes from a client, at most 16 KiB, as the connection's task does. Returns
    /// whether they were accepted: not while responses to earlier bytes are queued, nor while the
    /// connection waits to subscribe.
    #[must_use]
    pub fn receive(&self, connection: ManualConnection, bytes: &[u8]) -> bool {
        let state = &mut *self.0.state.borrow_mut();
        // A closed connection sends nothing more.
        while let Some(key) = state.session_of(connection.socket_id) {
            if state.session(key).unpaid_subscriptions > 0 && !self.0.may_subscribe(state, key) {
                return false;
            }
            let session = state.session(key);
            if session.postponed.is_some() {
                self.0.take_postponed(state, key);
            } else if session.unprocessed.is_empty() {
                if !bytes.is_empty() {
                    state.input[..bytes.len()].copy_from_slice(bytes);
                    self.0.on_input(state, key, bytes.len());
                }
                break;
            } else if session.has_unwritten() {
                return false;
            } else {
                self.0.resume_input(state, key);
            }
        }
        true
    }

    /// Returns the time of the manual clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.hub().clock.now()
    }

    /// Returns whether the connection exists, even if it is closing.
    #[must_use]
    pub fn is_connected(&self, connection: ManualConnection) -> bool {
        self.0.state.borrow().session_of(connection.socket_id).is_some()
    }

    /// Returns whether the connection exists and is not closing.
    #[must_use]
    pub fn is_open(&self, connection: ManualConnection) -> bool {
        let state = &mut *self.0.state.borrow_mut();
        let key = state.session_of(connection.socket_id);
        key.is_some_and(|key| !state.session(key).is_closing())
    }

    /// Returns the channels that the connection is subscribed to.
    #[must_use]
    pub fn subscriptions(&self, connection: ManualConnection) -> Vec<String> {
        let state = &mut *self.0.state.borrow_mut();
        let Some(key) = state.session_of(connection.socket_id) else { return Vec::new() };
        let ShardState { sessions, channels, .. } = state;
        let subscriptions = sessions[key as usize].subscriptions.iter();
        let names =
            subscriptions.map(|one| channels[one.channel as usize].channel.name.to_string());
        names.collect()
    }

    /// Returns the amount of data queued for the connection.
    #[must_use]
    pub fn waiting(&self, connection: ManualConnection) -> UnreadMessages {
        let state = &mut *self.0.state.borrow_mut();
        let key = state.session_of(connection.socket_id);
        let outbox = key.and_then(|key| state.session(key).outbox.as_deref());
        outbox.map_or_else(UnreadMessages::default, |outbox| UnreadMessages {
            writes: outbox.len(),
            bytes: outbox.bytes(),
        })
    }

    /// Removes and returns the messages queued for the client, as JSON. Removes the connection if
    /// it was only waiting for them to be written.
    #[must_use]
    pub fn take(&self, connection: ManualConnection) -> Vec<String> {
        let state = &mut *self.0.state.borrow_mut();
        let text = self.0.take_waiting(state, connection.socket_id).unwrap_or_default();
        if let Some(key) = state.session_of(connection.socket_id)
            && matches!(state.session(key).state, ConnectionState::Leaving { .. })
        {
            self.0.close(state, key, CloseReason::Gone);
        }
        let messages = text.lines().filter_map(|line| line.strip_prefix("data: "));
        messages.map(str::to_owned).collect()
    }

    /// Breaks the client's socket.
    pub fn break_socket(&self, connection: ManualConnection) {
        let state = &mut *self.0.state.borrow_mut();
        if let Some(key) = state.session_of(connection.socket_id) {
            self.0.close(state, key, CloseReason::Gone);
        }
    }

    /// Publishes an event as an application's server does. Returns its position, if it has one.
    ///
    /// # Errors
    /// Returns the text of the error if the event was rejected.
    ///
    /// # Panics
    /// Panics if the app does not exist, or `channel` is not a valid name.
    pub fn publish(
        &self,
        app_id: &str,
        channel: &str,
        (name, data): (&str, &str),
        except: Option<SocketId>,
    ) -> Result<Option<ChannelPosition>, String> {
        let hub = self.hub();
        let app = hub.app_by_id(app_id).expect("the app is there");
        let channel =
            ChannelName::parse(channel, &hub.settings().limits.pusher).expect("a channel's name");
        let published = single_core::poll_now(hub.publish(
            &app,
            &channel,
            ServerEvent { name, data, except, idempotency_key: None, trace: None },
        ));
        published.map(|published| published.position).map_err(|error| error.to_string())
    }

    /// Publishes one event to several channels, as an application's server does.
    ///
    /// # Errors
    /// Returns the text of the error if the event was rejected.
    ///
    /// # Panics
    /// Panics if the app does not exist, or one of `channels` is not a valid name.
    pub fn publish_all(
        &self,
        app_id: &str,
        channels: &[&str],
        (name, data): (&str, &str),
    ) -> Result<(), String> {
        let hub = self.hub();
        let app = hub.app_by_id(app_id).expect("the app is there");
        let parse = |name: &&str| ChannelName::parse(name, &hub.settings().limits.pusher);
        let channels: Result<Vec<ChannelName>, _> = channels.iter().map(parse).collect();
        let channels = channels.expect("names of channels");
        let event = ServerEvent { name, data, except: None, idempotency_key: None, trace: None };
        let published = hub.publish_all(&app, channels.iter().map(|channel| (channel, event)));
        let published = single_core::poll_now(published);
        published.map_err(|error| error.to_string())
    }

    /// Returns the position of a channel.
    #[must_use]
    pub fn position(&self, app_id: &str, channel: &str) -> Option<ChannelPosition> {
        let app = self.hub().app_by_id(app_id)?;
        Some(app.channels.get(channel)?.info().position)
    }

    /// Takes the core's messages out of its mailbox.
    pub fn receive_messages(&self) {
        let mut messages = CoreMessages::new();
        let mut context = Context::from_waker(Waker::noop());
        let _ = self.hub().cores.get(0).mailbox.poll_take(&mut context, &mut messages);
        let state = &mut *self.0.state.borrow_mut();
        for message in messages {
            self.0.handle_message(state, message);
        }
    }

    /// Runs one turn of deliveries.
    pub fn deliver_turn(&self) {
        self.0.deliver_turn(&mut self.0.state.borrow_mut());
    }

    /// Takes all messages out of the mailbox and delivers them.
    pub fn deliver(&self) {
        self.receive_messages();
        while self.0.state.borrow().has_work() {
            self.deliver_turn();
        }
    }

    /// Advances the clock by `time`, then runs all periodic work once, except
    /// [`ManualCore::remove_expired`].
    pub fn advance_time(&self, time: Duration) {
        self.hub().clock.advance(time);
        self.run_periodic_work();
    }

    /// Runs all periodic work once, except [`ManualCore::remove_expired`].
    pub fn run_periodic_work(&self) {
        for round in 0..ROUNDS {
            self.0.check_sessions(round);
        }
        self.0.announce_due_changes();
        self.0.requeue();
        self.0.resume_waiting();
        let state = &mut *self.0.state.borrow_mut();
        let due = self.0.due_of_apps(state);
        self.0.close_all(state, &due);
    }

    /// Removes expired data from all channels.
    pub fn remove_expired(&self) {
        for part in 0..Hub::expiry_parts() {
            self.hub().remove_expired(part);
        }
    }

    /// Returns what the core still holds.
    #[must_use]
    pub fn leftovers(&self) -> Leftovers {
        let state = self.0.state.borrow();
        let hub = self.hub();
        let apps = hub.apps();
        let totals = hub.metrics.totals();
        Leftovers {
            sessions: state.sessions.len(),
            channels: (state.channels.len(), state.slots.len()),
            ready: (state.ready.len(), state.direct.len()),
            app_ends: state.app_ends.len(),
            uncounted: state.uncounted.len(),
            waiting_to_subscribe: state.waiting.len() + state.postponed.len(),
            budget: hub.cores.get(0).budget.waiting(),
            registered: apps.iter().map(|app| app.channels.len()).sum(),
            connections: apps.iter().map(|app| app.connections()).sum(),
            users: apps.iter().map(|app| app.users.len()).sum(),
            history_bytes: hub.broker.local.history_bytes(),
            cache_bytes: apps.iter().map(|app| app.cache.bytes()).sum(),
            gauges: [
                totals.connections,
                totals.subscriptions,
                totals.client_queue_bytes,
                totals.slow_clients,
            ],
        }
    }
}
