//! Reservations as Redis has them, those of other nodes among them.
//!
//! A worker may move to another node between its FETCH and its ACK. That node then looks for the job
//! among everybody's reservations.

use std::rc::Rc;
use std::time::Duration;

use redis::AsyncCommands as _;
use tokio::time::Instant;
use weir_base::clock::Timestamp;
use weir_jobs::model::{QueueName, Wid};
use weir_jobs::rules;
use weir_jobs::store::StoreError;
use weir_jobs::tracks::TrackState;

use super::features::FeatureEvent;
use super::fetch::reservation_of;
use super::link_connection::LinkConnection;
use super::owner::parse_field;
use super::reservations::Reservation;
use super::store_core::StoreCore;
use super::stored::StoredText;

/// Reservations of one queue that are read with their payloads. More are not searched.
const READ_MAX: u64 = 10_000;
/// Between two searches.
const SEARCH_WAIT: Duration = Duration::from_secs(1);

/// A reserved job as Redis has it.
#[derive(Clone, Debug)]
pub(super) struct StoredReservation {
    pub(super) owner: String,
    pub(super) number: u64,
    pub(super) job: Reservation,
}

impl StoredReservation {
    /// Parses a field and its value: a header line, then the payload.
    pub(super) fn parse(field: &str, value: &[u8], queue: &QueueName) -> Option<Self> {
        let (owner, number) = parse_field(field)?;
        let end = value.iter().position(|byte| *byte == b'\n')?;
        let header = std::str::from_utf8(&value[..end]).ok()?;
        let mut parts = header.split('\t').skip(1);
        let (wid, since) = (parts.next()?, parts.next()?.parse().ok()?);
        let wid = (!wid.is_empty()).then(|| Wid::new(wid));
        let payload = &value[end + 1..];
        let text = StoredText::parse(payload, usize::MAX).ok()?;
        let job = reservation_of(&text, payload, queue, wid, Timestamp::from_micros(since));
        Some(Self { owner: owner.to_owned(), number, job })
    }

    /// Returns the field of its queue's hash.
    pub(super) fn field(&self) -> String {
        format!("{}:{}", self.owner, self.number)
    }
}

impl StoreCore {
    /// Reads all reservations but those of queues with more than [`READ_MAX`].
    pub(super) async fn stored_reservations(
        &self,
        connection: &mut LinkConnection,
    ) -> Result<Vec<StoredReservation>, StoreError> {
        let mut found = Vec::new();
        for queue in self.reserving_queues(connection).await? {
            match self.stored_reservations_of(connection, &queue).await {
                Ok(reservations) => found.extend(reservations),
                Err(error) if self.link.absence_text().is_some() => return Err(error),
                // The key is of another type.
                Err(error) => tracing::debug!(%queue, %error, "reservations can't be read"),
            }
        }
        Ok(found)
    }

    async fn stored_reservations_of(
        &self,
        connection: &mut LinkConnection,
        queue: &QueueName,
    ) -> Result<Vec<StoredReservation>, StoreError> {
        let key = self.keys.reserved(queue.as_str());
        let length = connection.hlen(&key).await;
        let length: u64 = length.map_err(|error| self.link.failed(&error))?;
        if length == 0 || length > READ_MAX {
            return Ok(Vec::new());
        }
        let values = connection.hgetall(&key).await;
        let values: Vec<(Vec<u8>, Vec<u8>)> = values.map_err(|error| self.link.failed(&error))?;
        let parse = |(field, value): &(Vec<u8>, Vec<u8>)| {
            StoredReservation::parse(std::str::from_utf8(field).ok()?, value, queue)
        };
        Ok(values.iter().filter_map(parse).collect())
    }

    /// Returns the reservation that another node has for `jid` and that `reporter` may end.
    pub(super) async fn foreign_reservation(
        &self,
        connection: &mut LinkConnection,
        reporter: Option<&Wid>,
        jid: &str,
    ) -> Result<Option<StoredReservation>, StoreError> {
        let own = self.owner.borrow().as_ref().map(ToString::to_string).unwrap_or_default();
        let found = self.stored_reservations(connection).await?;
        Ok(found.into_iter().find(|it| {
            it.owner != own && &*it.job.jid == jid && rules::may_end(it.job.wid.as_ref(), reporter)
        }))
    }

    /// Ends the reservation that another node has for `jid`. Returns the job's queue.
    pub(super) async fn delete_foreign(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
        reporter: Option<&Wid>,
        jid: &str,
    ) -> Result<Option<QueueName>, StoreError> {
        if !self.may_search_foreign() {
            return Ok(None);
        }
        let Some(found) = self.foreign_reservation(connection, reporter, jid).await? else {
            return Ok(None);
        };
        let (queue, tag) = (found.job.queue.as_str(), self.tag(found.job.features.as_deref()));
        let (field, by) = (found.field(), FeatureEvent::Succeeded);
        let has_ended = self.end_field(connection, queue, &field, by, tag.as_deref()).await?;
        if has_ended {
            self.record_class(&found.job, self.done_now(&found.job));
            self.end_foreign_run(&found.job, None);
            self.note_reserved(&found.job, TrackState::Success);
        }
        Ok(has_ended.then_some(found.job.queue))
    }

    /// Returns whether others' reservations may be read now: they are read at most once a second,
    /// whatever clients acknowledge.
    pub(super) fn may_search_foreign(&self) -> bool {
        let now = Instant::now();
        let is_due = self.foreign_search_from.get().is_none_or(|from| now >= from);
        if is_due {
            self.foreign_search_from.set(Some(now + SEARCH_WAIT));
        }
        is_due
    }

    /// Takes over the reservations that a process of this node has left in order.
    pub(super) async fn adopt(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
    ) -> Result<(), StoreError> {
        let own = self.owner.borrow().as_ref().map(ToString::to_string).unwrap_or_default();
        let found = self.stored_reservations(connection).await?;
        let state = &mut *self.state.borrow_mut();
        for StoredReservation { number, mut job, .. } in
            found.into_iter().filter(|it| it.owner == own)
        {
            state.next_number = state.next_number.max(number + 1);
            if let Some(wid) = &job.wid {
                let release_at = self.now() + self.limits.heartbeat_timeout;
                state.adopted_workers.add(wid.clone(), release_at);
            }
            job.run = Some(self.resumed_run(&job));
            state.reservations.insert(number, job);
        }
        Ok(())
    }
}
