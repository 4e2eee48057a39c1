//! A core without sockets, turned by hand: its connections are heard when somebody says so, and
//! what waits for them is taken when somebody says so. For tests and fuzzers ([`crate::measure`]).

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
use crate::hub::{Hub, alone};
use crate::pusher::channel::ChannelName;
use crate::pusher::position::ChannelPosition;
use crate::pusher::socket_id::SocketId;
use crate::session::{ConnectionState, Transport};
use crate::settings::{AppSettings, Settings};

/// One core of a hub. Its own work is never polled.
#[derive(Debug)]
pub struct ManualCore(pub(super) Rc<Shard>);

/// A connection, which may be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManualConnection {
    pub(super) key: SessionKey,
    /// Its id.
    pub socket_id: SocketId,
}

/// What a client has not taken yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnreadMessages {
    /// How many writes it came in.
    pub writes: usize,
    /// How large it is.
    pub bytes: usize,
}

/// What there is. Of a core that everybody has left, nothing: the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Of the core.
    pub sessions: usize,
    /// With subscribers here, by both ways to find them.
    pub channels: (usize, usize),
    /// Channels that have a turn, and messages to single connections.
    pub ready: (usize, usize),
    /// Apps whose connections end.
    pub app_ends: usize,
    /// Channels whose number is to be told.
    pub uncounted: usize,
    /// Connections that wait until they may subscribe.
    pub paced: usize,
    /// Events and bytes that wait for the core.
    pub room: (usize, usize),
    /// Channels of all apps.
    pub registered: usize,
    /// Connections of all apps.
    pub places: usize,
    /// Users who are signed in or watched.
    pub users: usize,
    /// Bytes of all histories.
    pub history_bytes: usize,
    /// Bytes of all events of cache channels.
    pub cache_bytes: usize,
    /// What gauges say: connections, subscriptions, bytes that wait, clients for which something
    /// waits.
    pub gauges: [u64; 4],
}

impl ManualCore {
    /// A core, and a clock that stands still.
    #[must_use]
    pub fn new(settings: Settings, apps: Vec<AppSettings>) -> Self {
        let clock = Clock::manual(Timestamp::from_millis(1_000_000));
        Self(Shard::new(alone::alone(&clock, settings, apps), 0, CancellationToken::new()))
    }

    /// The hub.
    #[must_use]
    pub fn hub(&self) -> &Arc<Hub> {
        &self.0.hub
    }

    /// A connection to this app, if it takes one more.
    #[must_use]
    pub fn connect(&self, app_key: &str) -> Option<ManualConnection> {
        let peer = Peer { address: None, is_tls: true, listener: 0 };
        let (app, place) = self.0.enter_app(app_key, peer).ok()?;
        let state = &mut *self.0.state.borrow_mut();
        let (key, socket_id) = self.0.register(state, app, place, Transport::Events);
        Some(ManualConnection { key, socket_id })
    }

    /// What the connection's task does with bytes that have arrived, at most 16 KiB. Whether it took
    /// them: not before the answers are taken that earlier ones have, nor before it may subscribe
    /// again.
    #[must_use]
    pub fn receive(&self, connection: ManualConnection, bytes: &[u8]) -> bool {
        let state = &mut *self.0.state.borrow_mut();
        // Whoever is gone says nothing more.
        while let Some(key) = state.session_of(connection.socket_id) {
            if state.session(key).owes > 0 && !self.0.may_subscribe(state, key) {
                return false;
            }
            let session = state.session(key);
            if session.postponed.is_some() {
                self.0.take_postponed(state, key);
            } else if session.unheard.is_empty() {
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

    /// The time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.hub().clock.now()
    }

    /// Whether it is there, and be it to end.
    #[must_use]
    pub fn is_there(&self, connection: ManualConnection) -> bool {
        self.0.state.borrow().session_of(connection.socket_id).is_some()
    }

    /// Whether it is there and does not end.
    #[must_use]
    pub fn is_open(&self, connection: ManualConnection) -> bool {
        let state = &mut *self.0.state.borrow_mut();
        let key = state.session_of(connection.socket_id);
        key.is_some_and(|key| !state.session(key).is_closing())
    }

    /// The channels that it is subscribed to.
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

    /// What waits for it.
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

    /// The client takes what waits for it: messages, as JSON. If it was to end after that, it does.
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

    /// The client's socket breaks.
    pub fn cut(&self, connection: ManualConnection) {
        let state = &mut *self.0.state.borrow_mut();
        if let Some(key) = state.session_of(connection.socket_id) {
            self.0.close(state, key, CloseReason::Gone);
        }
    }

    /// Publishes as an application's server does. Its place, if it has one.
    ///
    /// # Errors
    /// It was refused: this is why.
    ///
    /// # Panics
    /// There is no such app, or no channel can have that name.
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
        let published = alone::now(hub.publish(&app, &channel, ServerEvent { name, data, except }));
        published.map(|published| published.position).map_err(|refused| refused.to_string())
    }

    /// Publishes one event to several channels, as an application's server does.
    ///
    /// # Errors
    /// It was refused: this is why.
    ///
    /// # Panics
    /// There is no such app, or no channel can have one of the names.
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
        let event = ServerEvent { name, data, except: None };
        let published = hub.publish_all(&app, channels.iter().map(|channel| (channel, event)));
        let published = alone::now(published);
        published.map_err(|refused| refused.to_string())
    }

    /// Where a channel is.
    #[must_use]
    pub fn position(&self, app_id: &str, channel: &str) -> Option<ChannelPosition> {
        let app = self.hub().app_by_id(app_id)?;
        Some(app.channels.get(channel)?.info().position)
    }

    /// Sorts in the messages that are there.
    pub fn receive_messages(&self) {
        let mut messages = CoreMessages::new();
        let mut context = Context::from_waker(Waker::noop());
        let _ = self.hub().cores.get(0).mailbox.poll_take(&mut context, &mut messages);
        let state = &mut *self.0.state.borrow_mut();
        for message in messages {
            self.0.handle_message(state, message);
        }
    }

    /// One turn of delivering.
    pub fn turn(&self) {
        self.0.turn(&mut self.0.state.borrow_mut());
    }

    /// Opens all messages and delivers everything.
    pub fn deliver(&self) {
        self.receive_messages();
        while self.0.state.borrow().has_work() {
            self.turn();
        }
    }

    /// Time passes; then everything is done once that is done from time to time, but
    /// [`ManualCore::tidy`].
    pub fn pass(&self, time: Duration) {
        self.hub().clock.advance(time);
        for round in 0..ROUNDS {
            self.0.check_sessions(round);
        }
        self.0.announce_due_changes();
        self.0.requeue();
        self.0.let_through();
        let state = &mut *self.0.state.borrow_mut();
        let due = self.0.due_of_apps(state);
        self.0.close_all(state, &due);
    }

    /// Everything is forgotten that is too old.
    pub fn tidy(&self) {
        for part in 0..Hub::tidy_parts() {
            self.hub().tidy(part);
        }
    }

    /// What there is.
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
            paced: state.waiting.len() + state.postponed.len(),
            room: hub.cores.get(0).room.waiting(),
            registered: apps.iter().map(|app| app.channels.len()).sum(),
            places: apps.iter().map(|app| app.connections()).sum(),
            users: apps.iter().map(|app| app.users.known()).sum(),
            history_bytes: hub.broker.history_bytes(),
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
