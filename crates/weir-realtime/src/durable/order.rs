//! What the thread of the log is ordered to do, and why it may fail.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::mpsc::Sender;

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::oneshot;
use weir_base::clock::Timestamp;
use weir_log::{AppendError, SyncError};

use crate::app::App;
use crate::channel::{PreparedEvent, Published};
use crate::cores::CoreBusy;
use crate::pusher::socket_id::SocketId;
use crate::trace::FanoutSpan;

/// The app and the name of a channel.
pub(crate) type DurableKey = (String, String);

/// An order for the thread.
#[derive(Debug)]
pub(crate) enum Order {
    Publish(Publishing),
    /// The settings may have other apps.
    NoteApps,
    /// Sync everything, end, and reply whether everything is on the disk.
    Close(Sender<bool>),
}

/// Events of which all or none are written, and published then.
#[derive(Debug)]
pub(crate) struct Publishing {
    pub(crate) app: Arc<App>,
    pub(crate) events: Vec<OwnedEvent>,
    pub(crate) now: Timestamp,
    pub(crate) reply: oneshot::Sender<Result<Published, DurableFailure>>,
    pub(crate) room: WaitingRoom,
}

/// An event of the application's server.
#[derive(Debug)]
pub(crate) struct OwnedEvent {
    pub(crate) prepared: PreparedEvent,
    pub(crate) name: Box<str>,
    pub(crate) data: Box<str>,
    pub(crate) except: Option<SocketId>,
    /// None: it is not traced.
    pub(crate) trace: Option<FanoutSpan>,
}

/// Bytes of an order that waits, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct WaitingRoom {
    waiting: Gauge<i64, AtomicI64>,
    bytes: i64,
}

/// What an event takes besides its name and data, so that the limit of bytes also limits their number.
const EVENT_BYTES: usize = 1_024;

impl WaitingRoom {
    /// Counts the bytes of events, unless more than `max` would wait. Events that are larger than the limit
    /// pass alone.
    pub(crate) fn take(
        waiting: &Gauge<i64, AtomicI64>,
        events: &[OwnedEvent],
        max: usize,
    ) -> Option<Self> {
        let size = |event: &OwnedEvent| EVENT_BYTES + event.name.len() + event.data.len();
        let bytes = i64::try_from(events.iter().map(size).sum::<usize>()).unwrap_or(i64::MAX);
        let before = waiting.inc_by(bytes);
        let room = Self { waiting: waiting.clone(), bytes };
        (before == 0 || before.saturating_add(bytes) <= i64::try_from(max).unwrap_or(i64::MAX))
            .then_some(room)
    }
}

impl Drop for WaitingRoom {
    fn drop(&mut self) {
        self.waiting.dec_by(self.bytes);
    }
}

/// Why an event of an app with durable histories was not published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurableFailure {
    /// Too many events wait for delivery.
    #[error("{0}")]
    CoreBusy(#[from] CoreBusy),
    /// Too many events wait for the disk.
    #[error(
        "too many events wait for the log of durable histories (realtime.limits.durable_queue_bytes_max); try again"
    )]
    Busy,
    /// The disk is full.
    #[error("the disk of data_dir is full, so the event can't be written (history.durable)")]
    NoSpace,
    /// The event is too long for the log. Settings that allow such events are rejected.
    #[error("the event is too long for the log of durable histories (history.durable)")]
    TooLong,
    /// The log has ended, or accepts nothing after an error of the disk.
    #[error(
        "the log of durable histories accepts nothing (history.durable): see Weir's log, and restart Weir"
    )]
    Ended,
}

impl From<&AppendError> for DurableFailure {
    fn from(error: &AppendError) -> Self {
        match error {
            AppendError::NoSpace => Self::NoSpace,
            AppendError::Backpressure => Self::Busy,
            AppendError::TooLarge { .. } => Self::TooLong,
            AppendError::Poisoned(_) => Self::Ended,
        }
    }
}

impl From<&SyncError> for DurableFailure {
    fn from(error: &SyncError) -> Self {
        match error {
            SyncError::NoSpace => Self::NoSpace,
            SyncError::Upkeep { .. } => Self::Busy,
            SyncError::Poisoned(_) => Self::Ended,
        }
    }
}
