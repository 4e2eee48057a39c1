//! Histories that outlive a graceful restart: saved after the last event, and restored at the
//! start.
//!
//! The file is removed as soon as it is read. After a crash, there is either no file or one without
//! a valid checksum, so the histories start empty. Clients that recover are then notified of a gap,
//! which is correct, as the last published event is unknown.
//!
//! Format: [`MAGIC`]; records, each after its length (4 bytes, little-endian); CRC-32C of all of
//! that (4 bytes). For each channel, the records are a [`SavedChannel`] in JSON, and its events,
//! each with its time in microseconds (8 bytes) and its JSON. An empty record follows the last
//! channel.

pub(crate) mod format;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use weir_base::clock::Timestamp;

use self::format::{SavedChannel, read_channel, read_record, write_channel, write_record};
use crate::app::App;
use crate::channel::{EventHistory, HistoryEntry, SavedHistory};
use crate::durable::{self, DurableError, DurableHistories, OpenedLog};
use crate::frame::Frame;
use crate::hub::Hub;
use crate::pusher::channel::ChannelName;
use crate::pusher::position::{ChannelPosition, Epoch};
use crate::settings::{AppSettings, HistoryLimits};

/// The first bytes of the file: name and version of the format.
const MAGIC: &[u8; 8] = b"WEIRRT01";

/// The number of channels and events that were saved or restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Number of channels.
    pub channels: usize,
    /// Number of events in their histories.
    pub events: usize,
}

/// Why histories could not be saved or restored.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// The file can't be written or read.
    #[error("{action} {path}: {source}")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// The file has another format, or is incomplete.
    #[error(
        "{path} is incomplete ({reason}): histories start empty, and clients that recover must reload"
    )]
    Damaged { path: PathBuf, reason: &'static str },
    /// The log of durable histories can't be read or removed.
    #[error("{0}")]
    Log(#[from] DurableError),
}

impl Hub {
    /// Writes all histories to `path`, for [`Hub::restore`]. For the next process it must be called
    /// after the last event is published; the file of a backup, in which each channel ends where it
    /// was when it was written, needs [`begin_new_epochs`] before it is restored. With a shared log,
    /// which has them, it writes no file.
    ///
    /// # Errors
    /// Returns an error if the file can't be written. No file exists then.
    pub fn save(&self, path: &Path) -> Result<Saved, SavedError> {
        if self.broker.log.is_some() {
            return Ok(Saved::default());
        }
        write_file(path, &mut |out| {
            let mut saved = Saved::default();
            // A complete log of durable histories has the others. The file of a backup has all.
            let is_in_log =
                |app: &App| self.broker.durable_of(app).is_some_and(DurableHistories::is_complete);
            let is_included = |app: &App| !self.is_handed_over() || !is_in_log(app);
            for app in self.apps().into_iter().filter(|app| is_included(app)) {
                let id = app.settings().id.to_string();
                for channel in app.channels.with_prefix("") {
                    let Some(history) = channel.saved_history() else { continue };
                    write_channel(out, &id, channel.name.as_str(), &history)?;
                    saved.channels += 1;
                    saved.events += history.entries.len();
                }
            }
            Ok(saved)
        })
    }

    /// Reads the file that [`Hub::save`] wrote, and removes it. Must be called before anything is
    /// published. Restores nothing if there is no file.
    ///
    /// # Errors
    /// Returns an error if the file is incomplete or can't be read. Unless it can't be opened, it
    /// is removed.
    pub fn restore(&self, path: &Path) -> Result<Saved, SavedError> {
        let io = |source| SavedError::Io { action: "cannot read", path: path.to_owned(), source };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Saved::default()),
            Err(error) => return Err(io(error)),
        };
        // The file must never be read twice, even if an error follows.
        fs::remove_file(path).map_err(io)?;
        let damaged = |reason| SavedError::Damaged { path: path.to_owned(), reason };
        let channels = read(file).map_err(damaged)?;
        let mut saved = Saved::default();
        for (channel, history) in channels {
            let events = history.entries.len();
            if self.restore_channel(&channel, history) {
                saved.channels += 1;
                saved.events += events;
            }
        }
        Ok(saved)
    }

    /// Restores a channel. Returns false if its app no longer exists, or the channel is no longer
    /// valid or exceeds a limit.
    fn restore_channel(&self, saved: &SavedChannel, history: SavedHistory) -> bool {
        let Some(app) = self.app_by_id(&saved.app) else { return false };
        let Ok(name) = ChannelName::parse(&saved.name, &self.settings().limits.pusher) else {
            return false;
        };
        self.broker.local.restore(&app, &name, history)
    }
}

/// Gives each history of a restored backup a new epoch: those in the file at `path`, and those of the log of
/// durable histories in `log`, which are moved into the file. A backup is older than what clients have
/// seen: with its own epoch, a channel would assign offsets a second time, and clients would miss
/// events without notice. With a new one they are notified of a gap. Does nothing where there are none.
///
/// # Errors
/// Returns an error if the file is incomplete, or if either can't be read or written. Both are unchanged, except
/// that a damaged log is set aside.
pub fn begin_new_epochs(path: &Path, log: &Path) -> Result<Saved, SavedError> {
    let mut channels = HashMap::new();
    match File::open(path) {
        Ok(file) => {
            let damaged = |reason| SavedError::Damaged { path: path.to_owned(), reason };
            let saved = read(file).map_err(damaged)?.into_iter();
            channels.extend(saved.map(|(saved, history)| ((saved.app, saved.name), history)));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => {
            return Err(SavedError::Io { action: "cannot read", path: path.to_owned(), source });
        }
    }
    if log.exists() {
        let of_log = OpenedLog::open(log, &|_| Some(HistoryLimits::NONE))?.channels;
        for (key, history) in of_log {
            // A file with channels of the log is newer, as at a start.
            channels.entry(key).or_insert(history);
        }
    }
    if channels.is_empty() {
        durable::remove_folder(log)?;
        return Ok(Saved::default());
    }
    let saved = write_file(path, &mut |out| {
        let mut saved = Saved::default();
        for ((app, name), history) in &channels {
            let history = history.in_epoch(Epoch(fastrand::u64(..)));
            write_channel(out, app, name, &history)?;
            saved.channels += 1;
            saved.events += history.entries.len();
        }
        Ok(saved)
    })?;
    durable::remove_folder(log)?;
    Ok(saved)
}

impl SavedHistory {
    /// Returns the history of a channel on which nothing was published.
    pub(crate) fn unused() -> Self {
        let position = ChannelPosition { epoch: Epoch(fastrand::u64(..)), offset: 0 };
        Self { position, entries: Vec::new(), cached: None, touched: Timestamp::default() }
    }

    /// Returns what the settings of the app keep of it.
    pub(crate) fn without_expired(mut self, app: &AppSettings, now: Timestamp) -> Self {
        let mut history: EventHistory = self.entries.into_iter().collect();
        history.trim(now, &app.history);
        self.entries = history.newest(0, usize::MAX).cloned().collect();
        self.cached = self.cached.filter(|(_, entry)| now.since(entry.at) < app.cache_age_max);
        self
    }

    /// Returns whether there is a position, and no event.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.cached.is_none()
    }

    /// Returns the same history in another epoch.
    pub(crate) fn in_epoch(&self, epoch: Epoch) -> Self {
        let moved = |entry: &HistoryEntry| {
            let offset = entry.offset;
            let position = |epoch| format!(r#","epoch":"{epoch}","offset":{offset}}}"#);
            let json = entry.frame.json();
            let own = position(self.position.epoch);
            // An event without a position (of a cache) stays as it is.
            let frame = match json.strip_suffix(own.as_bytes()) {
                None => entry.frame.clone(),
                Some(start) => Frame::text(|out| {
                    out.extend_from_slice(start);
                    out.extend_from_slice(position(epoch).as_bytes());
                }),
            };
            HistoryEntry { offset, at: entry.at, frame }
        };
        Self {
            position: ChannelPosition { epoch, ..self.position },
            entries: self.entries.iter().map(moved).collect(),
            cached: self.cached.as_ref().map(|(data, entry)| (data.clone(), moved(entry))),
            touched: self.touched,
        }
    }
}

/// Writes a file whose channels `write` writes: it appears at `path` as a whole, or not at all.
fn write_file(
    path: &Path,
    write: &mut dyn FnMut(&mut dyn Write) -> io::Result<Saved>,
) -> Result<Saved, SavedError> {
    let unfinished = path.with_extension("new");
    let mut written = || -> io::Result<Saved> {
        let mut out = Sums { inner: BufWriter::new(File::create(&unfinished)?), crc: 0 };
        out.write_all(MAGIC)?;
        let saved = write(&mut out)?;
        write_record(&mut out, &[])?;
        let crc = out.crc;
        out.inner.write_all(&crc.to_le_bytes())?;
        out.inner.into_inner()?.sync_all()?;
        fs::rename(&unfinished, path)?;
        Ok(saved)
    };
    written().map_err(|source| {
        let _ = fs::remove_file(&unfinished);
        SavedError::Io { action: "cannot write", path: path.to_owned(), source }
    })
}

/// Computes the checksum of the bytes that pass through.
struct Sums<T> {
    inner: T,
    crc: u32,
}

impl<W: Write> Write for Sums<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.crc = crc32c::crc32c_append(self.crc, &bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Read for Sums<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(bytes)?;
        self.crc = crc32c::crc32c_append(self.crc, &bytes[..read]);
        Ok(read)
    }
}

type Channels = Vec<(SavedChannel, SavedHistory)>;

fn read(file: File) -> Result<Channels, &'static str> {
    const CUT: &str = "it ends too early";
    let mut input = Sums { inner: BufReader::new(file), crc: 0 };
    let mut magic = [0; MAGIC.len()];
    input.read_exact(&mut magic).map_err(|_| CUT)?;
    if magic != *MAGIC {
        return Err("it is not of this version of Weir");
    }
    let mut channels = Channels::new();
    loop {
        let record = read_record(&mut input)?;
        if record.is_empty() {
            break;
        }
        let saved: SavedChannel =
            serde_json::from_slice(&record).map_err(|_| "a channel is not readable")?;
        let history = read_channel(&mut input, &saved)?;
        channels.push((saved, history));
    }
    let expected = input.crc;
    let mut crc = [0; 4];
    input.read_exact(&mut crc).map_err(|_| CUT)?;
    match u32::from_le_bytes(crc) == expected {
        true => Ok(channels),
        false => Err("its checksum differs"),
    }
}

#[cfg(test)]
mod tests;
