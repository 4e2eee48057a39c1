//! The embedded engine: jobs in a segment log, 30 - 40 bytes of memory for each that waits.
//!
//! From the inside out:
//! - `arena`, `index`, `lane`, `queues`, `reservations`, `cleared`, `segments`, `state`: what memory
//!   holds.
//! - `varint`, `head`, `body`, `snapshot`, `journal`, `recover`, `rebuild`: what the log holds, and the way
//!   back.
//! - `core`, `push`, `work`, `moves`, `due`, `reclaim`, `look`: the operations. No waiting.
//! - `sync_thread`, `durability`, `waits`, `timer`, `bulk`, `scan`, `inner`, `embedded`: the waiting
//!   around them.

mod arena;
mod body;
mod bulk;
mod cleared;
mod core;
mod due;
mod durability;
mod embedded;
mod head;
mod index;
mod inner;
mod journal;
mod look;
mod moves;
mod push;
mod queues;
mod rebuild;
mod reclaim;
mod recover;
mod reservations;
mod scan;
mod segments;
#[cfg(test)]
mod simulation;
mod snapshot;
mod state;
mod sync_thread;
mod timer;
mod waiting_list;

mod varint;
mod waits;
mod work;

pub use core::{EngineOpenError, log_options};
pub use embedded::EmbeddedStore;
pub use recover::RecoverError;

use self::body::StoredBody;
use self::head::RecordHead;

/// The text of the job whose record has this head and body; `None`: it is no job's.
pub(crate) fn job_of_record<'a>(head: &[u8], body: &'a [u8]) -> Option<&'a [u8]> {
    let Ok(RecordHead::Put(_)) = RecordHead::read(head) else { return None };
    StoredBody::read(body).ok().map(|body| body.json)
}
