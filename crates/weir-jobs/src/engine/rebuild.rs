//! Small state that was lost with a damaged record, taken from the jobs themselves: the name of a
//! queue whose definition is gone, and the hash of a jid whose seed is gone.

use weir_log::{Disk, RecordPosition, RecordReader};

use super::body::StoredBody;
use super::head::Put;
use super::index::hash_of;
use super::journal::read_body;
use super::state::EngineState;
use crate::job_text;
use crate::model::QueueName;
use crate::settings::JobServerLimits;

/// Reads jobs' records where their heads do not suffice.
#[derive(Debug)]
pub(crate) struct Rebuild<D: Disk> {
    reader: RecordReader<D>,
    /// Hashes of records before this were made with a seed that is not known.
    hashes_unknown_before: RecordPosition,
    buffer: Vec<u8>,
}

impl<D: Disk> Rebuild<D> {
    pub(crate) fn new(reader: RecordReader<D>, hashes_unknown_before: RecordPosition) -> Self {
        Self { reader, hashes_unknown_before, buffer: Vec::new() }
    }

    /// Makes the queue and the hash of a job's record such that they fit `state`.
    pub(crate) fn complete(
        &mut self,
        position: RecordPosition,
        put: &mut Put,
        state: &mut EngineState,
    ) {
        if position < self.hashes_unknown_before {
            // A record that can't be read has no jid that anybody could name.
            if let Some(body) = self.body(position) {
                put.hash = hash_of(body.jid, state.seed);
            }
            state.rehashed = true;
        }
        if !state.queues.contains(put.queue) {
            put.queue = self.queue(position, put.queue, state);
        }
    }

    /// The queue that the job itself names, made with `number` if there is none of that name.
    fn queue(&mut self, position: RecordPosition, number: u16, state: &mut EngineState) -> u16 {
        let limits =
            JobServerLimits { queue_name_bytes_max: usize::MAX, ..JobServerLimits::default() };
        let named = self.body(position).and_then(|body| job_text::queue(body.json));
        let name = named.and_then(|name| QueueName::parse(&name, &limits).ok());
        let name = name.or_else(|| QueueName::parse(&format!("queue-{number}"), &limits).ok());
        let Some(name) = name else { return number };
        if let Some(known) = state.queues.number(name.as_str()) {
            return known;
        }
        tracing::error!(queue = %name, "the definition of a queue was lost; its jobs name it");
        state.queues.define(number, name);
        number
    }

    fn body(&mut self, position: RecordPosition) -> Option<StoredBody<'_>> {
        read_body(&self.reader, position, &mut self.buffer).ok()
    }
}
