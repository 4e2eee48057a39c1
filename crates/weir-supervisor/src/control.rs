//! The protocol between the parent and the service process about workers.
//!
//! It uses a stream socket with one JSON object a line. The parent sends [`ParentReport`]s: a
//! snapshot of everything when a service connects, then each change. The service sends
//! [`ParentRequest`]s; the parent replies to each with [`ParentReport::Done`] or
//! [`ParentReport::Refused`].
//!
//! Reports describe state, not changes of it, so a duplicate does no harm. When a service does not
//! read fast enough, the parent drops the queued reports and sends a new snapshot later. Replies in
//! the queue are lost too, so a client that waits for one needs a timeout.

use std::time::Duration;

mod lines;
mod link;
mod message;

pub use lines::{LineSplitter, LineTooLong, encode};
pub(crate) use link::{Incoming, Link};
pub use message::{
    GroupState, ParentCommand, ParentReport, ParentRequest, ParentTotals, RollingState, Used,
    Vacancy, VacantSlot, WorkerAddress, WorkerPhase, WorkerReport,
};

/// Limit of a request. A longer one closes the connection; valid requests are much shorter.
pub const REQUEST_BYTES_MAX: usize = 16 * 1024;
/// Limit of a report. Most of it is the last output of a worker: 21 lines of 500 bytes, each of
/// which JSON may escape as six bytes.
pub const REPORT_BYTES_MAX: usize = 128 * 1024;
/// Limit of the reports queued for the service: twice the longest, so that one always fits.
pub const WAITING_BYTES_MAX: usize = 2 * REPORT_BYTES_MAX;
/// The shortest interval between reports of counters.
pub const TOTALS_INTERVAL: Duration = Duration::from_secs(1);
/// Requests that are processed per iteration of the parent's loop.
pub const REQUESTS_PER_TURN_MAX: usize = 64;
