//! Draws entries of a queue or set uniformly at random.

use std::rc::Rc;

use weir_jobs::model::{JobLocation, QueueName};
use weir_jobs::store::{JobState, StoreError, StoredJob};

use super::entries::RawEntry;
use super::link_connection::LinkConnection;
use super::store_core::StoreCore;

/// Entries that one call draws, in one round trip. Redis walks to the position of each entry of a list,
/// and serves other clients in between.
pub(super) const DRAWS_MAX: usize = 100;

/// Entries of a set with their scores.
type ScoredEntries = Vec<(Vec<u8>, String)>;

impl StoreCore {
    /// Draws `count` entries, at most [`DRAWS_MAX`], each independently of the others. Fewer if entries
    /// leave meanwhile.
    pub(super) async fn sample(
        self: &Rc<Self>,
        place: &JobLocation,
        count: usize,
    ) -> Result<Vec<StoredJob>, StoreError> {
        let mut connection = self.ready().await?;
        let mut lengths = Vec::new();
        for part in self.parts(place) {
            lengths.push((self.length(&mut connection, &part).await?, part));
        }
        let length: usize = lengths.iter().map(|(length, _)| length).sum();
        let draws = if length == 0 { 0 } else { count.min(DRAWS_MAX) };
        let mut positions: Vec<usize> = (0..draws).map(|_| fastrand::usize(..length)).collect();
        let mut jobs = Vec::new();
        for (length, part) in lengths {
            let (of_part, rest): (Vec<usize>, Vec<usize>) =
                positions.into_iter().partition(|position| *position < length);
            positions = rest.into_iter().map(|position| position - length).collect();
            jobs.extend(self.drawn(&mut connection, &part, &of_part).await?);
        }
        Ok(jobs)
    }

    /// Returns the entries at some positions.
    async fn drawn(
        &self,
        connection: &mut LinkConnection,
        place: &JobLocation,
        positions: &[usize],
    ) -> Result<Vec<StoredJob>, StoreError> {
        if positions.is_empty() {
            return Ok(Vec::new());
        }
        let (entries, state, queue) = match place {
            JobLocation::Queue(queue) => {
                let entries = self.list_at(connection, queue, positions).await?;
                (entries, JobState::Enqueued, Some(&self.shown_queue(queue)))
            }
            JobLocation::Set(set) => {
                let key = self.set_key(*set);
                let entries = self.set_at(connection, &key, positions).await?;
                (entries, JobState::In(*set), None)
            }
        };
        Ok(entries.iter().map(|entry| entry.job(state.clone(), queue, &self.limits)).collect())
    }

    /// Returns the number of jobs in a queue or set.
    pub(super) async fn place_length(
        self: &Rc<Self>,
        place: &JobLocation,
    ) -> Result<usize, StoreError> {
        let mut connection = self.ready().await?;
        let mut length = 0;
        for part in self.parts(place) {
            length += self.length(&mut connection, &part).await?;
        }
        Ok(length)
    }

    async fn list_at(
        &self,
        connection: &mut LinkConnection,
        queue: &QueueName,
        positions: &[usize],
    ) -> Result<Vec<RawEntry>, StoreError> {
        let list = self.keys.list(queue.as_str());
        let mut pipeline = redis::pipe();
        for position in positions {
            pipeline.cmd("LINDEX").arg(&list).arg(*position);
        }
        let reply: Result<Vec<Option<Vec<u8>>>, _> = pipeline.query_async(connection).await;
        let payloads = reply.map_err(|error| self.link.failed(&error))?.into_iter().flatten();
        Ok(payloads.map(|payload| RawEntry::listed(payload, 0)).collect())
    }

    async fn set_at(
        &self,
        connection: &mut LinkConnection,
        key: &str,
        positions: &[usize],
    ) -> Result<Vec<RawEntry>, StoreError> {
        let mut pipeline = redis::pipe();
        for position in positions {
            pipeline.cmd("ZRANGE").arg(key).arg(*position).arg(*position).arg("WITHSCORES");
        }
        let reply = pipeline.query_async::<Vec<ScoredEntries>>(connection).await;
        let entries = reply.map_err(|error| self.link.failed(&error))?;
        Ok(entries.into_iter().flat_map(RawEntry::with_scores).collect())
    }
}
