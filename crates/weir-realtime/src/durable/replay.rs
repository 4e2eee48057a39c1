//! Reads the log of durable histories: what each channel had when the last process ended.

use std::collections::HashMap;

use weir_base::clock::Timestamp;
use weir_log::{Disk, RecordError, SegmentLog};

use super::order::DurableKey;
use super::record::{self, Begin, Header, Record};
use crate::channel::{EventHistory, HistoryEntry, SavedHistory};
use crate::frame::Draft;
use crate::pusher::channel::ChannelKind;
use crate::pusher::position::{ChannelPosition, Epoch};
use crate::pusher::server_message::ChannelEvent;
use crate::saved::format;
use crate::settings::HistoryLimits;

/// The channels of the log.
#[derive(Debug, Default)]
pub(super) struct Replay {
    channels: HashMap<DurableKey, ReplayedChannel>,
    /// The start of the machine on which the last process began, unless the process has closed the log.
    pub(super) open_boot: Option<String>,
    /// Records and ranges that can't be read.
    pub(super) damages: u64,
    pub(super) later_version: Option<u32>,
}

#[derive(Debug)]
struct ReplayedChannel {
    position: ChannelPosition,
    /// Within the limits of the app, so that reading a long log takes no more memory than the histories.
    history: EventHistory,
    cached: Option<(Box<str>, HistoryEntry)>,
    touched: Timestamp,
    /// Whether its last events may be missing: it is as it was on an earlier start of the machine, whose process had
    /// not closed the log.
    is_cut: bool,
}

impl Replay {
    /// Returns what is known of a log of which nothing can be read.
    pub(super) fn unreadable() -> Self {
        Self { damages: 1, ..Self::default() }
    }

    /// Reads all records.
    pub(super) fn read<D: Disk>(
        log: &SegmentLog<D>,
        limits: &dyn Fn(&str) -> Option<HistoryLimits>,
    ) -> Result<Self, RecordError> {
        let (mut replay, reader) = (Self::default(), log.reader());
        let mut buffer = Vec::new();
        for segment in log.segments() {
            let mut positions = Vec::new();
            let heads = log.heads(segment.number, &mut |record| {
                positions.push((record.position, record.record_bytes));
            });
            replay.note(heads)?;
            for (position, bytes) in positions {
                let read = reader.read_sized(position, bytes, &mut buffer);
                if let Some(parts) = replay.note(read)? {
                    replay.add(&buffer[parts.body], limits);
                }
            }
        }
        Ok(replay)
    }

    /// Counts damage. Returns other errors, after which reading may succeed later.
    fn note<T>(&mut self, read: Result<T, RecordError>) -> Result<Option<T>, RecordError> {
        match read {
            Err(error) if error.is_passing() => Err(error),
            Err(error) => {
                tracing::error!(%error, "the log of durable histories");
                self.damages += 1;
                Ok(None)
            }
            Ok(read) => Ok(Some(read)),
        }
    }

    /// Returns the channels on this start of the machine, and whether any lack their last events. Those begin new
    /// epochs: all of them with damage.
    pub(super) fn into_channels(mut self, boot: &str) -> (HashMap<DurableKey, SavedHistory>, bool) {
        self.note_start(boot);
        let (has_damage, mut has_cut) = (self.damages > 0, false);
        let saved = |(key, channel): (DurableKey, ReplayedChannel)| {
            let is_cut = channel.is_cut || has_damage;
            has_cut |= is_cut;
            let saved = channel.into_saved();
            (key, if is_cut { saved.in_epoch(Epoch(fastrand::u64(..))) } else { saved })
        };
        let channels = self.channels.into_iter().map(saved).collect();
        (channels, has_cut)
    }

    /// Notes that a process began. A power cut may have lost events since the last one did.
    fn note_start(&mut self, boot: &str) {
        if self.open_boot.as_ref().is_some_and(|open| open != boot) {
            self.channels.values_mut().for_each(|channel| channel.is_cut = true);
        }
    }

    fn add(&mut self, bytes: &[u8], limits: &dyn Fn(&str) -> Option<HistoryLimits>) {
        match record::parse(bytes) {
            Some(Record::Event { header, data }) => {
                // Events of an app that was removed have no use.
                if let Some(limits) = limits(&header.app) {
                    self.add_event(&limits, header, data);
                }
            }
            Some(Record::Channel(bytes)) => match format::parse_channel(bytes) {
                Ok((key, saved)) => drop(self.channels.insert(key, saved.into())),
                Err(_) => self.damages += 1,
            },
            Some(Record::Begin(Begin { boot, apps, .. })) => {
                self.channels.retain(|(app, _), _| apps.contains(app));
                // The process that wrote this may have ended before it wrote the channels in their new epochs.
                self.note_start(&boot);
                self.open_boot = Some(boot);
            }
            Some(Record::Closed) => self.open_boot = None,
            Some(Record::Later(version)) => self.later_version = Some(version),
            None => self.damages += 1,
        }
    }

    fn add_event(&mut self, limits: &HistoryLimits, header: Header, data: &str) {
        let Header { app: id, channel, position, at_us, name } = header;
        let at = Timestamp::from_micros(at_us);
        let event = ChannelEvent {
            event: &name,
            channel: &channel,
            data: Some(data),
            user_id: None,
            position: None,
        };
        let frame = Draft::new(&event).finish(Some(position));
        let entry = HistoryEntry { offset: position.offset, at, frame };
        let caches = ChannelKind::of(&channel).caches;
        let channel = self.channels.entry((id, channel)).or_insert(ReplayedChannel {
            position,
            history: EventHistory::default(),
            cached: None,
            touched: at,
            is_cut: false,
        });
        channel.continue_at(position);
        if caches {
            channel.cached = Some((Box::from(data), entry.clone()));
        }
        channel.history.push(entry, limits);
        (channel.position, channel.touched) = (position, at);
    }
}

impl ReplayedChannel {
    /// Makes an event at this position the next one. An offset that is given again is that of an event that was
    /// not published, because it could not be written at once.
    fn continue_at(&mut self, ChannelPosition { epoch, offset }: ChannelPosition) {
        self.history.remove_from(offset);
        let last = self.history.newest(0, 1).next();
        let is_next = last.is_none_or(|last| last.offset + 1 == offset);
        self.is_cut &= self.position.epoch == epoch;
        if self.position.epoch != epoch || !is_next {
            self.history.clear();
        }
    }

    fn into_saved(self) -> SavedHistory {
        let Self { position, history, cached, touched, .. } = self;
        let entries = history.newest(0, usize::MAX).cloned().collect();
        SavedHistory { position, entries, cached, touched }
    }
}

impl From<SavedHistory> for ReplayedChannel {
    fn from(saved: SavedHistory) -> Self {
        let SavedHistory { position, entries, cached, touched } = saved;
        let history = entries.into_iter().collect();
        Self { position, history, cached, touched, is_cut: false }
    }
}
