//! The record of a reservation in the log: that of a job under a limit ([`super::limited`]). Its key is the job's
//! order in its queue.

use weir_base::clock::Timestamp;

use super::arena::{EntryState, JobIndex};
use super::fair_queue::LaneChoice;
use super::kept_key::{KeptKey, KeptKind};
use super::reservations::EngineReservation;
use super::state::EngineState;
use super::varint::{self, FieldReader, Malformed};
use crate::model::Wid;
use crate::resources::{ResourceSet, TypeKey};

/// A reservation as recorded in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoggedReservation<'a> {
    wid: Option<&'a str>,
    since: Timestamp,
    expires_at: Timestamp,
}

const NO_WORKER: u8 = 0;
const WORKER: u8 = 1;

impl<'a> LoggedReservation<'a> {
    pub(super) fn of(reservation: &'a EngineReservation, expires_at: Timestamp) -> Self {
        let wid = reservation.wid.as_ref().map(Wid::as_str);
        Self { wid, since: reservation.since, expires_at }
    }

    pub(super) fn write(&self, into: &mut Vec<u8>) {
        varint::put(into, self.since.as_micros());
        varint::put(into, self.expires_at.as_micros());
        match self.wid {
            None => into.push(NO_WORKER),
            Some(wid) => {
                into.push(WORKER);
                varint::put_text(into, wid);
            }
        }
    }

    /// Parses a record. `None`: the reservation has ended.
    pub(crate) fn read(body: &'a [u8]) -> Result<Option<Self>, Malformed> {
        if body.is_empty() {
            return Ok(None);
        }
        let mut fields = FieldReader(body);
        let since = Timestamp::from_micros(fields.number()?);
        let expires_at = Timestamp::from_micros(fields.number()?);
        let wid = match fields.byte()? {
            NO_WORKER => None,
            WORKER => Some(fields.text()?),
            _ => return Err(Malformed),
        };
        if fields.0.is_empty() { Ok(Some(Self { wid, since, expires_at })) } else { Err(Malformed) }
    }
}

/// Returns the key of the reservation of a job with this order in its queue.
pub(crate) const fn reservation_key(order: u64) -> KeptKey {
    KeptKey { kind: KeptKind::Reservation, key: order }
}

impl EngineState {
    /// Reserves a waiting job again for the worker that had it before the restart.
    pub(crate) fn restore_reservation(
        &mut self,
        job: JobIndex,
        jid: Box<str>,
        jobtype: TypeKey,
        recorded: &LoggedReservation<'_>,
    ) {
        let entry = *self.arena.get(job);
        self.features.set(job, self.features.get(job).started());
        let (queue, order) = (entry.queue, entry.order);
        self.rest_in(job, queue, EntryState::Reserved, order, LaneChoice::NONE, None);
        let ticket = self.reserved.ticket();
        self.reserved.insert(EngineReservation {
            ticket,
            job,
            jid,
            wid: recorded.wid.map(Wid::new),
            since: recorded.since,
            expires_at: recorded.expires_at,
            charge: None,
            lane: None,
            logged: Some(reservation_key(entry.order)),
            run: None,
            jobtype,
            // They are counted when the rules are applied.
            uses: ResourceSet::NONE,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_reservation_comes_back(wid: Option<String>, since: u64, expires_at: u64) {
            let recorded = LoggedReservation {
                wid: wid.as_deref(),
                since: Timestamp::from_micros(since),
                expires_at: Timestamp::from_micros(expires_at),
            };
            let mut body = Vec::new();
            recorded.write(&mut body);
            prop_assert_eq!(LoggedReservation::read(&body), Ok(Some(recorded)));
            for cut in 1..body.len() {
                prop_assert_eq!(LoggedReservation::read(&body[..cut]), Err(Malformed));
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(body: Vec<u8>) {
            let _ = LoggedReservation::read(&body);
        }
    }
}
