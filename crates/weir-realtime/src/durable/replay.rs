//! Reads the log of durable histories: what each channel had when the last process ended.

use std::collections::HashMap;

use weir_base::clock::Timestamp;
use weir_log::{Disk, RecordError, SegmentLog};

use super::order::DurableKey;
use super::record::{self, Begin, Header, Record};
use crate::channel::{EventHistory, HistoryEntry, SavedHistory};
use crate::frame::Draft;
use crate::pusher::channel::ChannelKind;
use crate::pusher::position::ChannelPosition;
use crate::pusher::server_message::ChannelEvent;
use crate::saved::format;
use crate::settings::HistoryLimits;

/// The channels of the log.
#[derive(Debug, Default)]
pub(super) struct Replay {
    channels: HashMap<DurableKey, ReplayedChannel>,
    /// The start of the machine on which the last process began, unless the process has closed the log.
    pub(super) open_boot: Option<String>,
    /// Records that can't be read.
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
}

impl Replay {
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

    /// Returns the channels.
    pub(super) fn into_channels(self) -> HashMap<DurableKey, SavedHistory> {
        self.channels.into_iter().map(|(key, channel)| (key, channel.into_saved())).collect()
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
        if self.position.epoch != epoch || !is_next {
            self.history.clear();
        }
    }

    fn into_saved(self) -> SavedHistory {
        let Self { position, history, cached, touched } = self;
        let entries = history.newest(0, usize::MAX).cloned().collect();
        SavedHistory { position, entries, cached, touched }
    }
}

impl From<SavedHistory> for ReplayedChannel {
    fn from(saved: SavedHistory) -> Self {
        let SavedHistory { position, entries, cached, touched } = saved;
        Self { position, history: entries.into_iter().collect(), cached, touched }
    }
}
