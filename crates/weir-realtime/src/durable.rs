//! Histories that survive the death of the process (`history.durable` of an app), without a shared log.
//!
//! A thread owns a log on the disk (weir-log). It writes each event to the log, and publishes it then, so no
//! client receives an event that a restart could forget: the channel continues with the same epoch and
//! offsets after `kill -9`. Events are written to the page cache of the kernel, and synced each second. A power
//! cut may lose the last ones; so all channels begin new epochs if the machine has been started since, and
//! the log was not closed.
//!
//! A damaged log never prevents a start: what can be read is restored, in new epochs, and the folder of the
//! log is set aside as a whole. If not even that is possible on a damaged disk, events are rejected. A log of a later
//! version does prevent a start.

mod order;
mod owner;
mod record;
mod replay;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rustix::io::Errno;
use tokio::sync::oneshot;
use weir_base::clock::{Clock, Timestamp};
use weir_base::seldom::Seldom;
use weir_log::{
    Disk, OpenError, RealDisk, RecordError, SegmentLog, SegmentLogOptions, SyncError, Syncer,
};

pub use self::order::DurableFailure;
pub(crate) use self::order::DurableKey;
pub(crate) use self::order::OwnedEvent;
use self::order::{Order, Publishing, WaitingRoom};
pub(crate) use self::owner::Histories;
use self::owner::Owner;
pub(crate) use self::record::encode_channel;
use self::replay::Replay;
use crate::app::App;
use crate::broker::LocalBroker;
use crate::channel::{Published, SavedHistory};
use crate::metrics::{LimitKind, RealtimeMetrics};
use crate::settings::HistoryLimits;

/// The longest record: a channel with [`DURABLE_BYTES_MAX`](crate::settings::DURABLE_BYTES_MAX) of events and
/// a cached event of as many, whose data and frame may each take six times that in JSON.
const RECORD_BYTES_MAX: u32 = 16 << 20;
/// How often the log is synced. A power cut loses at most this much.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// Why the log can't be used.
#[derive(Debug, thiserror::Error)]
pub enum DurableError {
    /// The log can't be opened.
    #[error("the log of durable histories in {folder}: {source}")]
    Open { folder: PathBuf, source: OpenError },
    /// The log was written by a later version of Weir.
    #[error(
        "{folder} has durable histories in format {found}; this program reads formats up to {}. Start the later \
         Weir, or move the folder away: channels then begin new epochs",
        record::VERSION
    )]
    Version { folder: PathBuf, found: u32 },
    /// The log can't be read at the moment.
    #[error("the log of durable histories: {0}")]
    Read(#[from] RecordError),
    /// The folder can't be created, removed or renamed, or a thread can't be started.
    #[error("the log of durable histories in {folder}: {source}")]
    Io { folder: PathBuf, source: io::Error },
}

/// The log, and what it had.
#[derive(Debug)]
pub(crate) struct OpenedLog<D: Disk = RealDisk> {
    log: SegmentLog<D>,
    pub(crate) channels: HashMap<DurableKey, SavedHistory>,
    /// Damaged records and ranges. Their log is set aside.
    damages: u64,
    failure: DiskFailure,
}

/// The thread of the log, to which events are passed.
#[derive(Debug)]
pub(crate) struct DurableHistories {
    orders: Sender<Order>,
    bytes_max: AtomicUsize,
    metrics: RealtimeMetrics,
    /// Whether the log was closed with everything on the disk.
    is_complete: AtomicBool,
}

impl OpenedLog {
    /// Opens the log in a folder. `limits` returns what the channels of an app keep; None: they are not
    /// restored.
    pub(crate) fn open(
        folder: &Path,
        limits: &dyn Fn(&str) -> Option<HistoryLimits>,
    ) -> Result<Self, DurableError> {
        Self::replay(folder, open_log(folder), limits)
    }

    fn replay(
        folder: &Path,
        opened: Result<(SegmentLog<RealDisk>, u64), DurableError>,
        limits: &dyn Fn(&str) -> Option<HistoryLimits>,
    ) -> Result<Self, DurableError> {
        let (log, replay) = match opened {
            Ok((log, damages)) => {
                let mut replay = Replay::read(&log, limits)?;
                replay.damages += damages + u64::from(DiskFailure::of(folder).is_noted());
                (Some(log), replay)
            }
            Err(error) if error.is_damage() => {
                tracing::error!("nothing of the log of durable histories can be read: {error}");
                (None, Replay::unreadable())
            }
            Err(error) => return Err(error),
        };
        if let Some(found) = replay.later_version {
            return Err(DurableError::Version { folder: folder.to_owned(), found });
        }
        let damages = replay.damages;
        let (channels, has_cut) = replay.into_channels(&boot_id());
        if damages > 0 || has_cut {
            tracing::warn!(
                damages,
                "durable histories may lack their last events, so these channels begin new epochs"
            );
        }
        let log = match log {
            Some(log) if damages == 0 => log,
            damaged => {
                drop(damaged);
                set_aside(folder)?;
                open_log(folder)?.0
            }
        };
        Ok(Self { log, channels, damages, failure: DiskFailure::of(folder) })
    }
}

/// A note in the folder of a log that its disk had an error: events that were acknowledged may not be on it, although
/// they could still be read. Then channels must begin new epochs.
#[derive(Clone, Debug)]
pub(crate) struct DiskFailure(PathBuf);

impl DiskFailure {
    fn of(folder: &Path) -> Self {
        Self(folder.join("failed"))
    }

    fn is_noted(&self) -> bool {
        self.0.exists()
    }

    fn note(&self) {
        if let Err(error) = std::fs::write(&self.0, "the disk had an error\n") {
            let path = self.0.display();
            tracing::error!(%error, "cannot note in {path} that the log of durable histories is incomplete");
        }
    }
}

impl DurableHistories {
    /// Starts the thread. The channels must have been restored.
    pub(crate) fn start<D: Disk + Send + 'static>(
        opened: OpenedLog<D>,
        broker: Arc<LocalBroker>,
        histories: Box<dyn Histories>,
        (metrics, clock, bytes_max): (RealtimeMetrics, Clock, usize),
    ) -> io::Result<Self> {
        metrics.durable_log_damages(opened.damages);
        let (syncer, failure) = (opened.log.syncer(), opened.failure);
        let parts = (metrics.clone(), clock.clone());
        let mut owner = Owner::new(opened.log, broker, histories, boot_id(), parts);
        owner.begin();
        let (orders, received) = channel();
        let (alive, ended) = channel::<()>();
        let name = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let noted = failure.clone();
        let syncing =
            name("weir-histories-sync").spawn(move || sync(&syncer, &ended, &clock, &noted))?;
        name("weir-histories").spawn(move || {
            let (closed, reply) = owner.run(&received);
            // A full disk is none: what was delivered is in the page cache.
            if closed == Err(DurableFailure::Ended) {
                failure.note();
            }
            // Nothing may change the folder after the reply: the next process may have opened it.
            drop(alive);
            let _ = syncing.join();
            if let Some(reply) = reply {
                let _ = reply.send(closed.is_ok());
            }
        })?;
        let (bytes_max, is_complete) = (AtomicUsize::new(bytes_max), AtomicBool::new(false));
        Ok(Self { orders, bytes_max, metrics, is_complete })
    }

    /// Returns what rejects all events, because the disk of the log is damaged.
    pub(crate) fn ended(folder: &Path, metrics: RealtimeMetrics, bytes_max: usize) -> Self {
        // If the log can be read again later, it may lack what a saved file had.
        DiskFailure::of(folder).note();
        metrics.durable_log_damages(1);
        let (orders, _) = channel();
        let (bytes_max, is_complete) = (AtomicUsize::new(bytes_max), AtomicBool::new(false));
        Self { orders, bytes_max, metrics, is_complete }
    }

    /// Replaces the limit of the bytes that wait, and notes that there may be other apps.
    pub(crate) fn reload(&self, bytes_max: usize) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
        // A log that has ended has no use for it.
        let _ = self.orders.send(Order::NoteApps);
    }

    /// Writes events, all or none, and publishes them then. Returns the last one.
    pub(crate) async fn publish(
        &self,
        app: Arc<App>,
        events: Vec<OwnedEvent>,
        now: Timestamp,
    ) -> Result<Published, DurableFailure> {
        let bytes_max = self.bytes_max.load(Ordering::Relaxed);
        let room = WaitingRoom::take(self.metrics.durable_queue(), &events, bytes_max);
        let room = room.ok_or_else(|| {
            self.metrics.limit_hit(LimitKind::DurableQueue);
            DurableFailure::Busy
        })?;
        let (reply, replied) = oneshot::channel();
        let order = Order::Publish(Publishing { app, events, now, reply, room });
        self.orders.send(order).map_err(|_| DurableFailure::Ended)?;
        replied.await.map_err(|_| DurableFailure::Ended)?
    }

    /// Writes what is left to the disk, and ends the thread. Blocks until that is done.
    pub(crate) fn close(&self) {
        let (closed, is_closed) = channel();
        if self.orders.send(Order::Close(closed)).is_ok() {
            self.is_complete.store(is_closed.recv() == Ok(true), Ordering::SeqCst);
        }
    }

    /// Returns whether the log was closed, and has all that was published.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete.load(Ordering::SeqCst)
    }
}

/// Syncs the log until its owner has ended.
fn sync<D: Disk>(syncer: &Syncer<D>, ended: &Receiver<()>, clock: &Clock, failure: &DiskFailure) {
    let (seldom, mut is_noted) = (Seldom::default(), false);
    while ended.recv_timeout(SYNC_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let Err(error) = syncer.sync().and_then(|_| syncer.maintain()) else { continue };
        if matches!(error, SyncError::Poisoned(_)) && !std::mem::replace(&mut is_noted, true) {
            failure.note();
        }
        if seldom.is_due(clock.now()) {
            tracing::warn!(%error, "the log of durable histories");
        }
    }
}

/// Opens the log. Also returns the number of damaged ranges.
fn open_log(folder: &Path) -> Result<(SegmentLog<RealDisk>, u64), DurableError> {
    let disk = RealDisk::new(folder).map_err(io_error(folder))?;
    let opened = SegmentLog::open(disk, options());
    let (log, report) =
        opened.map_err(|source| DurableError::Open { folder: folder.to_owned(), source })?;
    Ok((log, report.damages))
}

impl DurableError {
    /// Returns whether the error is due to the bytes of the log or to the disk, and not to the system or the version.
    fn is_damage(&self) -> bool {
        use OpenError as E;
        let Self::Open { source, .. } = self else { return self.is_of_disk() };
        match source {
            E::Corrupt { .. } | E::Foreign { .. } | E::NoIdentity => true,
            E::Io { .. } => self.is_of_disk(),
            E::Version { .. } | E::Options(_) | E::Poisoned(_) => false,
        }
    }

    /// Returns whether the disk, or the structure of its file system, is damaged: another attempt has the same result.
    pub(crate) fn is_of_disk(&self) -> bool {
        const DAMAGES: [Errno; 5] =
            [Errno::IO, Errno::NODATA, Errno::BADMSG, Errno::UCLEAN, Errno::REMOTEIO];
        let (Self::Open { source: OpenError::Io { source, .. }, .. } | Self::Io { source, .. }) =
            self
        else {
            return false;
        };
        let code = source.raw_os_error();
        DAMAGES.iter().any(|damage| code == Some(damage.raw_os_error()))
    }
}

/// Renames the folder of a damaged log, which replaces one that was set aside before.
fn set_aside(folder: &Path) -> Result<(), DurableError> {
    let aside = folder.with_extension("damaged");
    remove_folder(&aside)?;
    std::fs::rename(folder, &aside).map_err(io_error(folder))?;
    tracing::error!("the damaged log of durable histories is now in {}", aside.display());
    Ok(())
}

/// Removes the folder of a log, if it exists.
pub(crate) fn remove_folder(folder: &Path) -> Result<(), DurableError> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(folder)(error)),
        _ => Ok(()),
    }
}

pub(crate) fn io_error(folder: &Path) -> impl Fn(io::Error) -> DurableError {
    move |source| DurableError::Io { folder: folder.to_owned(), source }
}

/// Segments are small: the last one is read as a whole after a crash, and one more is allocated.
fn options() -> SegmentLogOptions {
    SegmentLogOptions {
        segment_bytes: 32 << 20,
        reserve_bytes: 1 << 20,
        record_bytes_max: RECORD_BYTES_MAX,
        ..SegmentLogOptions::default()
    }
}

/// Returns what identifies this start of the machine. Unknown: nothing that any other start had.
fn boot_id() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    read.map_or_else(|_| fastrand::u64(..).to_string(), |id| id.trim().to_owned())
}

#[cfg(test)]
mod tests;
