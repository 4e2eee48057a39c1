//! The reservations: worker, job and expiry. Those of jobs under a limit are in the log as well
//! ([`super::limited`]); the others are in memory only, and after a crash their jobs are back in their queues.

use std::collections::{BTreeSet, HashMap};

use hashbrown::HashTable;
use weir_base::clock::Timestamp;

use super::arena::JobIndex;
use super::fair_queue::RunningLane;
use super::index::hash_of;
use super::kept_key::KeptKey;
use crate::dispatch::DispatchCharge;
use crate::job_types::TypeRun;
use crate::model::Wid;
use crate::resources::{ResourceSet, ResourceUse, TypeKey};
use crate::rules;

/// A worker's reservation of a job.
#[derive(Debug)]
pub(crate) struct EngineReservation {
    /// A number that is never reused, unlike the index of a job.
    pub(crate) ticket: u64,
    pub(crate) job: JobIndex,
    pub(crate) jid: Box<str>,
    pub(crate) wid: Option<Wid>,
    pub(crate) since: Timestamp,
    pub(crate) expires_at: Timestamp,
    /// Of dispatch, until the end of the job.
    pub(crate) charge: Option<DispatchCharge>,
    /// That of its tenant, if its queue has `fair_by`.
    pub(crate) lane: Option<RunningLane>,
    /// The key of its record in the log, if it has one.
    pub(crate) logged: Option<KeptKey>,
    /// Of the statistics by type. `None`: it was reserved before the restart.
    pub(crate) run: Option<TypeRun>,
    pub(crate) jobtype: TypeKey,
    /// The shared resources that the job uses.
    pub(crate) uses: ResourceSet,
}

/// All reservations. Two jobs with the same jid may both be reserved; an ACK ends either of them.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    by_jid: HashTable<EngineReservation>,
    by_expiry: BTreeSet<(Timestamp, JobIndex)>,
    busy: HashMap<Wid, u64>,
    /// Jobs in progress of each shared resource.
    pub(crate) used: ResourceUse,
    next_ticket: u64,
}

fn key(jid: &str) -> u64 {
    u64::from(hash_of(jid, 0)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Reservations {
    pub(crate) fn len(&self) -> usize {
        self.by_jid.len()
    }

    /// Returns the number of jobs that a worker has reserved.
    pub(crate) fn busy(&self, wid: &Wid) -> u64 {
        self.busy.get(wid).copied().unwrap_or(0)
    }

    /// Returns the number for a new reservation.
    pub(crate) fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    /// Returns the highest number so far.
    pub(crate) const fn last_ticket(&self) -> u64 {
        self.next_ticket
    }

    /// Continues the numbers of reservations that were deleted.
    pub(crate) const fn continue_tickets(&mut self, deleted: &Self) {
        self.next_ticket = deleted.next_ticket;
    }

    /// Returns a worker's reservations up to the ticket `last`.
    pub(crate) fn held_until<'a>(
        &'a self,
        wid: &'a Wid,
        last: u64,
    ) -> impl Iterator<Item = &'a EngineReservation> {
        self.iter().filter(move |held| held.ticket <= last && held.wid.as_ref() == Some(wid))
    }

    /// Returns the reservation of `job`.
    pub(crate) fn of_job(&self, jid: &str, job: JobIndex) -> Option<&EngineReservation> {
        self.by_jid.find(key(jid), |found| &*found.jid == jid && found.job == job)
    }

    pub(crate) fn insert(&mut self, reservation: EngineReservation) {
        self.by_expiry.insert((reservation.expires_at, reservation.job));
        self.used.add(reservation.uses);
        if let Some(wid) = &reservation.wid {
            match self.busy.get_mut(wid) {
                Some(count) => *count += 1,
                None => {
                    self.busy.insert(wid.clone(), 1);
                }
            }
        }
        let rehash = |reservation: &EngineReservation| key(&reservation.jid);
        self.by_jid.insert_unique(key(&reservation.jid), reservation, rehash);
    }

    /// Returns a reservation of `jid`.
    pub(crate) fn get(&self, jid: &str) -> Option<&EngineReservation> {
        self.by_jid.find(key(jid), |reservation| &*reservation.jid == jid)
    }

    /// Returns a reservation of `jid` that `reporter` may end.
    pub(crate) fn get_for(&self, jid: &str, reporter: Option<&Wid>) -> Option<&EngineReservation> {
        self.by_jid.find(key(jid), |reservation| {
            &*reservation.jid == jid && rules::may_end(reservation.wid.as_ref(), reporter)
        })
    }

    /// Returns the key of the record of `job`, if the log has one.
    pub(crate) fn logged_of(&self, jid: &str, job: JobIndex) -> Option<KeptKey> {
        self.of_job(jid, job)?.logged
    }

    /// Ends the reservation of `job`.
    pub(crate) fn remove_job(&mut self, jid: &str, job: JobIndex) -> Option<EngineReservation> {
        self.remove_where(jid, |found| found.job == job)
    }

    /// Returns the job of the reservation with this ticket, unless it has ended.
    pub(crate) fn job_of(&self, jid: &str, ticket: u64) -> Option<JobIndex> {
        let is_it = |found: &EngineReservation| &*found.jid == jid && found.ticket == ticket;
        self.by_jid.find(key(jid), is_it).map(|found| found.job)
    }

    /// Returns the reservation with this ticket, unless it has ended.
    pub(crate) fn with_ticket(&mut self, jid: &str, ticket: u64) -> Option<&mut EngineReservation> {
        self.by_jid.find_mut(key(jid), |found| &*found.jid == jid && found.ticket == ticket)
    }

    /// Returns the charge of `job`, which has none from now on, and since when it is reserved.
    pub(crate) fn take_charge(
        &mut self,
        jid: &str,
        job: JobIndex,
    ) -> Option<(DispatchCharge, Timestamp)> {
        let is_it = |found: &EngineReservation| &*found.jid == jid && found.job == job;
        let reservation = self.by_jid.find_mut(key(jid), is_it)?;
        Some((reservation.charge.take()?, reservation.since))
    }

    /// Ends the reservation with this ticket, unless it has already ended.
    pub(crate) fn remove_ticket(&mut self, jid: &str, ticket: u64) -> Option<EngineReservation> {
        self.remove_where(jid, |found| found.ticket == ticket)
    }

    fn remove_where(
        &mut self,
        jid: &str,
        wanted: impl Fn(&EngineReservation) -> bool,
    ) -> Option<EngineReservation> {
        let is_it = |found: &EngineReservation| &*found.jid == jid && wanted(found);
        let (reservation, _) = self.by_jid.find_entry(key(jid), is_it).ok()?.remove();
        self.by_expiry.remove(&(reservation.expires_at, reservation.job));
        self.used.remove(reservation.uses);
        if let Some(wid) = &reservation.wid
            && let Some(count) = self.busy.get_mut(wid)
        {
            *count -= 1;
            if *count == 0 {
                self.busy.remove(wid);
            }
        }
        Some(reservation)
    }

    /// Extends a reservation until `until`; never shortens it. Returns false if there is no such
    /// reservation.
    pub(crate) fn extend(&mut self, jid: &str, until: Timestamp) -> bool {
        let Some(reservation) = self.by_jid.find_mut(key(jid), |found| &*found.jid == jid) else {
            return false;
        };
        if until > reservation.expires_at {
            self.by_expiry.remove(&(reservation.expires_at, reservation.job));
            reservation.expires_at = until;
            self.by_expiry.insert((until, reservation.job));
        }
        true
    }

    /// Extends all reservations until `until`; shortens none.
    pub(crate) fn extend_all(&mut self, until: Timestamp) {
        let earlier = self.by_jid.iter_mut().filter(|held| held.expires_at < until);
        for held in earlier {
            self.by_expiry.remove(&(held.expires_at, held.job));
            held.expires_at = until;
            self.by_expiry.insert((until, held.job));
        }
    }

    /// Counts the jobs of each resource again, after the resources have changed.
    pub(crate) fn recount(&mut self, uses: impl Fn(&EngineReservation) -> ResourceSet) {
        self.used.clear();
        for held in self.by_jid.iter_mut() {
            held.uses = uses(held);
            self.used.add(held.uses);
        }
    }

    /// Returns when the next reservation expires.
    pub(crate) fn next_expiry(&self) -> Option<Timestamp> {
        self.by_expiry.first().map(|(at, _)| *at)
    }

    /// Returns the job whose reservation expired first, if any has expired by `now`.
    pub(crate) fn lapsed(&self, now: Timestamp) -> Option<JobIndex> {
        self.by_expiry.first().filter(|(at, _)| *at <= now).map(|(_, job)| *job)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &EngineReservation> {
        self.by_jid.iter()
    }
}
