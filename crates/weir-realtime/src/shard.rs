//! What one core does: its connections, and the channels that they are subscribed to.
//!
//! One thread owns all of it; nothing is locked. A connection's task reads; the pump writes what
//! others publish, in turns, so that a burst to thousands of sockets never holds up who reads,
//! pings or connects for longer than a turn.

pub(crate) mod by_hand;
mod client_event;
mod closing;
pub(crate) mod connect;
mod ending;
pub(crate) mod event_stream;
mod list_members;
mod messages;
mod pacing;
mod pump;
mod sign_in;
mod subscribe;
mod task;
mod upkeep;

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use foldhash::fast::RandomState;
use slab::Slab;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use weir_base::token_bucket::TokenBucket;

use crate::app::App;
use crate::channel::Channel;
use crate::fanout::{Fanout, SessionKey};
use crate::hub::{ChannelId, Direct, Hub, Letter};
use crate::session::Session;

/// Bytes that one read takes from a socket, and that one write carries of what waits for a client.
const BUFFER_BYTES: usize = 16 << 10;

/// One core's part of realtime.
#[derive(Debug)]
pub struct Shard {
    pub(crate) index: usize,
    pub(crate) hub: Arc<Hub>,
    pub(crate) state: RefCell<State>,
    /// Somebody waits for the bucket of subscriptions.
    paced: Notify,
    /// An app's connections are to end.
    apps_ending: Notify,
    /// Weir ends: connections are closed.
    draining: CancellationToken,
}

/// All that the core owns. Borrowed for a turn at a time, never across an await.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) sessions: Slab<Box<Session>>,
    pub(crate) channels: Slab<LocalChannel>,
    /// Where in `channels` a channel is.
    slots: HashMap<ChannelId, u32, RandomState>,
    /// Channels with something to deliver, in the order of their turns.
    ready: VecDeque<u32>,
    /// What goes to single connections.
    direct: VecDeque<Direct>,
    /// Apps whose connections end; each once.
    app_ends: Vec<ending::AppEnd>,
    /// Channels whose subscribers, here or on other cores, are to be told their number later.
    uncounted: HashMap<ChannelId, (Arc<Channel>, Arc<App>), RandomState>,
    /// Connections that wait until they may subscribe, in the order in which they came.
    waiting: VecDeque<SessionKey>,
    /// Connections that were postponed: they wait a moment before they wait again.
    postponed: VecDeque<SessionKey>,
    subscribe_bucket: TokenBucket,
    /// The core's own buffers: no connection has any.
    input: Vec<u8>,
    output: Vec<u8>,
    write_buffer: Vec<u8>,
    /// Connections that broke while something was delivered.
    broken: Vec<(SessionKey, closing::Why)>,
}

/// A channel with subscribers on this core.
#[derive(Debug)]
pub(crate) struct LocalChannel {
    pub(crate) channel: Arc<Channel>,
    pub(crate) app: Arc<App>,
    pub(crate) fanout: Fanout,
    is_ready: bool,
}

impl Shard {
    /// The core's part; it delivers only while [`Shard::run`] is polled. `draining` says when
    /// connections are to be closed.
    #[must_use]
    pub fn new(hub: Arc<Hub>, index: usize, draining: CancellationToken) -> Rc<Self> {
        Rc::new(Self {
            index,
            hub,
            state: RefCell::new(State::new()),
            paced: Notify::new(),
            apps_ending: Notify::new(),
            draining,
        })
    }

    /// The core's own work, until its end: delivering, pacing, upkeep, draining. Not tasks of their
    /// own: a core that lost one of them by a panic would go on without delivering anything.
    pub async fn run(self: Rc<Self>) {
        tokio::join!(
            Rc::clone(&self).pump(),
            Rc::clone(&self).pace(),
            Rc::clone(&self).keep_up(),
            Rc::clone(&self).end_apps(),
            Rc::clone(&self).drain(),
        );
    }

    /// Whether there is any app to serve.
    #[must_use]
    pub fn has_apps(&self) -> bool {
        self.hub.has_apps()
    }

    /// How many connections the core has.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state.borrow().sessions.len()
    }
}

impl State {
    fn new() -> Self {
        let buffer = || vec![0; BUFFER_BYTES];
        Self { input: buffer(), write_buffer: buffer(), ..Self::default() }
    }

    /// Where the channel is, with a place made for it if it has none.
    fn slot(&mut self, channel: &Arc<Channel>, app: &Arc<App>) -> u32 {
        if let Some(slot) = self.slots.get(&channel.id) {
            return *slot;
        }
        let slot = self.channels.insert(LocalChannel {
            channel: Arc::clone(channel),
            app: Arc::clone(app),
            fanout: Fanout::default(),
            is_ready: false,
        });
        let slot = u32::try_from(slot).expect("fewer channels than subscriptions");
        self.slots.insert(channel.id, slot);
        slot
    }

    /// Forgets a channel without subscribers.
    fn forget_if_empty(&mut self, slot: u32) {
        let local = &self.channels[slot as usize];
        if local.fanout.len() > 0 {
            return;
        }
        let (id, is_ready) = (local.channel.id, local.is_ready);
        self.channels.remove(slot as usize);
        self.slots.remove(&id);
        if is_ready {
            self.ready.retain(|ready| *ready != slot);
        }
    }

    /// Puts a broadcast where its channel's turn takes it; nobody is left who wants it otherwise.
    fn sort_in(&mut self, letter: crate::hub::Broadcast) {
        let Some(slot) = self.slots.get(&letter.channel).copied() else { return };
        let local = &mut self.channels[slot as usize];
        local.fanout.push(letter);
        if !std::mem::replace(&mut local.is_ready, true) {
            self.ready.push_back(slot);
        }
    }

    /// Whether something is to be delivered.
    fn has_work(&self) -> bool {
        !self.ready.is_empty() || !self.direct.is_empty()
    }

    /// The connection with this id, if it is here.
    fn session_of(&self, socket_id: crate::pusher::socket_id::SocketId) -> Option<SessionKey> {
        let key = crate::session::key_of(socket_id);
        let session = self.sessions.get(key as usize)?;
        (session.socket_id == socket_id).then_some(key)
    }

    fn session(&mut self, key: SessionKey) -> &mut Session {
        &mut self.sessions[key as usize]
    }
}

/// What is told to a core, in the words of the hub.
type Letters = VecDeque<Letter>;

#[cfg(test)]
mod tests;
