//! Durable histories of this node: opening, restoring and closing their log.

use std::path::Path;
use std::sync::{Arc, Weak};

use weir_log::Disk;

use super::Hub;
use crate::channel::{Channel, HistoryEntry, SavedHistory};
use crate::durable::{self, DurableError, DurableFailure, DurableHistories, Histories, OpenedLog};
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
    /// and a damaged file is reported.
    pub fn open_histories(
        self: &Arc<Self>,
        folder: &Path,
        file: &Path,
    ) -> Result<Saved, DurableError> {
        let has_durable = self.apps().iter().any(|app| app.is_durable) && self.broker.log.is_none();
        let is_read = has_durable || (folder.exists() && self.broker.log.is_none());
        let mut opened = is_read.then(|| self.open_log(folder)).transpose()?;
        let mut restored = self.restore(file).unwrap_or_else(|error| {
            tracing::warn!("{error}");
            Saved::default()
        });
        if let Some(log) = &mut opened {
            let of_log = self.restore_log(log);
            restored.channels += of_log.channels;
            restored.events += of_log.events;
        }
        match opened.filter(|_| has_durable) {
            Some(opened) => self.start_log(opened).map_err(durable::io_error(folder))?,
            // It lacks what is published from now on, so it must not be continued later.
            None => durable::remove_folder(folder)?,
        }
        Ok(restored)
    }

    fn open_log(&self, folder: &Path) -> Result<OpenedLog, DurableError> {
        OpenedLog::open(folder, &|id| Some(self.app_by_id(id)?.settings().history))
    }

    pub(crate) fn restore_log<D: Disk>(&self, opened: &mut OpenedLog<D>) -> Saved {
        let (mut restored, now) = (Saved::default(), self.clock.now());
        let mut channels: Vec<_> = std::mem::take(&mut opened.channels).into_iter().collect();
        // If not all of them have room, the latest do.
        channels.sort_unstable_by_key(|(_, history)| std::cmp::Reverse(history.touched));
        for ((id, name), history) in channels {
            let limits = &self.settings().limits.pusher;
            let (Some(app), Ok(name)) = (self.app_by_id(&id), ChannelName::parse(&name, limits))
            else {
                continue;
            };
            // Only an older Weir, which knows no log, writes a file with channels of the log: it is newer.
            if app.channels.get(name.as_str()).is_some() {
                continue;
            }
            // The log has each channel that had an event since it was rewritten.
            let Some(history) = history.without_expired(&app.settings(), now) else { continue };
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
        write: &mut dyn FnMut(&[u8]) -> Result<(), DurableFailure>,
    ) -> Result<(), DurableFailure> {
        let apps = self.0.upgrade().map(|hub| hub.apps()).unwrap_or_default();
        for app in apps.into_iter().filter(|app| app.is_durable) {
            let id = app.settings().id.to_string();
            let channels = app.channels.with_prefix("");
            for record in channels.iter().filter_map(|channel| record(&id, channel)) {
                write(&record)?;
            }
        }
        Ok(())
    }
}

fn record(app: &str, channel: &Channel) -> Option<Vec<u8>> {
    let history = newest_of(channel.saved_history()?);
    durable::encode_channel(app, channel.name.as_str(), &history).ok()
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
