//! Restores small state that was lost with a damaged record from the jobs: the name of a queue
//! whose definition is lost, and the hash of a jid whose seed is lost.

use weir_log::{Disk, RecordPosition, RecordReader};

use super::body::StoredBody;
use super::head::Put;
use super::index::hash_of;
use super::journal::read_body;
use super::state::EngineState;
use crate::job_text;
use crate::model::QueueName;
use crate::settings::JobServerLimits;

/// Reads the records of jobs whose heads are not sufficient.
#[derive(Debug)]
pub(crate) struct Rebuild<D: Disk> {
    reader: RecordReader<D>,
    /// The hashes of records before this position were made with an unknown seed.
    hashes_unknown_before: RecordPosition,
    buffer: Vec<u8>,
}

impl<D: Disk> Rebuild<D> {
    pub(crate) fn new(reader: RecordReader<D>, hashes_unknown_before: RecordPosition) -> Self {
        Self { reader, hashes_unknown_before, buffer: Vec::new() }
    }

    /// Changes the queue and the hash of a job's record to match `state`.
    pub(crate) fn complete(
        &mut self,
        position: RecordPosition,
        put: &mut Put<'_>,
        state: &mut EngineState,
    ) {
        if position < self.hashes_unknown_before {
            // A record that can't be read has no jid by which it could be found.
            if let Some(body) = self.body(position) {
                put.hash = hash_of(body.jid, state.seed);
            }
            state.rehashed = true;
        }
        if !state.queues.contains(put.queue) {
            put.queue = self.queue(position, put.queue, state);
        }
    }

    /// Returns the queue that the job's JSON names. Creates it with `number` if it does not exist.
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
