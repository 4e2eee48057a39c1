//! The state of one core: its connections, the channels that they are subscribed to, and its
//! queues.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::RandomState;
use slab::Slab;
use weir_base::token_bucket::TokenBucket;

use super::close_reason::CloseReason;
use crate::app::App;
use crate::channel::Channel;
use crate::cores::{Broadcast, ChannelId, DirectMessage, SessionKey, key_of};
use crate::fanout::Fanout;
use crate::pusher::socket_id::SocketId;
use crate::session::ClientSession;

/// The most bytes of one read from a socket, and of one write from an outbox.
pub(super) const BUFFER_BYTES: usize = 16 << 10;

/// The state of one core. Borrowed for one turn at a time, never across an await.
#[derive(Debug, Default)]
pub(crate) struct ShardState {
    pub(crate) sessions: Slab<Box<ClientSession>>,
    pub(crate) channels: Slab<LocalChannel>,
    /// Indexes of channels in `channels`.
    pub(super) slots: HashMap<ChannelId, u32, RandomState>,
    /// Channels with messages to deliver, in the order of their turns.
    pub(super) ready: VecDeque<u32>,
    /// Messages to single connections.
    pub(super) direct: VecDeque<DirectMessage>,
    /// Apps whose connections are being closed, each at most once.
    pub(super) app_ends: Vec<AppEnd>,
    /// Channels with changes to announce later, to subscribers here or on other cores.
    pub(super) uncounted: HashMap<ChannelId, (Arc<Channel>, Arc<App>), RandomState>,
    /// Connections that wait until they may subscribe, in order of arrival.
    pub(super) waiting: VecDeque<SessionKey>,
    /// Connections with a postponed request. They join `waiting` after a pause.
    pub(super) postponed: VecDeque<SessionKey>,
    pub(super) subscribe_bucket: TokenBucket,
    /// Buffers of the core, shared by its connections.
    pub(super) input: Vec<u8>,
    pub(super) output: Vec<u8>,
    pub(super) write_buffer: Vec<u8>,
    /// Connections to close after a turn, because they are broken or too slow.
    pub(super) broken: Vec<(SessionKey, CloseReason)>,
}

/// A channel with subscribers on this core.
#[derive(Debug)]
pub(crate) struct LocalChannel {
    pub(crate) channel: Arc<Channel>,
    pub(crate) app: Arc<App>,
    pub(crate) fanout: Fanout,
    pub(super) is_ready: bool,
}

/// An app that was removed or disabled, and its connections that are still to be closed.
#[derive(Debug)]
pub(super) struct AppEnd {
    pub(super) app: Arc<App>,
    pub(super) connections: Vec<SocketId>,
    pub(super) steps_left: usize,
}

impl ShardState {
    pub(super) fn new() -> Self {
        let buffer = || vec![0; BUFFER_BYTES];
        Self { input: buffer(), write_buffer: buffer(), ..Self::default() }
    }

    /// Returns the index of the channel in `channels`. Adds it if necessary.
    pub(super) fn slot(&mut self, channel: &Arc<Channel>, app: &Arc<App>) -> u32 {
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

    /// Removes the channel if it has no subscribers.
    pub(super) fn forget_if_empty(&mut self, slot: u32) {
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

    /// Queues a broadcast for its channel's next turn. Drops it if the channel has no subscribers
    /// on this core.
    pub(super) fn sort_in(&mut self, broadcast: Broadcast) {
        let Some(slot) = self.slots.get(&broadcast.channel).copied() else { return };
        let local = &mut self.channels[slot as usize];
        local.fanout.push(broadcast);
        if !std::mem::replace(&mut local.is_ready, true) {
            self.ready.push_back(slot);
        }
    }

    /// Returns whether anything must be delivered.
    pub(super) fn has_work(&self) -> bool {
        !self.ready.is_empty() || !self.direct.is_empty()
    }

    /// Returns the connection with this id, if this core has it.
    pub(super) fn session_of(&self, socket_id: SocketId) -> Option<SessionKey> {
        let key = key_of(socket_id);
        let session = self.sessions.get(key as usize)?;
        (session.socket_id == socket_id).then_some(key)
    }

    pub(super) fn session(&mut self, key: SessionKey) -> &mut ClientSession {
        &mut self.sessions[key as usize]
    }
}
