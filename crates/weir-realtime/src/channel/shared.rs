//! Copies of channels of a log that several nodes share.

use weir_base::clock::Timestamp;

use super::home::Home;
use super::{Channel, HistoryEntry, Publication, Retention, SubscriberMessage, difference};
use crate::cores::{Audience, Cores};
use crate::frame::{Draft, Frame};
use crate::pusher::position::ChannelPosition;
use crate::pusher::server_message::{self, ChannelEvent};
use crate::settings::{AppSettings, HistoryLimits};
use crate::shared_log::{ChannelState, Delivery, LogRecord};

/// The result of a comparison with the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Synchronized {
    /// How often subscribers were notified of events that they may lack.
    pub(crate) gaps: u64,
    /// Events that were delivered late.
    pub(crate) delivered: u64,
    /// Whether events are left because a core has no room.
    pub(crate) is_busy: bool,
    /// The change of the history's bytes.
    pub(crate) history_change: isize,
}

impl Channel {
    /// Delivers the log's next event. Returns the change of the history's bytes as well.
    pub(crate) fn deliver(
        &self,
        record: &LogRecord,
        limits: HistoryLimits,
        cores: &Cores,
        now: Timestamp,
    ) -> (Delivery, isize) {
        let mut home = self.home();
        if home.is_gone || !home.is_synchronized {
            return (Delivery::NotNeeded, 0);
        }
        let (position, continues) = (record.position, home.continues(record));
        if position.epoch == home.epoch && position.offset <= home.offset {
            return (Delivery::NotNeeded, 0);
        }
        let is_next = position.epoch == home.epoch && position.offset == home.offset + 1;
        if !is_next && !continues {
            return (Delivery::Hole, 0);
        }
        let publication = self.publication(record, limits, now);
        let Ok(reserved) = home.reserve(cores, publication.draft.bytes_max()) else {
            return (Delivery::Busy, 0);
        };
        let history_before = home.history.bytes();
        if continues {
            home.history.clear();
        }
        self.publish_reserved(&mut home, publication, reserved, cores);
        (Delivery::Delivered, difference(home.history.bytes(), history_before))
    }

    /// Makes this copy equal to the log's state. Delivers what subscribers lack, and notifies them
    /// of a gap if the log no longer has it.
    pub(crate) fn synchronize(
        &self,
        state: &ChannelState,
        app: &AppSettings,
        cores: &Cores,
        now: Timestamp,
    ) -> Synchronized {
        let limits = app.history;
        let mut home = self.home();
        if home.is_gone {
            return Synchronized::default();
        }
        home.compared_at = now;
        let is_copy = !home.is_synchronized;
        let before = home.history.bytes();
        let mut result = Synchronized::default();
        if home.is_synchronized {
            result.gaps = u64::from(self.skip_lost(&mut home, state, cores, now));
            self.deliver_late(&mut home, state, limits, cores, now, &mut result);
        } else {
            self.copy(&mut home, state, limits, now);
            // Subscribers that came while the log did not respond don't know their position.
            if home.total() > 0 {
                result.gaps = 1;
                self.send_gap(&mut home, cores, now);
            }
        }
        if let Some(members) = &state.members {
            // A new copy has no subscribers, or few that came while the log did not respond.
            let is_new = is_copy && self.users.is_none();
            result.is_busy |= !is_new && !self.has_room_for_members(&home, cores);
            if !result.is_busy {
                self.replace_members(&mut home, members, app, cores, now);
            }
        }
        if let Some(cached) = &state.cached
            && self.kind.caches
            && !result.is_busy
        {
            self.cache_record(&mut home, cached, limits, now);
        }
        result.history_change = difference(home.history.bytes(), before);
        result
    }

    /// Returns whether the cores with subscribers have room for several events.
    pub(crate) fn has_room(&self, cores: &Cores) -> bool {
        self.has_room_for_members(&self.home(), cores)
    }

    /// Returns the position of a copy that is synchronized, or None.
    pub(crate) fn synchronized_position(&self) -> Option<ChannelPosition> {
        let home = self.home();
        home.is_synchronized.then(|| home.position())
    }

    /// Moves the position to just before the log's records, if events before them are lost.
    fn skip_lost(
        &self,
        home: &mut Home,
        state: &ChannelState,
        cores: &Cores,
        now: Timestamp,
    ) -> bool {
        let next = state.records.first().map_or(state.position.offset + 1, |it| it.position.offset);
        if state.position.epoch == home.epoch && next <= home.offset + 1 {
            return false;
        }
        let continues = state.records.first().is_some_and(|first| home.continues(first));
        (home.epoch, home.offset) = (state.position.epoch, next - 1);
        home.history.clear();
        if !continues {
            self.send_gap(home, cores, now);
        }
        !continues
    }

    /// Delivers the events after the copy's position, and a gap for each that is missing, as long as
    /// the cores have room.
    fn deliver_late(
        &self,
        home: &mut Home,
        state: &ChannelState,
        limits: HistoryLimits,
        cores: &Cores,
        now: Timestamp,
        result: &mut Synchronized,
    ) {
        for record in &state.records {
            let offset = record.position.offset;
            if offset <= home.offset {
                continue;
            }
            result.gaps += u64::from(self.skip_to(home, offset - 1, cores, now));
            let publication = self.publication(record, limits, now);
            let Ok(reserved) = home.reserve(cores, publication.draft.bytes_max()) else {
                result.is_busy = true;
                return;
            };
            self.publish_reserved(home, publication, reserved, cores);
            result.delivered += 1;
        }
        result.gaps += u64::from(self.skip_to(home, state.position.offset, cores, now));
    }

    /// Moves the position forward to this offset. Returns whether that skips events.
    fn skip_to(&self, home: &mut Home, offset: u64, cores: &Cores, now: Timestamp) -> bool {
        let is_gap = offset > home.offset;
        if is_gap {
            home.offset = offset;
            home.history.clear();
            self.send_gap(home, cores, now);
        }
        is_gap
    }

    /// Takes over the log's state without sending anything.
    fn copy(&self, home: &mut Home, state: &ChannelState, limits: HistoryLimits, now: Timestamp) {
        (home.epoch, home.offset) = (state.position.epoch, state.position.offset);
        let entry = |record: &LogRecord| HistoryEntry {
            offset: record.position.offset,
            at: record.at,
            frame: self.publication(record, limits, now).draft.finish(Some(record.position)),
        };
        home.history = state.newest_records().iter().map(entry).collect();
        home.history.trim(now, &limits);
        home.is_synchronized = true;
        home.touched = now;
    }

    /// Caches an event, whose position is that of the history or, in an earlier epoch, of none.
    fn cache_record(
        &self,
        home: &mut Home,
        record: &LogRecord,
        limits: HistoryLimits,
        now: Timestamp,
    ) {
        let is_current = record.position.epoch == home.epoch && limits.events_max > 0;
        let position = is_current.then_some(record.position);
        let frame = self.publication(record, limits, now).draft.finish(position);
        self.set_cached(home, frame, record.event.data.clone(), record.at);
    }

    fn send_gap(&self, home: &mut Home, cores: &Cores, now: Timestamp) {
        let position = home.position();
        let frame = Frame::text(|out| {
            server_message::gap(out, self.name.as_str(), position);
        });
        home.has_sent_position = true;
        self.send_always(home, cores, SubscriberMessage::new(server_message::GAP, frame, now));
    }

    fn publication<'a>(
        &self,
        record: &'a LogRecord,
        limits: HistoryLimits,
        now: Timestamp,
    ) -> Publication<'a> {
        let event = &record.event;
        Publication {
            draft: Draft::new(&ChannelEvent {
                event: &event.name,
                channel: self.name.as_str(),
                data: Some(&event.data),
                user_id: None,
                position: None,
            }),
            audience: event.except.map_or(Audience::Everyone, Audience::Except),
            event: &event.name,
            data: &event.data,
            retention: Retention::Log { position: record.position, limits },
            now,
            trace: None,
        }
    }
}
