//! What a core owns: its connections, the channels that they are subscribed to, its queues.

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

/// Bytes that one read takes from a socket, and that one write carries of what waits for a client.
pub(super) const BUFFER_BYTES: usize = 16 << 10;

/// All that the core owns. Borrowed for a turn at a time, never across an await.
#[derive(Debug, Default)]
pub(crate) struct ShardState {
    pub(crate) sessions: Slab<Box<ClientSession>>,
    pub(crate) channels: Slab<LocalChannel>,
    /// Where in `channels` a channel is.
    pub(super) slots: HashMap<ChannelId, u32, RandomState>,
    /// Channels with something to deliver, in the order of their turns.
    pub(super) ready: VecDeque<u32>,
    /// What goes to single connections.
    pub(super) direct: VecDeque<DirectMessage>,
    /// Apps whose connections are closed; each once.
    pub(super) app_ends: Vec<AppEnd>,
    /// Channels whose subscribers, here or on other cores, are to be told their number later.
    pub(super) uncounted: HashMap<ChannelId, (Arc<Channel>, Arc<App>), RandomState>,
    /// Connections that wait until they may subscribe, in the order in which they came.
    pub(super) waiting: VecDeque<SessionKey>,
    /// Connections that were postponed: they wait a moment before they wait again.
    pub(super) postponed: VecDeque<SessionKey>,
    pub(super) subscribe_bucket: TokenBucket,
    /// The core's own buffers: no connection has any.
    pub(super) input: Vec<u8>,
    pub(super) output: Vec<u8>,
    pub(super) write_buffer: Vec<u8>,
    /// Connections that broke while something was delivered.
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

/// An app that was removed or disabled, and those of its connections that are still to be closed.
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

    /// Where the channel is, with a place made for it if it has none.
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

    /// Forgets a channel without subscribers.
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

    /// Puts a broadcast where its channel's turn takes it; nobody is left who wants it otherwise.
    pub(super) fn sort_in(&mut self, broadcast: Broadcast) {
        let Some(slot) = self.slots.get(&broadcast.channel).copied() else { return };
        let local = &mut self.channels[slot as usize];
        local.fanout.push(broadcast);
        if !std::mem::replace(&mut local.is_ready, true) {
            self.ready.push_back(slot);
        }
    }

    /// Whether something is to be delivered.
    pub(super) fn has_work(&self) -> bool {
        !self.ready.is_empty() || !self.direct.is_empty()
    }

    /// The connection with this id, if it is here.
    pub(super) fn session_of(&self, socket_id: SocketId) -> Option<SessionKey> {
        let key = key_of(socket_id);
        let session = self.sessions.get(key as usize)?;
        (session.socket_id == socket_id).then_some(key)
    }

    pub(super) fn session(&mut self, key: SessionKey) -> &mut ClientSession {
        &mut self.sessions[key as usize]
    }
}
