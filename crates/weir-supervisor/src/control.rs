//! What the parent and the service process tell each other about workers.
//!
//! A stream socket between the two, one JSON object a line. The parent sends [`ParentReport`]s: a snapshot
//! of everything when a service connects, then each change. The service sends [`ParentRequest`]s; each is
//! answered with [`ParentReport::Done`] or [`ParentReport::Refused`].
//!
//! Reports say how things *are*, so one that is seen twice does no harm. When a service doesn't read
//! fast enough, the parent drops what waits and sends a fresh snapshot later; answers among it are
//! lost, so a caller that waits for one needs a timeout.

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

/// A request longer than this ends the connection. Valid ones are much shorter.
pub const REQUEST_BYTES_MAX: usize = 16 * 1024;
/// No report is longer. Most of it are the last lines of a worker's output: 21 of 500 bytes, which
/// JSON may write with six bytes each.
pub const REPORT_BYTES_MAX: usize = 128 * 1024;
/// Reports that wait for the service to read. Twice the longest, so that one always fits.
pub const WAITING_BYTES_MAX: usize = 2 * REPORT_BYTES_MAX;
/// Counts are reported at most this often.
pub const TOTALS_INTERVAL: Duration = Duration::from_secs(1);
/// Requests that are followed before the parent looks after other things.
pub const REQUESTS_PER_TURN_MAX: usize = 64;
