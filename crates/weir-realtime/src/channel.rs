//! A channel's home: the one place that orders what happens on it.
//!
//! Everything that subscribers see gets its place under the home's lock, and goes into the mailboxes
//! of the cores under the same lock. Mailboxes keep their order, so every subscriber sees the same
//! order, whoever publishes and wherever. Who joins learns the place under the lock too: what has a
//! later place comes through the mailbox, what has an earlier one is in the history.

mod cache;
mod cached;
mod exchange;
mod history;
mod home;
mod joining;
mod members;
mod meter;
mod prepared;
mod registry;
mod watch_queue;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_base::clock::Timestamp;

pub(crate) use self::cache::Cache;
use self::cache::Cached;
pub(crate) use self::exchange::{
    CacheState, ChannelCounts, ChannelGone, Join, JoinError, Joining, Keeps, Leaving, Left,
    Publication, Published, SavedHistory, TooManyMembers, TryPublishError,
};
pub(crate) use self::history::HistoryEntry;
use self::home::{Home, Reserved};
pub(crate) use self::members::{ListedMember, VersionedList};
pub(crate) use self::meter::ChannelRates;
pub(crate) use self::prepared::PreparedEvent;
pub(crate) use self::registry::Registry;
pub use self::registry::TooManyChannels;
pub(crate) use self::watch_queue::WatchQueue;
use crate::cores::{Audience, Broadcast, ChannelId, CoreMessage, Cores, EventKey};
use crate::frame::Frame;
use crate::pusher::channel::{ChannelKind, ChannelName};
use crate::pusher::position::ChannelPosition;
use crate::settings::{AppSettings, PresenceLimits};

/// A channel of one app.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) id: ChannelId,
    pub(crate) name: ChannelName,
    pub(crate) kind: ChannelKind,
    /// Times that a client was too slow for one of its events.
    slowed: AtomicU64,
    /// Of the app.
    cache: Arc<Cache>,
    /// std's lock: held for some hundred nanoseconds, never across an await.
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
        Self { id, name, kind, slowed: AtomicU64::new(0), cache, home: Mutex::new(home) }
    }

    fn home(&self) -> MutexGuard<'_, Home> {
        // A panic under the lock is a fault of the program; the state is whole between statements.
        self.home.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an event its place and hands it to every core with subscribers, or to none.
    pub(crate) fn publish(
        &self,
        publication: Publication<'_>,
        cores: &Cores,
    ) -> Result<Published, TryPublishError> {
        let mut home = self.home();
        home.check_there()?;
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
        let Publication { draft, audience, event, data, keeps, now } = publication;
        let history_before = home.history.bytes();
        let position = home.next_position(keeps);
        let frame = draft.finish(position);
        home.keep(&frame, position, keeps, now);
        let history_change = difference(home.history.bytes(), history_before);
        if self.kind.caches && keeps != Keeps::Nothing {
            self.set_cached(home, frame.clone(), Box::from(data), now);
        }
        let (bytes, subscribers) = (frame.wire().len() as u64, home.total() as u64);
        home.meter.add(bytes.saturating_mul(subscribers), now);
        let key = Some(EventKey::new(self.id, event));
        let message = SubscriberMessage { name: event, frame, audience, event: key, now };
        self.send(home, cores, reserved, message);
        Published { position, subscribers: home.total(), history_change }
    }

    /// One of the protocol's messages, unless its kind is switched off. It can't be refused.
    fn send_always(&self, home: &mut Home, cores: &Cores, message: SubscriberMessage<'_>) {
        if !cores.switches.is_off(message.name, message.now) {
            let reserved = home.reserve_always(cores, message.frame.wire().len());
            self.send(home, cores, reserved, message);
        }
    }

    /// One message into the mailboxes, at the next place.
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
        for (core, room) in reserved {
            cores.get(core).mailbox.push(CoreMessage::Broadcast(Broadcast {
                channel: self.id,
                sequence: home.sequence,
                frame: message.frame.clone(),
                audience: message.audience,
                event: message.event,
                published_at: message.now,
                room,
            }));
        }
    }

    /// All users of a presence channel: of the version that is asked for, if it is still there. Of a
    /// large channel the list may be as old as changes are gathered.
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

    /// Connections that are subscribed.
    pub(crate) fn subscribers(&self) -> usize {
        self.home().total()
    }

    /// How much was published lately, per second.
    pub(crate) fn rates(&self, now: Timestamp) -> ChannelRates {
        self.home().meter.rates(now)
    }

    /// Clients were too slow for its events, so many times.
    pub(crate) fn slowed(&self, times: u64) {
        self.slowed.fetch_add(times, Ordering::Relaxed);
    }

    /// Times that a client was too slow for one of its events.
    pub(crate) fn times_slowed(&self) -> u64 {
        self.slowed.load(Ordering::Relaxed)
    }

    /// `watcher` gets everything that is sent from now on.
    pub(crate) fn add_watcher(&self, watcher: &Arc<WatchQueue>) -> Result<(), ChannelGone> {
        let mut home = self.home();
        home.check_there()?;
        home.watchers.push(Arc::clone(watcher));
        Ok(())
    }

    pub(crate) fn remove_watcher(&self, watcher: &Arc<WatchQueue>) {
        self.home().watchers.retain(|other| !Arc::ptr_eq(other, watcher));
    }

    /// The channel's newest events above `offset`, and its position.
    pub(crate) fn history(
        &self,
        offset: u64,
        events_max: usize,
    ) -> (ChannelPosition, Vec<HistoryEntry>) {
        let home = self.home();
        (home.position(), home.history.newest(offset, events_max).cloned().collect())
    }

    /// What is to be kept over a restart; None: no client knows a position of it.
    pub(crate) fn saved_history(&self) -> Option<SavedHistory> {
        let home = self.home();
        if !home.has_told_position && home.cached.is_none() {
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

    /// Continues a history that was saved, on a channel that has no events yet. Returns the bytes of
    /// the history.
    pub(crate) fn restore(&self, saved: SavedHistory) -> isize {
        let mut home = self.home();
        let SavedHistory { position, entries, cached, touched } = saved;
        (home.epoch, home.offset) = (position.epoch, position.offset);
        home.touched = touched;
        home.has_told_position = true;
        home.history = entries.into_iter().collect();
        if let Some((data, HistoryEntry { frame, at, .. })) = cached {
            self.set_cached(&mut home, frame, data, at);
        }
        difference(home.history.bytes(), 0)
    }

    /// Forgets what is too old. Answers how the bytes of history changed, and whether the channel
    /// is of no more use to anybody; then it is gone.
    pub(crate) fn tidy(&self, app: &AppSettings, now: Timestamp) -> (isize, bool) {
        let mut home = self.home();
        let before = home.history.bytes();
        home.history.trim(now, &app.history);
        self.tidy_cached(&mut home, app.cache_age_max, now);
        home.members.tidy(app.presence.gather, now);
        home.is_gone = home.total() == 0
            && home.prepared == 0
            && home.watchers.is_empty()
            && home.history.is_empty()
            && home.cached.is_none()
            // Whoever left with a position may come back: "nothing was missed" is an answer too.
            && (!home.has_told_position || now.since(home.touched) > app.history.age_max);
        (difference(home.history.bytes(), before), home.is_gone)
    }

    /// Forgets its history: there is no memory for it. Who wants to recover is told of a gap.
    pub(crate) fn forget_history(&self) -> isize {
        let mut home = self.home();
        let before = home.history.bytes();
        home.history.clear();
        difference(0, before)
    }
}

/// What goes to subscribers.
struct SubscriberMessage<'a> {
    name: &'a str,
    frame: Frame,
    audience: Audience,
    event: Option<EventKey>,
    now: Timestamp,
}

impl<'a> SubscriberMessage<'a> {
    /// One of the protocol's own, for everyone.
    fn new(name: &'a str, frame: Frame, now: Timestamp) -> Self {
        Self { name, frame, audience: Audience::Everyone, event: None, now }
    }
}

/// `after - before`: of figures that fit into memory.
fn difference(after: usize, before: usize) -> isize {
    after.cast_signed() - before.cast_signed()
}

#[cfg(test)]
mod tests;
