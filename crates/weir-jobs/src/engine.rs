//! The embedded engine: stores jobs in a segment log, with 30 to 40 bytes of memory per waiting
//! job.
//!
//! The modules, from the inside out:
//! - `arena`, `index`, `waiting_list`, `lane_jobs`, `fair_queue`, `queues`, `reservations`, `cleared`,
//!   `segments`, `state`: the data in memory.
//! - `varint`, `head`, `head_features`, `kept_key`, `body`, `snapshot`, `journal`, `recover`, `rebuild`: the
//!   records of the log, and recovery from them.
//! - `core`, `push`, `work`, `moves`, `due`, `reclaim`, `look`, `sampling`, `kept`, `tracking`, `batching`,
//!   `batch_record`, `crons`, `fairness`, `limited`: the operations, none of which waits.
//! - `sync_thread`, `durability`, `waits`, `timer`, `bulk`, `scan`, `inner`, `embedded`: the
//!   asynchronous code around the operations.

mod arena;
mod batch_record;
mod batching;
mod body;
mod bulk;
mod cleared;
mod core;
mod crons;
mod due;
mod durability;
mod embedded;
mod fair_queue;
mod fairness;
mod head;
mod head_features;
mod index;
mod inner;
mod job_sizes;
mod journal;
mod kept;
mod kept_key;
mod lane_jobs;
mod limit_states;
mod limited;
mod look;
mod moves;
mod push;
mod queues;
mod rates;
mod rebuild;
mod reclaim;
mod recover;
mod reservation_record;
mod reservations;
mod sampling;
mod scan;
mod segments;
mod shared_resources;
#[cfg(test)]
mod simulation;
mod sizing;
mod snapshot;
mod state;
mod sync_thread;
mod timer;
mod tracking;
mod unrecorded;
mod waiting_list;

mod varint;
mod waits;
mod work;

pub use core::{EngineOpenError, log_options};
pub use embedded::EmbeddedStore;
pub use recover::RecoverError;

use self::body::StoredBody;
use self::head::RecordHead;

/// Returns the job's JSON if the record with this head and body is that of a job.
pub(crate) fn job_of_record<'a>(head: &[u8], body: &'a [u8]) -> Option<&'a [u8]> {
    let Ok(RecordHead::Put(_)) = RecordHead::read(head) else { return None };
    StoredBody::read(body).ok().map(|body| body.json)
}
