//! A channel's home orders everything that happens on the channel.
//!
//! Each message gets its sequence number, and enters the mailboxes of the cores, under the home's
//! lock. Mailboxes keep their order, so all subscribers see one order, whichever core publishes. A
//! new subscriber gets the present sequence under the same lock: later messages arrive through the
//! mailbox, earlier ones are in the history.

mod admissions;
mod cache;
mod cached;
mod directory;
mod exchange;
mod history;
mod home;
mod joining;
mod members;
mod meter;
mod prepared;
mod registry;
mod shared;
mod shared_count;
mod shared_members;
mod shared_presence;
mod watch_queue;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_base::clock::Timestamp;

pub(crate) use self::cache::Cache;
use self::cache::Cached;
pub(crate) use self::directory::{DirectoryPart, UserDirectory};
pub(crate) use self::exchange::{
    CacheState, ChannelCounts, ChannelGone, Departure, Join, JoinError, JoinRequest, LeaveRequest,
    Publication, Published, Retention, SavedHistory, TooManyMembers, TryPublishError,
};
pub(crate) use self::history::{EventHistory, HistoryEntry};
use self::home::{Home, Reserved};
pub(crate) use self::members::{ListedMember, VersionedList};
pub(crate) use self::meter::ChannelRates;
pub(crate) use self::prepared::PreparedEvent;
pub(crate) use self::registry::Registry;
pub use self::registry::TooManyChannels;
use self::shared_members::SharedMembers;
pub(crate) use self::watch_queue::WatchQueue;
use crate::cores::{Audience, Broadcast, ChannelId, CoreMessage, Cores, EventKey};
use crate::frame::Frame;
use crate::pusher::channel::{Access, ChannelKind, ChannelName};
use crate::pusher::position::ChannelPosition;
use crate::settings::{AppSettings, PresenceLimits};
use crate::trace::FanoutSpan;
use crate::users::Users;

/// A channel of one app.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) id: ChannelId,
    pub(crate) name: ChannelName,
    pub(crate) kind: ChannelKind,
    /// Number of times that a client was too slow for an event of this channel.
    slowed: AtomicU64,
    /// Cached events of the whole app.
    cache: Arc<Cache>,
    /// The app's users, if this is a part of their directory.
    users: Option<Arc<Users>>,
    /// A lock of std: held for some hundred nanoseconds, never across an await.
    home: Mutex<Home>,
}

impl Channel {
    pub(crate) fn new(
        id: ChannelId,
        name: ChannelName,
        cores: usize,
        cache: Arc<Cache>,
        now: Timestamp,
    ) -> Self {
        let (kind, home) = (name.kind(), Home::new(cores, now));
        let (slowed, home) = (AtomicU64::new(0), Mutex::new(home));
        Self { id, name, kind, slowed, cache, users: None, home }
    }

    /// Returns a part of the directory of these users, whose members are users that are signed in.
    pub(crate) fn into_directory(self, users: &Arc<Users>) -> Self {
        let kind = ChannelKind { access: Access::Presence, caches: false };
        Self { kind, users: Some(Arc::clone(users)), ..self }
    }

    /// Returns a copy of a channel of the shared log, whose position is not known yet.
    pub(crate) fn unsynchronized(self, is_log_connected: bool) -> Self {
        {
            let mut home = self.home();
            home.is_synchronized = false;
            home.is_copy = true;
            home.shared =
                self.kind.has_presence().then(|| Box::new(SharedMembers::new(is_log_connected)));
        }
        self
    }

    fn home(&self) -> MutexGuard<'_, Home> {
        // A panic under the lock is a bug; the state is consistent between statements.
        self.home.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an event its position and queues it for every core with subscribers. Queues nothing if
    /// a core has no room.
    pub(crate) fn publish(
        &self,
        publication: Publication<'_>,
        cores: &Cores,
    ) -> Result<Published, TryPublishError> {
        let mut home = self.home();
        home.check_not_gone()?;
        let reserved = home.reserve(cores, publication.draft.bytes_max())?;
        Ok(self.publish_reserved(&mut home, publication, reserved, cores))
    }

    fn publish_reserved(
        &self,
        home: &mut Home,
        publication: Publication<'_>,
        reserved: Reserved,
        cores: &Cores,
    ) -> Published {
        let Publication { draft, audience, event, data, retention, now, trace } = publication;
        let history_before = home.history.bytes();
        let position = home.next_position(retention);
        let frame = draft.finish(position);
        home.store(&frame, position, retention, now);
        let history_change = difference(home.history.bytes(), history_before);
        if self.kind.caches && retention != Retention::Nothing {
            self.set_cached(home, frame.clone(), Box::from(data), now);
        }
        let (bytes, subscribers) = (frame.wire().len() as u64, home.total() as u64);
        home.meter.add(bytes.saturating_mul(subscribers), now);
        if let Some(trace) = &trace {
            trace.count(subscribers, reserved.len() as u64);
        }
        let key = Some(EventKey::new(self.id, event));
        let message = SubscriberMessage { name: event, frame, audience, event: key, now, trace };
        self.send(home, cores, reserved, message);
        Published { position, subscribers: home.total(), history_change }
    }

    /// Sends a message of the protocol, unless its name is switched off. Ignores the limits of the
    /// cores.
    fn send_always(&self, home: &mut Home, cores: &Cores, message: SubscriberMessage<'_>) {
        if !cores.switches.is_off(message.name, message.now) {
            let reserved = home.reserve_always(cores, message.frame.wire().len());
            self.send(home, cores, reserved, message);
        }
    }

    /// Puts a message into the cores' mailboxes, with the next sequence number.
    fn send(
        &self,
        home: &mut Home,
        cores: &Cores,
        reserved: Reserved,
        message: SubscriberMessage<'_>,
    ) {
        home.sequence += 1;
        home.touched = message.now;
        for watcher in &home.watchers {
            watcher.offer(message.now, &message.frame);
        }
        for (core, budget) in reserved {
            cores.get(core).mailbox.push(CoreMessage::Broadcast(Broadcast {
                channel: self.id,
                sequence: home.sequence,
                frame: message.frame.clone(),
                audience: message.audience,
                event: message.event,
                published_at: message.now,
                trace: message.trace.clone(),
                budget,
            }));
        }
    }

    /// Returns all users of a presence channel: the list of `version` if it is still stored,
    /// otherwise the present one. The list of a large channel may be as old as the interval at
    /// which changes are gathered.
    pub(crate) fn members(
        &self,
        version: Option<u64>,
        limits: &PresenceLimits,
        now: Timestamp,
    ) -> VersionedList {
        let mut home = self.home();
        let age_max = limits.list_age_max(home.members.len());
        home.members.list(version, age_max, now)
    }

    pub(crate) fn info(&self) -> ChannelCounts {
        let home = self.home();
        ChannelCounts {
            subscribers: home.total(),
            users: home.members.len(),
            position: home.position(),
            history_events: home.history.len(),
            history_bytes: home.history.bytes(),
            published: home.meter.total(),
        }
    }

    /// Returns the number of subscribed connections.
    pub(crate) fn subscribers(&self) -> usize {
        self.home().total()
    }

    /// Returns the recent rates of events and bytes per second.
    pub(crate) fn rates(&self, now: Timestamp) -> ChannelRates {
        self.home().meter.rates(now)
    }

    /// Adds to the number of times that a client was too slow.
    pub(crate) fn slowed(&self, times: u64) {
        self.slowed.fetch_add(times, Ordering::Relaxed);
    }

    /// Returns how often a client was too slow for an event of this channel.
    pub(crate) fn times_slowed(&self) -> u64 {
        self.slowed.load(Ordering::Relaxed)
    }

    /// Adds a watcher, which receives all messages sent from now on.
    pub(crate) fn add_watcher(&self, watcher: &Arc<WatchQueue>) -> Result<(), ChannelGone> {
        let mut home = self.home();
        home.check_not_gone()?;
        home.watchers.push(Arc::clone(watcher));
        Ok(())
    }

    pub(crate) fn remove_watcher(&self, watcher: &Arc<WatchQueue>) {
        self.home().watchers.retain(|other| !Arc::ptr_eq(other, watcher));
    }

    /// Returns the channel's position and its newest events after `offset`.
    pub(crate) fn history(
        &self,
        offset: u64,
        events_max: usize,
    ) -> (ChannelPosition, Vec<HistoryEntry>) {
        let home = self.home();
        (home.position(), home.history.newest(offset, events_max).cloned().collect())
    }

    /// Returns the history to save over a restart, or None if no client has a position of this
    /// channel and no event is cached.
    pub(crate) fn saved_history(&self) -> Option<SavedHistory> {
        let home = self.home();
        if !home.has_sent_position && home.cached.is_none() {
            return None;
        }
        let cached = home.cached.as_ref().map(|Cached { frame, data, at, .. }| {
            (data.clone(), HistoryEntry { offset: home.offset, at: *at, frame: frame.clone() })
        });
        Some(SavedHistory {
            position: home.position(),
            entries: home.history.newest(0, usize::MAX).cloned().collect(),
            cached,
            touched: home.touched,
        })
    }

    /// Continues a saved history, on a channel that has no events yet. Returns the bytes of the
    /// history. The channel was used when it was created, which is now: its clients, which were connected to the
    /// previous process however old the last event is, have time to return.
    pub(crate) fn restore(&self, saved: SavedHistory) -> isize {
        let mut home = self.home();
        let SavedHistory { position, entries, cached, touched: _ } = saved;
        (home.epoch, home.offset) = (position.epoch, position.offset);
        home.has_sent_position = true;
        home.history = entries.into_iter().collect();
        if let Some((data, HistoryEntry { frame, at, .. })) = cached {
            self.set_cached(&mut home, frame, data, at);
        }
        difference(home.history.bytes(), 0)
    }

    /// Removes expired data. Returns the change of the history's bytes, and whether the channel is
    /// unused: it is then marked as gone.
    pub(crate) fn remove_expired(&self, app: &AppSettings, now: Timestamp) -> (isize, bool) {
        let mut home = self.home();
        let before = home.history.bytes();
        home.history.trim(now, &app.history);
        self.remove_expired_cache(&mut home, app.cache_age_max, now);
        home.members.remove_expired(app.presence.gather, now);
        home.is_gone = home.total() == 0
            && home.prepared == 0
            && home.watchers.is_empty()
            && home.shared.as_ref().is_none_or(|shared| shared.is_all_sent())
            && home.history.is_empty()
            && home.cached.is_none()
            // A client that left with a position may return, and must still be able to learn that
            // it missed nothing.
            && (!home.has_sent_position || now.since(home.touched) > app.history.age_max);
        (difference(home.history.bytes(), before), home.is_gone)
    }

    /// Clears the history to free memory, and returns the change of its bytes. Clients that recover
    /// are then notified of a gap.
    pub(crate) fn forget_history(&self) -> isize {
        let mut home = self.home();
        let before = home.history.bytes();
        home.history.clear();
        difference(0, before)
    }
}

/// A message to subscribers.
struct SubscriberMessage<'a> {
    name: &'a str,
    frame: Frame,
    audience: Audience,
    event: Option<EventKey>,
    now: Timestamp,
    trace: Option<FanoutSpan>,
}

impl<'a> SubscriberMessage<'a> {
    /// Returns a message of the protocol, for all subscribers.
    fn new(name: &'a str, frame: Frame, now: Timestamp) -> Self {
        Self { name, frame, audience: Audience::Everyone, event: None, now, trace: None }
    }
}

/// Returns `after - before`. Both must fit into `isize`, as sizes in memory do.
fn difference(after: usize, before: usize) -> isize {
    after.cast_signed() - before.cast_signed()
}

#[cfg(test)]
mod tests;
