//! Durable histories of this node: opening, restoring and closing their log.

use std::path::Path;
use std::sync::{Arc, Weak};

use weir_log::Disk;

use super::Hub;
use crate::channel::{HistoryEntry, SavedHistory};
use crate::durable::{
    self, DurableError, DurableFailure, DurableHistories, DurableKey, Histories, OpenedLog,
};
use crate::pusher::channel::ChannelName;
use crate::saved::Saved;
use crate::settings::DURABLE_BYTES_MAX;

impl Hub {
    /// Restores the histories of the previous process: those of the log in `folder`, and others that a graceful
    /// shutdown has saved in `file` ([`Hub::restore`]). From then on, events of apps with durable histories are
    /// written to the log. Must be called once, before anything is published.
    ///
    /// # Errors
    /// Returns an error if the log can't be opened or read, or is of a later version. A damaged log is set aside,
    /// and a damaged file is reported. If the disk is damaged so that the log can't be set aside either, events of
    /// apps with durable histories are rejected.
    pub fn open_histories(
        self: &Arc<Self>,
        folder: &Path,
        file: &Path,
    ) -> Result<Saved, DurableError> {
        let has_durable = self.apps().iter().any(|app| app.is_durable) && self.broker.log.is_none();
        let is_read = has_durable || (folder.exists() && self.broker.log.is_none());
        let opened = is_read.then(|| self.open_log(folder));
        self.begin_histories(opened, has_durable, folder, file)
    }

    pub(crate) fn begin_histories(
        self: &Arc<Self>,
        opened: Option<Result<OpenedLog, DurableError>>,
        has_durable: bool,
        folder: &Path,
        file: &Path,
    ) -> Result<Saved, DurableError> {
        let (mut opened, error) = match opened.transpose() {
            Err(error) if has_durable && error.is_of_disk() => (None, Some(error)),
            opened => (opened?, None),
        };
        let mut restored = self.restore(file).unwrap_or_else(|error| {
            tracing::warn!("{error}");
            Saved::default()
        });
        if let Some(log) = &mut opened {
            let of_log = self.restore_log(log);
            restored.channels += of_log.channels;
            restored.events += of_log.events;
        }
        match (opened.filter(|_| has_durable), error) {
            (_, Some(error)) => self.reject_durable_events(folder, &error),
            (Some(opened), None) => self.start_log(opened).map_err(durable::io_error(folder))?,
            // It lacks what is published from now on, so it must not be continued later.
            (None, None) => durable::remove_folder(folder)?,
        }
        Ok(restored)
    }

    /// Goes on without a log whose disk is damaged.
    fn reject_durable_events(&self, folder: &Path, error: &DurableError) {
        tracing::error!(
            "{error}; events of apps with history.durable are rejected. Replace the disk, or move the folder away, and \
             restart Weir"
        );
        let bytes_max = self.settings().limits.durable_queue_bytes_max;
        let ended = DurableHistories::ended(folder, self.metrics.clone(), bytes_max);
        let is_first = self.broker.durable.set(ended).is_ok();
        debug_assert!(is_first, "the log is opened once");
    }

    fn open_log(&self, folder: &Path) -> Result<OpenedLog, DurableError> {
        OpenedLog::open(folder, &|id| Some(self.app_by_id(id)?.settings().history))
    }

    pub(crate) fn restore_log<D: Disk>(&self, opened: &mut OpenedLog<D>) -> Saved {
        let (mut restored, now) = (Saved::default(), self.clock.now());
        let settings = self.settings();
        let mut channels = Vec::with_capacity(opened.channels.len());
        for ((id, name), history) in std::mem::take(&mut opened.channels) {
            let name = ChannelName::parse(&name, &settings.limits.pusher);
            let (Some(app), Ok(name)) = (self.app_by_id(&id), name) else { continue };
            let history = history.without_expired(&app.settings(), now);
            channels.push((app, name, history));
        }
        // If not all of them have room, the latest do, and those with events before mere positions.
        channels.sort_unstable_by_key(|(_, _, history)| {
            (history.is_empty(), std::cmp::Reverse(history.touched))
        });
        let positions_max = positions_max(settings.limits.channels_max);
        for (app, name, history) in channels {
            // A file with channels of the log is newer: it is of an older Weir, which knows no log, or was written
            // after an error of the disk.
            let is_known = app.channels.get(name.as_str()).is_some();
            if is_known || (history.is_empty() && app.channels.len() >= positions_max) {
                continue;
            }
            let events = history.entries.len();
            if self.broker.local.restore(&app, &name, history) {
                restored.channels += 1;
                restored.events += events;
            }
        }
        restored
    }

    pub(crate) fn start_log<D: Disk + Send + 'static>(
        self: &Arc<Self>,
        opened: OpenedLog<D>,
    ) -> std::io::Result<()> {
        let histories = Box::new(HubHistories(Arc::downgrade(self)));
        let bytes_max = self.settings().limits.durable_queue_bytes_max;
        let parts = (self.metrics.clone(), self.clock.clone(), bytes_max);
        let broker = Arc::clone(&self.broker.local);
        let started = DurableHistories::start(opened, broker, histories, parts)?;
        let is_first = self.broker.durable.set(started).is_ok();
        debug_assert!(is_first, "the log is opened once");
        Ok(())
    }

    /// Writes what is left to the disk, and ends the log. Blocks until that is done. Nothing may be published
    /// afterwards.
    pub fn close_durable_histories(&self) {
        if let Some(durable) = self.broker.durable.get() {
            durable.close();
        }
    }
}

/// The hub's channels with durable histories.
struct HubHistories(Weak<Hub>);

impl Histories for HubHistories {
    fn apps(&self) -> Vec<String> {
        let apps = self.0.upgrade().map(|hub| hub.apps()).unwrap_or_default();
        let durable = apps.iter().filter(|app| app.is_durable);
        let mut ids: Vec<String> = durable.map(|app| app.settings().id.to_string()).collect();
        ids.sort_unstable();
        ids
    }

    fn each_channel(
        &self,
        is_included: &dyn Fn(&SavedHistory) -> bool,
        write: &mut dyn FnMut(&[u8]) -> Result<(), DurableFailure>,
    ) -> Result<(), DurableFailure> {
        let apps = self.0.upgrade().map(|hub| hub.apps()).unwrap_or_default();
        for app in apps.into_iter().filter(|app| app.is_durable) {
            let id = app.settings().id.to_string();
            let channels = app.channels.with_prefix("");
            for channel in channels {
                let history = channel.saved_history().filter(is_included);
                if let Some(record) =
                    history.and_then(|history| record(&id, channel.name.as_str(), history))
                {
                    write(&record)?;
                }
            }
        }
        Ok(())
    }

    fn channel(&self, (app, name): &DurableKey) -> Option<Vec<u8>> {
        let channel = self.0.upgrade()?.app_by_id(app).and_then(|app| app.channels.get(name));
        let history = channel.and_then(|channel| channel.saved_history());
        record(app, name, history.unwrap_or_else(SavedHistory::unused))
    }
}

fn record(app: &str, channel: &str, history: SavedHistory) -> Option<Vec<u8>> {
    durable::encode_channel(app, channel, &newest_of(history)).ok()
}

/// Returns how many channels of an app there may be until positions without events take no more room. The log has those
/// of all channels since it was rewritten, also of channels that nobody uses any more, so new ones need the rest.
const fn positions_max(channels_max: usize) -> usize {
    channels_max - channels_max.div_ceil(10)
}

/// Returns what fits into one record. That is all, unless the history is from a time with larger settings.
fn newest_of(mut history: SavedHistory) -> SavedHistory {
    let mut left = DURABLE_BYTES_MAX;
    let fits = |entry: &&HistoryEntry| {
        let bytes = entry.frame.wire().len();
        let has_room = bytes <= left;
        left = left.saturating_sub(bytes);
        has_room
    };
    let count = history.entries.iter().rev().take_while(fits).count();
    history.entries.drain(..history.entries.len() - count);
    history
}
