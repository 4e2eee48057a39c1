//! The state of a channel's home: its subscribers, its position, its history and its cached event.

use std::sync::Arc;
use std::time::Duration;

use weir_base::clock::Timestamp;

use super::cache::Cached;
use super::exchange::{ChannelGone, Listing, Retention};
use super::history::{EventHistory, HistoryEntry};
use super::members::{ListedMember, MemberList, MemberSet};
use super::meter::Meter;
use super::shared_members::SharedMembers;
use super::watch_queue::WatchQueue;
use crate::cores::{BudgetReservation, CoreBusy, Cores};
use crate::frame::Frame;
use crate::pusher::channel::ChannelKind;
use crate::pusher::position::{ChannelPosition, Epoch};
use crate::pusher::server_message::{Joined, Recovery};
use crate::settings::HistoryLimits;
use crate::shared_log::LogRecord;

#[derive(Debug)]
pub(super) struct Home {
    /// Set once the channel is removed from the registry. Callers that still hold it must get a new
    /// one there.
    pub(super) is_gone: bool,
    /// Sequence number of the last message to subscribers.
    pub(super) sequence: u64,
    /// False: a copy of a channel of the shared log, whose position is not known yet.
    pub(super) is_synchronized: bool,
    /// When a copy was last compared with the log.
    pub(super) compared_at: Timestamp,
    pub(super) epoch: Epoch,
    /// Offset of the last event in the history.
    pub(super) offset: u64,
    pub(super) history: EventHistory,
    pub(super) cached: Option<Cached>,
    /// Number of subscribers by core.
    pub(super) subscribers: Box<[u32]>,
    pub(super) members: MemberSet,
    /// Whether this is a copy of a channel of the shared log.
    pub(super) is_copy: bool,
    /// Subscriptions of all nodes, as the log last reported them. None: only those of this node are known.
    pub(super) shared_count: Option<usize>,
    /// Whether the log has subscriptions of this node, or had them before it was emptied.
    pub(super) is_counted: bool,
    /// The members by node, of a presence channel of the shared log.
    pub(super) shared: Option<Box<SharedMembers>>,
    /// Number of subscribers that receive batched changes of the members.
    pub(super) member_followers: u32,
    /// When the last count was sent to subscribers.
    pub(super) count_sent_at: Timestamp,
    /// Whether subscribers joined or left since then, so that the count or the members may have
    /// changed.
    pub(super) is_count_due: bool,
    /// When the full list was last sent because a large channel had become small again.
    pub(super) listed_at: Option<Timestamp>,
    pub(super) touched: Timestamp,
    /// Number of prepared events. The channel is not removed while there are any.
    pub(super) prepared: u32,
    /// Whether a subscriber or an event was given a position of this epoch.
    pub(super) has_sent_position: bool,
    /// Counts events of servers and clients.
    pub(super) meter: Meter,
    /// Live views of the channel, nearly always none.
    pub(super) watchers: Vec<Arc<WatchQueue>>,
}

/// Room on each core that has subscribers.
pub(super) type Reserved = Vec<(usize, BudgetReservation)>;

impl Home {
    pub(super) fn new(cores: usize, now: Timestamp) -> Self {
        Self {
            is_gone: false,
            sequence: 0,
            is_synchronized: true,
            compared_at: Timestamp::default(),
            epoch: Epoch(fastrand::u64(..)),
            offset: 0,
            history: EventHistory::default(),
            cached: None,
            subscribers: vec![0; cores].into_boxed_slice(),
            members: MemberSet::default(),
            is_copy: false,
            shared_count: None,
            is_counted: false,
            shared: None,
            member_followers: 0,
            count_sent_at: Timestamp::default(),
            is_count_due: false,
            listed_at: None,
            touched: now,
            prepared: 0,
            has_sent_position: false,
            meter: Meter::default(),
            watchers: Vec::new(),
        }
    }

    pub(super) fn check_not_gone(&self) -> Result<(), ChannelGone> {
        if self.is_gone { Err(ChannelGone) } else { Ok(()) }
    }

    pub(super) fn total(&self) -> usize {
        self.subscribers.iter().map(|count| *count as usize).sum()
    }

    pub(super) fn position(&self) -> ChannelPosition {
        ChannelPosition { epoch: self.epoch, offset: self.offset }
    }

    /// Returns whether `record` is the event after the copy's last one, in a new epoch.
    pub(super) fn continues(&self, record: &LogRecord) -> bool {
        record.continues == Some(self.position())
    }

    pub(super) fn cores_with_subscribers(&self) -> impl Iterator<Item = usize> {
        self.subscribers.iter().enumerate().filter(|(_, count)| **count > 0).map(|(core, _)| core)
    }

    /// Returns whether the cores with subscribers have room for several messages.
    pub(super) fn has_room(&self, cores: &Cores) -> bool {
        self.cores_with_subscribers().all(|core| cores.get(core).budget.is_half_empty())
    }

    /// Reserves room on all cores that have subscribers, or on none.
    pub(super) fn reserve(&self, cores: &Cores, bytes: usize) -> Result<Reserved, CoreBusy> {
        let reservation = |core: usize| Ok((core, cores.get(core).budget.reserve(bytes)?));
        self.cores_with_subscribers().map(reservation).collect()
    }

    pub(super) fn reserve_always(&self, cores: &Cores, bytes: usize) -> Reserved {
        let reservation = |core: usize| (core, cores.get(core).budget.reserve_always(bytes));
        self.cores_with_subscribers().map(reservation).collect()
    }

    pub(super) fn next_position(&mut self, retention: Retention) -> Option<ChannelPosition> {
        match retention {
            Retention::History(limits) if limits.events_max > 0 => {
                self.offset += 1;
                self.has_sent_position = true;
                Some(self.position())
            }
            Retention::History(_) => {
                self.begin_history();
                None
            }
            Retention::Log { position, limits } => {
                (self.epoch, self.offset) = (position.epoch, position.offset);
                self.has_sent_position |= limits.events_max > 0;
                (limits.events_max > 0).then_some(position)
            }
            Retention::Nothing => None,
        }
    }

    /// Starts a new epoch for an event without a position. Clients with a position of the old epoch
    /// are notified of a gap.
    fn begin_history(&mut self) {
        (self.epoch, self.offset) = (Epoch(fastrand::u64(..)), 0);
        self.history.clear();
    }

    pub(super) fn store(
        &mut self,
        frame: &Frame,
        position: Option<ChannelPosition>,
        retention: Retention,
        now: Timestamp,
    ) {
        let Some(limits) = retention.limits() else { return };
        if let Some(position) = position {
            let entry = HistoryEntry { offset: position.offset, at: now, frame: frame.clone() };
            self.history.push(entry, &limits);
        }
    }

    /// Returns whether a copy must be compared with the shared log before a subscriber with this
    /// position joins: it is not known, or another node delivered events that have not arrived here.
    pub(super) fn is_behind(&self, since: Option<ChannelPosition>, now: Timestamp) -> bool {
        /// A wrong position causes a comparison only this often.
        const INTERVAL: Duration = Duration::from_millis(100);
        let is_ahead = since.is_some_and(|it| it.epoch == self.epoch && it.offset > self.offset);
        !self.is_synchronized || (is_ahead && now.since(self.compared_at) > INTERVAL)
    }

    /// Returns a new subscriber's position and recovery outcome, and the events that it missed
    /// since `request`.
    pub(super) fn recover(
        &self,
        since: Option<ChannelPosition>,
        limits: &HistoryLimits,
    ) -> (Joined, Vec<Frame>) {
        let is_known = self.is_synchronized && limits.events_max > 0;
        let position = is_known.then(|| self.position());
        let Some(since) = since else {
            return (Joined { position, ..Joined::default() }, Vec::new());
        };
        let same_history = position.is_some() && since.epoch == self.epoch;
        let missed = match self.history.after(since.offset, self.offset) {
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

    pub(super) fn listing(
        &mut self,
        member: ListedMember,
        list_max: usize,
        now: Timestamp,
    ) -> Listing {
        let count = self.members.len();
        let members = match count <= list_max {
            true => {
                self.members.mark_list_sent();
                self.members.list(None, Duration::ZERO, now).members
            }
            false => MemberList::from([member]),
        };
        Listing { members, count }
    }

    /// Returns whether a new subscriber, or one that left, changes the count that subscribers receive. That
    /// of a copy changes when the log reports it.
    pub(super) fn changes_count(&self, kind: ChannelKind) -> bool {
        !kind.has_presence() && !self.is_copy
    }

    /// Returns the count that subscribers receive: users of a presence channel, or subscriptions.
    pub(super) fn count(&self, kind: ChannelKind) -> usize {
        if kind.has_presence() {
            self.members.len()
        } else {
            // This node's own subscriptions may still be on their way to the log.
            self.shared_count.unwrap_or_default().max(self.total())
        }
    }
}
