//! A channel's home: the one place that orders what happens on it.
//!
//! Everything that subscribers see gets its place under the home's lock, and goes into the mailboxes
//! of the cores under the same lock. Mailboxes keep their order, so every subscriber sees the same
//! order, whoever publishes and wherever. Who joins learns the place under the lock too: what has a
//! later place comes through the mailbox, what has an earlier one is in the history.

mod cache;
mod exchange;
mod history;
mod members;
mod meter;
mod prepared;
mod registry;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_base::clock::Timestamp;

pub(crate) use self::cache::Cache;
use self::cache::Cached;
pub(crate) use self::exchange::{
    CacheState, Gone, Info, Join, JoinError, Joining, Keeps, Kept, Leaving, Left, Listing,
    Publication, PublishError, Published,
};
pub(crate) use self::history::{Entry, History};
pub(crate) use self::members::{Change, ListedMember, MemberList, Members, VersionedList};
use self::meter::Meter;
pub(crate) use self::meter::Rates;
pub(crate) use self::prepared::Prepared;
pub(crate) use self::registry::Registry;
pub use self::registry::TooManyChannels;
use crate::frame::Frame;
use crate::hub::{Audience, Broadcast, ChannelId, CoreBusy, Cores, EventKey, Letter, Reservation};
use crate::pusher::channel::{ChannelKind, ChannelName};
use crate::pusher::position::{Epoch, Position};
use crate::pusher::server_message::{self, Joined, Recovery};
use crate::settings::{AppSettings, HistoryLimits, PresenceLimits};
use crate::watch::Queue;

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

#[derive(Debug)]
struct Home {
    /// Removed from the registry: whoever still has it asks the registry again.
    is_gone: bool,
    /// Of the last message to subscribers.
    sequence: u64,
    epoch: Epoch,
    /// Of the last event that history knows.
    offset: u64,
    history: History,
    cached: Option<Cached>,
    /// By core.
    subscribers: Box<[u32]>,
    members: Members,
    /// Subscribers who are told of differences of the members.
    member_followers: u32,
    /// When subscribers were told last how many they are.
    count_told_at: Timestamp,
    /// Somebody came or went since, so their number may be another, and who they are is.
    is_count_due: bool,
    touched: Timestamp,
    /// Events that are prepared for it: it is not removed meanwhile.
    prepared: u32,
    /// A subscriber or an event had a position of this epoch.
    has_told_position: bool,
    /// Of events of servers and clients.
    meter: Meter,
    /// Who looks on: nearly always nobody.
    watchers: Vec<Arc<Queue>>,
}

impl Channel {
    pub(crate) fn new(
        id: ChannelId,
        name: ChannelName,
        cores: usize,
        cache: Arc<Cache>,
        now: Timestamp,
    ) -> Self {
        let epoch = Epoch(fastrand::u64(..));
        let kind = name.kind();
        let home = Home {
            is_gone: false,
            sequence: 0,
            epoch,
            offset: 0,
            history: History::default(),
            cached: None,
            subscribers: vec![0; cores].into_boxed_slice(),
            members: Members::default(),
            member_followers: 0,
            count_told_at: Timestamp::default(),
            is_count_due: false,
            touched: now,
            prepared: 0,
            has_told_position: false,
            meter: Meter::default(),
            watchers: Vec::new(),
        };
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
    ) -> Result<Published, PublishError> {
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
        let message = Message { name: event, frame, audience, event: key, now };
        self.send(home, cores, reserved, message);
        Published { position, subscribers: home.total(), history_change }
    }

    /// Adds a subscriber. `tell` is called under the lock, as what comes and goes has to be told in
    /// its order, from whatever core.
    pub(crate) fn join(
        &self,
        joining: Joining,
        app: &AppSettings,
        cores: &Cores,
        tell: impl FnOnce(&Join),
    ) -> Result<Join, JoinError> {
        let mut home = self.home();
        home.check_there().map_err(|Gone| JoinError::Gone)?;
        let Joining { core, member, recover, wants_member_changes, now } = joining;
        let member_came = match &member {
            Some(member) => self.admit(&mut home, member, app, cores, now)?,
            None => false,
        };
        let occupied = home.total() == 0;
        home.subscribers[core] += 1;
        home.is_count_due |= member_came || !self.kind.has_presence();
        home.member_followers += u32::from(wants_member_changes);
        let history_before = home.history.bytes();
        home.history.trim(now, &app.history);
        let (mut joined, missed) = home.recover(recover, &app.history);
        home.has_told_position |= joined.position.is_some();
        joined.members_version = wants_member_changes.then(|| home.members.version());
        let join = Join {
            sequence: home.sequence,
            joined,
            missed,
            cache: self.cache_state(&home, app.cache_age_max, now),
            members: member.map(|member| home.listing(member, app.presence.list_max, now)),
            member_came,
            occupied,
            subscribers: home.total(),
            history_change: difference(home.history.bytes(), history_before),
        };
        tell(&join);
        Ok(join)
    }

    /// Lets a user in, and tells the others if it is new. Its own connection joins after that, so it
    /// is not told.
    fn admit(
        &self,
        home: &mut Home,
        member: &ListedMember,
        app: &AppSettings,
        cores: &Cores,
        now: Timestamp,
    ) -> Result<bool, JoinError> {
        let max = app.presence.members_max;
        if home.members.contains(&member.user_id) {
            home.members.add(member.clone());
            if home.members.len() <= app.presence.list_max {
                // It is shown all: who is on that list is known from now on.
                self.tell_untold_leavers(home, None, cores, now);
            }
            return Ok(false);
        }
        if home.members.len() >= max {
            return Err(JoinError::TooManyMembers { max });
        }
        let is_small = home.members.len() < app.presence.list_max;
        match is_small {
            true => self.tell_untold_leavers(home, None, cores, now),
            false => home.members.become_large(),
        }
        let is_told = is_small && !cores.switches.is_off(server_message::MEMBER_ADDED, now);
        if is_told {
            let frame = Frame::text(|out| {
                server_message::member_added(out, self.name.as_str(), member.as_member());
            });
            let reserved = home.reserve(cores, frame.wire().len())?;
            let message = Message::new(server_message::MEMBER_ADDED, frame, now);
            let message = Message { audience: Audience::MemberEvents, ..message };
            self.send(home, cores, reserved, message);
        }
        home.members.add(member.clone());
        if is_small {
            self.tell_followers(home, cores, now);
        }
        Ok(true)
    }

    /// Takes a subscriber away. `tell` is called as on [`Channel::join`].
    pub(crate) fn leave(
        &self,
        leaving: Leaving<'_>,
        app: &AppSettings,
        cores: &Cores,
        tell: impl FnOnce(Left),
    ) -> Left {
        let mut home = self.home();
        let Leaving { core, user_id, wants_member_changes, now } = leaving;
        home.subscribers[core] -= 1;
        home.member_followers -= u32::from(wants_member_changes);
        home.touched = now;
        let member_went =
            user_id.is_some_and(|user_id| home.members.remove(user_id) == Change::User);
        home.is_count_due |= member_went || !self.kind.has_presence();
        let is_small = home.members.len() < app.presence.list_max;
        if let Some(user_id) = user_id.filter(|_| member_went && is_small) {
            self.tell_untold_leavers(&mut home, Some(user_id), cores, now);
            self.tell_removed(&mut home, user_id, cores, now);
            if home.members.len() + 1 == app.presence.list_max {
                // Those who were told numbers until now count on from the right one: this user is
                // not in it any more.
                self.send_count(&mut home, cores, now);
            }
            self.tell_followers(&mut home, cores, now);
        }
        let left = Left { member_went, subscribers: home.total() };
        tell(left);
        left
    }

    /// A channel that was large is so no more. Clients that don't follow differences still show who
    /// left meanwhile, as far as they knew them; `leaving` is told of by the caller.
    fn tell_untold_leavers(
        &self,
        home: &mut Home,
        leaving: Option<&str>,
        cores: &Cores,
        now: Timestamp,
    ) {
        for user_id in home.members.become_small() {
            if leaving != Some(&*user_id) {
                self.tell_removed(home, &user_id, cores, now);
            }
        }
    }

    fn tell_removed(&self, home: &mut Home, user_id: &str, cores: &Cores, now: Timestamp) {
        let frame = Frame::text(|out| {
            server_message::member_removed(out, self.name.as_str(), user_id);
        });
        let message = Message::new(server_message::MEMBER_REMOVED, frame, now);
        self.send_always(home, cores, Message { audience: Audience::MemberEvents, ..message });
    }

    /// Tells all subscribers how many they are (the users of a presence channel), and those who
    /// follow its members what changed: if something did, and was not told less than `interval` ago.
    /// Answers whether it is still to be told.
    pub(crate) fn tell_count(&self, interval: Duration, cores: &Cores, now: Timestamp) -> bool {
        let mut home = self.home();
        if !home.is_count_due || home.total() == 0 {
            return false;
        }
        if now.since(home.count_told_at) < interval {
            return true;
        }
        self.send_count(&mut home, cores, now);
        self.tell_followers(&mut home, cores, now);
        false
    }

    fn send_count(&self, home: &mut Home, cores: &Cores, now: Timestamp) {
        let count = home.count(self.kind);
        (home.count_told_at, home.is_count_due) = (now, false);
        let frame = Frame::text(|out| {
            server_message::subscription_count(out, self.name.as_str(), count);
        });
        let message = Message::new(server_message::SUBSCRIPTION_COUNT, frame, now);
        self.send_always(home, cores, message);
    }

    /// What changed of the members since they were told last.
    fn tell_followers(&self, home: &mut Home, cores: &Cores, now: Timestamp) {
        let difference = home.members.take_difference();
        if difference.is_empty() || home.member_followers == 0 {
            return;
        }
        let (version, count) = (home.members.version(), home.members.len());
        let frame = Frame::text(|out| {
            server_message::members_changed(
                out,
                self.name.as_str(),
                difference.from..=version,
                count,
                difference.added(),
                difference.removed(),
            );
        });
        let message = Message::new(server_message::MEMBERS_CHANGED, frame, now);
        self.send_always(home, cores, Message { audience: Audience::MemberChanges, ..message });
    }

    /// One of the protocol's messages, unless its kind is switched off. It can't be refused.
    fn send_always(&self, home: &mut Home, cores: &Cores, message: Message<'_>) {
        if !cores.switches.is_off(message.name, message.now) {
            let reserved = home.reserve_always(cores, message.frame.wire().len());
            self.send(home, cores, reserved, message);
        }
    }

    /// One message into the mailboxes, at the next place.
    fn send(&self, home: &mut Home, cores: &Cores, reserved: Reserved, message: Message<'_>) {
        home.sequence += 1;
        home.touched = message.now;
        for watcher in &home.watchers {
            watcher.offer(message.now, &message.frame);
        }
        for (core, room) in reserved {
            cores.get(core).mailbox.push(Letter::Broadcast(Broadcast {
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

    pub(crate) fn info(&self) -> Info {
        let home = self.home();
        Info {
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
    pub(crate) fn rates(&self, now: Timestamp) -> Rates {
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
    pub(crate) fn add_watcher(&self, watcher: &Arc<Queue>) -> Result<(), Gone> {
        let mut home = self.home();
        home.check_there()?;
        home.watchers.push(Arc::clone(watcher));
        Ok(())
    }

    pub(crate) fn remove_watcher(&self, watcher: &Arc<Queue>) {
        self.home().watchers.retain(|other| !Arc::ptr_eq(other, watcher));
    }

    /// The channel's newest events above `offset`, and its position.
    pub(crate) fn history(&self, offset: u64, events_max: usize) -> (Position, Vec<Entry>) {
        let home = self.home();
        (home.position(), home.history.newest(offset, events_max).cloned().collect())
    }

    /// What is to be kept over a restart; None: nobody knows a position of it.
    pub(crate) fn kept(&self) -> Option<Kept> {
        let home = self.home();
        if !home.has_told_position && home.cached.is_none() {
            return None;
        }
        let cached = home.cached.as_ref().map(|Cached { frame, data, at, .. }| {
            (data.clone(), Entry { offset: home.offset, at: *at, frame: frame.clone() })
        });
        Some(Kept {
            position: home.position(),
            entries: home.history.newest(0, usize::MAX).cloned().collect(),
            cached,
            touched: home.touched,
        })
    }

    /// Takes up what was kept, on a channel that nothing has happened on. Answers the bytes of its
    /// history.
    pub(crate) fn restore(&self, kept: Kept) -> isize {
        let mut home = self.home();
        let Kept { position, entries, cached, touched } = kept;
        (home.epoch, home.offset) = (position.epoch, position.offset);
        home.touched = touched;
        home.has_told_position = true;
        home.history = entries.into_iter().collect();
        if let Some((data, Entry { frame, at, .. })) = cached {
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

/// Room on each core that has subscribers.
type Reserved = Vec<(usize, Reservation)>;

/// What goes to subscribers.
struct Message<'a> {
    name: &'a str,
    frame: Frame,
    audience: Audience,
    event: Option<EventKey>,
    now: Timestamp,
}

impl<'a> Message<'a> {
    /// One of the protocol's own, for everyone.
    fn new(name: &'a str, frame: Frame, now: Timestamp) -> Self {
        Self { name, frame, audience: Audience::Everyone, event: None, now }
    }
}

impl Home {
    fn check_there(&self) -> Result<(), Gone> {
        if self.is_gone { Err(Gone) } else { Ok(()) }
    }

    fn total(&self) -> usize {
        self.subscribers.iter().map(|count| *count as usize).sum()
    }

    fn position(&self) -> Position {
        Position { epoch: self.epoch, offset: self.offset }
    }

    fn cores_with_subscribers(&self) -> impl Iterator<Item = usize> {
        self.subscribers.iter().enumerate().filter(|(_, count)| **count > 0).map(|(core, _)| core)
    }

    /// Room on all cores that have subscribers, or on none.
    fn reserve(&self, cores: &Cores, bytes: usize) -> Result<Reserved, CoreBusy> {
        let room = |core: usize| Ok((core, cores.get(core).room.reserve(bytes)?));
        self.cores_with_subscribers().map(room).collect()
    }

    fn reserve_always(&self, cores: &Cores, bytes: usize) -> Reserved {
        let room = |core: usize| (core, cores.get(core).room.reserve_always(bytes));
        self.cores_with_subscribers().map(room).collect()
    }

    fn next_position(&mut self, keeps: Keeps) -> Option<Position> {
        match keeps {
            Keeps::History(limits) if limits.events_max > 0 => {
                self.offset += 1;
                self.has_told_position = true;
                Some(self.position())
            }
            Keeps::History(_) => {
                self.begin_history();
                None
            }
            Keeps::Nothing => None,
        }
    }

    /// An event that has no place: whoever has one in the history until now is told of a gap.
    fn begin_history(&mut self) {
        (self.epoch, self.offset) = (Epoch(fastrand::u64(..)), 0);
        self.history.clear();
    }

    fn keep(&mut self, frame: &Frame, position: Option<Position>, keeps: Keeps, now: Timestamp) {
        if let (Some(position), Keeps::History(limits)) = (position, keeps) {
            let entry = Entry { offset: position.offset, at: now, frame: frame.clone() };
            self.history.push(entry, &limits);
        }
    }

    /// Where a new subscriber stands, and what it missed.
    fn recover(&self, wish: Option<Position>, limits: &HistoryLimits) -> (Joined, Vec<Frame>) {
        let position = (limits.events_max > 0).then(|| self.position());
        let Some(wish) = wish else {
            return (Joined { position, ..Joined::default() }, Vec::new());
        };
        let same_history = position.is_some() && wish.epoch == self.epoch;
        let missed = match self.history.after(wish.offset, self.offset) {
            Some(missed) if same_history => missed,
            _ => {
                let recovery = Some(Recovery::Gap);
                return (Joined { position, recovery, ..Joined::default() }, Vec::new());
            }
        };
        let missed: Vec<Frame> = missed.map(|entry| entry.frame.clone()).collect();
        let recovery = Recovery::Recovered { events: missed.len() as u64 };
        (Joined { position, recovery: Some(recovery), ..Joined::default() }, missed)
    }

    fn listing(&mut self, member: ListedMember, list_max: usize, now: Timestamp) -> Listing {
        let count = self.members.len();
        let members = match count <= list_max {
            true => self.members.list(None, Duration::ZERO, now).members,
            false => MemberList::from([member]),
        };
        Listing { members, count }
    }

    /// The number that subscribers are told.
    fn count(&self, kind: ChannelKind) -> usize {
        if kind.has_presence() { self.members.len() } else { self.total() }
    }
}

/// `after - before`: of figures that fit into memory.
fn difference(after: usize, before: usize) -> isize {
    after.cast_signed() - before.cast_signed()
}

#[cfg(test)]
mod tests;
