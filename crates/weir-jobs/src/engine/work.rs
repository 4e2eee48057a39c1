//! Fetching and finishing jobs: take, ack, fail, expiry of reservations, release.

use weir_base::clock::Timestamp;
use weir_log::Disk;

use super::arena::{ArenaEntry, EntryState, JobIndex};
use super::body::StoredBody;
use super::core::{Engine, EngineError, Unreadable};
use super::fair_queue::{FairQueue, RunningLane};
use super::head::{Cause, RemovalReason, StoredPlace};
use super::journal::{read_body, read_body_ahead};
use super::reservations::EngineReservation;
use super::sizing::size_of;
use crate::allocation::DispatchPolicy;
use crate::batches::JobEnd;
use crate::dispatch::{Candidate, Choice, DispatchCharge, QueueEnd};
use crate::features::JobFeatures;
use crate::job_class::job_class;
use crate::job_text;
use crate::job_types::{StartedJob, TypeRun};
use crate::lanes::Room;
use crate::metrics::{JobServerLimit, StaleReport};
use crate::model::{
    Delivery, FailureCause, FailureReport, FailureState, QueueName, SetName, Wid, WorkerEnd,
};
use crate::resources::{ResourceSet, TypeKey};
use crate::rules;
use crate::store::{FailOutcome, StoreError};
use crate::tracks::TrackState;

/// Maximum number of expired jobs that one fetch drops before other work continues.
const EXPIRED_PER_FETCH: usize = 64;

/// A job that is being delivered to a worker.
#[derive(Debug)]
pub(crate) struct EngineFetch {
    /// The ticket of its reservation.
    pub(crate) ticket: u64,
    /// Whether its reservation must be durable before it is delivered.
    pub(crate) is_logged: bool,
    /// The features of the job before it started, among them a lock that ends at the start.
    pub(crate) features: JobFeatures,
    pub(crate) delivery: Delivery,
}

/// A job that was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AckedJob {
    pub(crate) queue: u16,
    /// Whether its reservation was in the log, where only this end can end it.
    pub(crate) was_logged: bool,
}

/// Why a job that was taken is not handed out.
#[derive(Debug)]
enum HandOutError {
    /// It can't be read and was dropped.
    Dropped,
    /// It can't be read at the moment, or the log is behind. It waits again. In the former case, a fetch that waits learns
    /// of that when its client repeats it: nothing says when the read would succeed.
    JustNow,
    /// One of its resources has no room: its type was not known before. It waits again.
    NoRoom,
    /// The log does not accept its reservation. It waits again.
    NotLogged(StoreError),
}

/// The queues whose jobs one fetch can't hand out.
#[derive(Debug, Default)]
struct LeftOut {
    queues: Vec<u16>,
    /// Why, if waiting does not help.
    failure: Option<StoreError>,
}

impl From<Unreadable> for HandOutError {
    fn from(unreadable: Unreadable) -> Self {
        match unreadable {
            Unreadable::Dropped => Self::Dropped,
            Unreadable::JustNow(_) => Self::JustNow,
        }
    }
}

impl<D: Disk> Engine<D> {
    /// Reserves the next job of `queues`, and drops expired ones before it. Returns `None` if no job is
    /// available.
    ///
    /// # Errors
    /// Returns an error if only jobs are available whose reservations must be in the log, which has failed. On a full
    /// disk, they are offered after it has space again.
    pub(crate) fn take(
        &mut self,
        wid: Option<&Wid>,
        queues: &[QueueName],
        fetches_waiting: impl Fn(&QueueName) -> u32,
        now: Timestamp,
    ) -> Result<Option<EngineFetch>, StoreError> {
        self.relane_for_fetch(queues);
        self.wake_for_fetch(queues, now);
        let (mut expired, mut left_out) = (0, LeftOut::default());
        let blocked = self.blocked_resources(now);
        loop {
            let Some((queue, Choice { end, charge, .. })) =
                self.choose(queues, &left_out, blocked, &fetches_waiting, now)
            else {
                self.sleep_for_fetch(queues, now);
                return left_out.failure.map_or(Ok(None), Err);
            };
            if expired == EXPIRED_PER_FETCH {
                self.take_back_charge(queue, charge);
                self.woken.push(queue);
                return Ok(None);
            }
            let newest_from = (end == QueueEnd::Newest).then(|| self.in_time_from(queue, now));
            let rules = self.state.queues.get(queue);
            let room = Self::room(rules, || fetches_waiting(&rules.name));
            let Some((job, lane)) = self.state.take(queue, newest_from, room, blocked, now) else {
                self.take_back_charge(queue, charge);
                // Its tenants wait for resources. If there are many, some were not looked at yet.
                left_out.queues.push(queue);
                self.woken.extend(self.can_serve(queue, room, blocked).then_some(queue));
                continue;
            };
            if self.state.features.get(job).has_expired(now) {
                self.take_back_charge(queue, charge);
                self.take_back_start(queue, lane);
                match self.drop_expired(job, lane, now) {
                    Ok(()) => expired += 1,
                    Err(EngineError::Behind) => {
                        self.held_by_log.push(queue);
                        return Ok(None);
                    }
                    Err(EngineError::Store(error)) => self.leave_out(queue, error, &mut left_out),
                }
                continue;
            }
            let error = match self.hand_out(job, wid, charge, lane, blocked, now) {
                Ok(taken) => return Ok(Some(taken)),
                Err(error) => error,
            };
            self.take_back_charge(queue, charge);
            self.take_back_start(queue, lane);
            match error {
                HandOutError::Dropped => self.end_lane(queue, lane, None, now),
                HandOutError::JustNow => {
                    self.wait_again(job, lane);
                    return Ok(None);
                }
                HandOutError::NoRoom => {
                    self.wait_again(job, None);
                    self.end_lane(queue, lane, None, now);
                    left_out.queues.push(queue);
                    self.woken.push(queue);
                }
                HandOutError::NotLogged(error) => {
                    self.wait_again(job, lane);
                    self.leave_out(queue, error, &mut left_out);
                }
            }
        }
    }

    /// Leaves a queue out of one fetch, so that it does not keep the jobs of other queues from workers.
    fn leave_out(&mut self, queue: u16, error: StoreError, left_out: &mut LeftOut) {
        left_out.queues.push(queue);
        if error != StoreError::DiskFull {
            left_out.failure = Some(error);
        } else if !self.held_by_space.contains(&queue) {
            self.held_by_space.push(queue);
        }
    }

    /// Returns the order from which jobs of a queue are in time.
    fn in_time_from(&self, queue: u16, now: Timestamp) -> u64 {
        let rules = self.allocation.of(&self.state.queues.get(queue).name);
        rules.target_latency.map_or(0, |target| (now - target).as_micros())
    }

    /// Drops an expired job that was taken. If that can't be written now, the job waits again.
    fn drop_expired(
        &mut self,
        job: JobIndex,
        lane: Option<RunningLane>,
        now: Timestamp,
    ) -> Result<(), EngineError> {
        let tracked = self.state.features.get(job).tracked.then(|| self.reserved_jid(job));
        let queue = self.state.arena.get(job).queue;
        if let Err(error) = self.discard(job) {
            self.wait_again(job, lane);
            return Err(error);
        }
        self.end_lane(queue, lane, None, now);
        if let Some(jid) = tracked {
            self.note_tracked(&jid, TrackState::Dead, now);
        }
        self.metrics.expired();
        Ok(())
    }

    fn choose(
        &mut self,
        queues: &[QueueName],
        left_out: &LeftOut,
        blocked: ResourceSet,
        fetches_waiting: &impl Fn(&QueueName) -> u32,
        now: Timestamp,
    ) -> Option<(u16, Choice)> {
        let state = &self.state;
        let wait = |job| now.since(Timestamp::from_micros(state.arena.get(job).order));
        let candidates = queues.iter().enumerate().filter_map(|(place, name)| {
            let number = state.queues.number(name.as_str())?;
            if left_out.queues.contains(&number) {
                return None;
            }
            let queue = state.queues.get(number);
            let first = queue.lane.first().filter(|_| !queue.paused)?;
            let is_held_back = |fair: &FairQueue| {
                let room = Self::room(queue, || fetches_waiting(name));
                !fair.can_serve(room, blocked, &state.links)
            };
            Some(Candidate {
                place,
                running: queue.reserved,
                oldest_wait: wait(first),
                newest_wait: queue.lane.last().map(wait).unwrap_or_default(),
                is_held_back: queue.rate.blocked_until(now).is_some()
                    || !queue.uses.is_open(blocked)
                    || queue.fair.as_deref().is_some_and(is_held_back),
            })
        });
        let chosen = self.dispatcher.choose(&self.allocation, queues, candidates, now)?;
        let number = self.state.queues.number(queues[chosen.place].as_str())?;
        Some((number, chosen))
    }

    fn can_serve(&self, queue: u16, room: Room, blocked: ResourceSet) -> bool {
        let fair = self.state.queues.get(queue).fair.as_ref();
        fair.is_some_and(|fair| fair.can_serve(room, blocked, &self.state.links))
    }

    /// Counts a job that starts to wait.
    pub(crate) fn note_arrival(&mut self, queue: u16, is_retry: bool, now: Timestamp) {
        self.state.queues.get_mut(queue).arrivals.count(is_retry);
        if self.allocation.policy == DispatchPolicy::Targets {
            self.dispatcher.arrived(&self.state.queues.get(queue).name, now);
        }
    }

    /// Takes back what dispatch charged for a job that waits again.
    fn take_back_charge(&mut self, queue: u16, charge: Option<DispatchCharge>) {
        if let Some(charge) = charge
            && let Some(name) = self.state.queues.name(queue)
        {
            self.dispatcher.take_back(&name, charge);
        }
    }

    /// Ends the reservation of a job of `queue`. Returns its run, for its outcome.
    fn end_reservation(
        &mut self,
        jid: &str,
        job: JobIndex,
        queue: u16,
        now: Timestamp,
    ) -> Option<TypeRun> {
        let reservation = self.state.reserved.remove_job(jid, job)?;
        self.forget_logged(&reservation);
        self.end_lane(queue, reservation.lane, Some(reservation.since), now);
        if let Some(charge) = reservation.charge
            && let Some(name) = self.state.queues.name(queue)
        {
            self.dispatcher.ended(&name, charge, now.since(reservation.since));
        }
        reservation.run
    }

    /// Ends the charge of a reserved job whose worker has not reported its end.
    fn lapse_charge(&mut self, jid: &str, job: JobIndex, queue: u16, now: Timestamp) {
        if let Some((charge, since)) = self.state.reserved.take_charge(jid, job)
            && let Some(name) = self.state.queues.name(queue)
        {
            self.dispatcher.lapsed(&name, charge, now.since(since));
        }
    }

    /// Reads a job that was taken and reserves it.
    fn hand_out(
        &mut self,
        job: JobIndex,
        wid: Option<&Wid>,
        charge: Option<DispatchCharge>,
        lane: Option<RunningLane>,
        blocked: ResourceSet,
        now: Timestamp,
    ) -> Result<EngineFetch, HandOutError> {
        let ArenaEntry { position, order, queue, .. } = *self.state.arena.get(job);
        let body = match read_body_ahead(&mut self.ahead, position) {
            Ok(body) => body,
            Err(error) => return Err(self.drop_unreadable(job, &error).into()),
        };
        let expires_at = now + std::time::Duration::from_secs(body.reserve_for_seconds.into());
        let jid: Box<str> = Box::from(body.jid);
        let delivery = Delivery { jid: jid.clone(), json: body.json.to_vec() };
        let jobtype = TypeKey::of(body.jobtype);
        let name = &self.state.queues.get(queue).name;
        let uses = self.state.resources.of_job(name.as_str(), jobtype);
        if !uses.is_open(blocked) {
            return Err(HandOutError::NoRoom);
        }
        let wid = wid.cloned();
        let ticket = self.state.reserved.ticket();
        let mut reservation = EngineReservation {
            ticket,
            job,
            jid,
            wid,
            since: now,
            expires_at,
            charge,
            lane,
            logged: None,
            run: Some(self.metrics.types().run_of(&job_class(body.jobtype, body.json), now)),
            jobtype,
            uses,
        };
        if self.needs_record(&reservation)
            && let Err(error) = self.log_reservation(&mut reservation)
        {
            return Err(match error {
                EngineError::Behind => {
                    self.held_by_log.push(queue);
                    HandOutError::JustNow
                }
                EngineError::Store(error) => HandOutError::NotLogged(error),
            });
        }
        let is_logged = reservation.logged.is_some();
        if let Some(run) = &reservation.run {
            let queue = self.state.queues.get(queue).name.as_str();
            let ready_at = Some(Timestamp::from_micros(order));
            run.start(&StartedJob { jid: &delivery.jid, queue, ready_at }, now);
        }
        self.state.reserved.insert(reservation);
        self.state.resources.start(uses, now);
        let features = self.state.features.get(job);
        self.state.features.set(job, features.started());
        self.note_track(job, &delivery.jid, TrackState::Working, now);
        self.note_wait(queue, now.since(Timestamp::from_micros(order)));
        Ok(EngineFetch { ticket, is_logged, features, delivery })
    }

    /// Counts the wait of a job that starts. One that can't be delivered counts again when it starts again.
    fn note_wait(&mut self, queue: u16, waited: std::time::Duration) {
        let queue = self.state.queues.get_mut(queue);
        queue.metrics.wait.observe(waited.as_secs_f64());
        queue.in_time.count(waited, self.allocation.of(&queue.name).target_latency);
    }

    /// Returns a job that was not delivered to its former position, unless its reservation has
    /// ended since. Returns its queue.
    pub(crate) fn put_back(&mut self, taken: &EngineFetch) -> Option<u16> {
        let jid = &taken.delivery.jid;
        let reservation = self.state.reserved.remove_ticket(jid, taken.ticket)?;
        self.end_logged(&reservation);
        if !self.state.features.is_locked(&taken.features, reservation.since) {
            self.state.features.set(reservation.job, taken.features);
        }
        self.note_track(reservation.job, jid, TrackState::Enqueued, reservation.since);
        let queue = self.wait_again(reservation.job, reservation.lane);
        self.take_back_charge(queue, reservation.charge);
        Some(queue)
    }

    /// Ends a reservation, or removes a job that waits again because of a crash. Returns the job's
    /// queue, or `None` if the jid is unknown.
    pub(crate) fn ack(
        &mut self,
        reporter: Option<&Wid>,
        jid: &str,
        now: Timestamp,
    ) -> Result<Option<AckedJob>, EngineError> {
        let reserved = self.state.reserved.get_for(jid, reporter).map(|reservation| {
            let ran = now.since(reservation.since).as_secs_f64();
            (reservation.job, ran, reservation.logged.is_some())
        });
        let Some((job, ran, was_logged)) = reserved else {
            if self.state.reserved.get(jid).is_some() {
                self.metrics.stale_report(StaleReport::Ack);
                return Ok(None);
            }
            let queue = self.ack_waiting(jid, now)?;
            return Ok(queue.map(|queue| AckedJob { queue, was_logged: false }));
        };
        let queue = self.state.arena.get(job).queue;
        self.journal.note(&self.removal(job, RemovalReason::Acked), &self.state)?;
        self.state.totals.count_gone(RemovalReason::Acked);
        let is_tracked = self.state.features.get(job).tracked;
        self.state.features.end(job, JobEnd::Succeeded);
        if let Some(run) = self.end_reservation(jid, job, queue, now) {
            run.succeeded(now);
        }
        let counted = self.state.queues.get_mut(queue);
        counted.processed_total += 1;
        counted.metrics.run.observe(ran);
        self.forget(job);
        if is_tracked {
            self.note_tracked(jid, TrackState::Success, now);
        }
        self.run_batches(now);
        Ok(Some(AckedJob { queue, was_logged }))
    }

    fn ack_waiting(&mut self, jid: &str, now: Timestamp) -> Result<Option<u16>, EngineError> {
        let waiting = |entry: &ArenaEntry| entry.rest == EntryState::Waiting;
        let Some(job) = self.find(jid, waiting) else {
            return Ok(None);
        };
        let queue = self.state.arena.get(job).queue;
        self.journal.note(&self.removal(job, RemovalReason::Acked), &self.state)?;
        self.state.totals.count_gone(RemovalReason::Acked);
        let is_tracked = self.state.features.get(job).tracked;
        self.state.features.end(job, JobEnd::Succeeded);
        self.state.queues.get_mut(queue).processed_total += 1;
        self.forget(job);
        if is_tracked {
            self.note_tracked(jid, TrackState::Success, now);
        }
        self.run_batches(now);
        Ok(Some(queue))
    }

    /// Ends a reservation with a failure. Returns the outcome and the job's queue.
    pub(crate) fn fail(
        &mut self,
        reporter: Option<&Wid>,
        report: FailureReport,
        now: Timestamp,
    ) -> Result<(FailOutcome, u16), EngineError> {
        let Some(reservation) = self.state.reserved.get_for(&report.jid, reporter) else {
            if self.state.reserved.get(&report.jid).is_some() {
                self.metrics.stale_report(StaleReport::Fail);
            }
            return Err(StoreError::NotFound(report.jid).into());
        };
        let (job, ran) = (reservation.job, now.since(reservation.since).as_secs_f64());
        let queue = self.state.arena.get(job).queue;
        // A queue that was removed ends with its last job.
        let metrics = self.state.queues.get_mut(queue).metrics.clone();
        let outcome = self.fail_job(job, report, FailureCause::Run, now)?;
        metrics.run.observe(ran);
        Ok((outcome, queue))
    }

    fn fail_job(
        &mut self,
        job: JobIndex,
        report: FailureReport,
        cause: FailureCause,
        now: Timestamp,
    ) -> Result<FailOutcome, EngineError> {
        let ArenaEntry { position, queue, .. } = *self.state.arena.get(job);
        let mut buffer = Vec::new();
        let body = match self.journal.read(position, &mut buffer) {
            Ok(body) => body,
            Err(error) => {
                self.drop_unreadable(job, &error).or_stop()?;
                self.end_reservation(&report.jid, job, queue, now);
                // The caller learns of no queue, but another job may run now.
                self.woken.push(queue);
                return Err(StoreError::NotFound(report.jid).into());
            }
        };
        let jid = report.jid.clone();
        let previous = job_text::failure(body.json, body.base_bytes);
        let (outcome, failure) = rules::fail(
            &rules::FailedJob { retry: body.retry, backtrace: body.backtrace, previous, cause },
            report,
            now,
            &mut self.random,
        );
        let json = job_text::failed(body.json, body.base_bytes, &failure);
        let body = StoredBody { json: &json, ..body };
        let (set, order) = match outcome {
            FailOutcome::Retry { next_at } => (SetName::Retries, next_at.as_micros()),
            FailOutcome::Dead => (SetName::Dead, now.as_micros()),
            FailOutcome::Discarded => {
                let head = self.removal(job, RemovalReason::FailedForGood);
                self.journal.note(&head, &self.state)?;
                self.state.totals.count_gone(RemovalReason::FailedForGood);
                self.count_failure(queue);
                let is_tracked = self.state.features.get(job).tracked;
                self.end_run(&jid, job, queue, &failure, now);
                self.forget(job);
                if is_tracked {
                    self.note_tracked(&jid, TrackState::Failed, now);
                }
                self.run_batches(now);
                return Ok(outcome);
            }
        };
        let features = self.state.features.get(job);
        let features = if set == SetName::Dead { features.died() } else { features.failed() };
        self.rewrite_record(job, &body, Cause::Failed, StoredPlace::Set(set), order, features)?;
        self.state.totals.count_put(Cause::Failed);
        let state = if set == SetName::Dead { TrackState::Dead } else { TrackState::Failed };
        self.note_track(job, &jid, state, now);
        self.count_failure(queue);
        if set == SetName::Retries {
            self.state.queues.get_mut(queue).arrivals.retried_total += 1;
        }
        self.end_run(&jid, job, queue, &failure, now);
        // The job has failed. If others can't be deleted now, the next failure does that.
        let _ = self.trim_dead();
        self.run_batches(now);
        Ok(outcome)
    }

    /// Ends the reservation of a job that failed.
    fn end_run(
        &mut self,
        jid: &str,
        job: JobIndex,
        queue: u16,
        failure: &FailureState,
        now: Timestamp,
    ) {
        if let Some(run) = self.end_reservation(jid, job, queue, now) {
            run.failed(jid, failure, now);
        }
    }

    fn count_failure(&mut self, queue: u16) {
        let queue = self.state.queues.get_mut(queue);
        queue.processed_total += 1;
        queue.failed_total += 1;
    }

    /// Ends the reservation that expired first, if any has expired: its job has failed, unless its worker was lost before.
    /// Returns the job's queue, in which another job may run now.
    pub(crate) fn lapse_one(&mut self, now: Timestamp) -> Result<Option<u16>, EngineError> {
        let Some(job) = self.state.reserved.lapsed(now) else {
            return Ok(None);
        };
        let queue = self.state.arena.get(job).queue;
        let jid = self.reserved_jid(job);
        if let Some(held) = self.state.reserved.of_job(&jid, job)
            && self.lost_workers.has(held.wid.as_ref())
        {
            let ticket = held.ticket;
            return self.release_job(&jid, ticket, WorkerEnd::Killed, now);
        }
        self.lapse_charge(&jid, job, queue, now);
        match self.fail_job(job, rules::reservation_expired(jid), FailureCause::Run, now) {
            Ok(_) | Err(EngineError::Store(StoreError::NotFound(_))) => Ok(Some(queue)),
            Err(error) => Err(error),
        }
    }

    /// Returns the jids and tickets of a worker's reservations up to the ticket `last`, in the order of their jobs.
    pub(crate) fn held_until(&self, wid: &Wid, last: u64) -> Vec<(Box<str>, u64)> {
        let mut held: Vec<_> = self.state.reserved.held_until(wid, last).collect();
        held.sort_unstable_by_key(|held| self.state.arena.get(held.job).order);
        held.into_iter().map(|held| (held.jid.clone(), held.ticket)).collect()
    }

    /// Releases a job of a worker that has ended: it waits again, or is dead if it has killed too many workers. Returns
    /// the job's queue, or `None` if the reservation has ended.
    pub(crate) fn release_job(
        &mut self,
        jid: &str,
        ticket: u64,
        end: WorkerEnd,
        now: Timestamp,
    ) -> Result<Option<u16>, EngineError> {
        let Some(job) = self.state.reserved.job_of(jid, ticket) else {
            return Ok(None);
        };
        let queue = self.state.arena.get(job).queue;
        let before = self.state.features.get(job).kills;
        match rules::after_worker_end(end, before, self.settings.limits.returns_max, now) {
            rules::Return::Waits(kills) => {
                // In this order: only the first may be repeated.
                self.note_waiting(self.state.reserved.logged_of(jid, job))?;
                self.note_kills(job, kills)?;
                let reservation = self.state.reserved.remove_job(jid, job);
                if let Some(reservation) = &reservation {
                    self.forget_logged(reservation);
                    if let Some(run) = &reservation.run {
                        run.returned(jid, now);
                    }
                }
                let (charge, lane) = reservation.map_or((None, None), |it| (it.charge, it.lane));
                self.take_back_charge(queue, charge);
                self.note_track(job, jid, TrackState::Enqueued, now);
                self.wait_again(job, lane);
            }
            rules::Return::Dies { times } => {
                self.lapse_charge(jid, job, queue, now);
                let report = rules::worker_killed(jid.into(), times);
                match self.fail_job(job, report, FailureCause::WorkerKilled, now) {
                    Ok(_) => {
                        self.metrics.limit_hit(JobServerLimit::ReturnsMax);
                        tracing::warn!(jid, times, "a job has killed too many workers: it is dead");
                    }
                    // It could not be read and was dropped.
                    Err(EngineError::Store(StoreError::NotFound(_))) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(Some(queue))
    }

    /// Releases the first job that a worker has.
    #[cfg(test)]
    pub(crate) fn release_one(
        &mut self,
        wid: &Wid,
        end: WorkerEnd,
        now: Timestamp,
    ) -> Result<Option<u16>, EngineError> {
        match self.held_until(wid, u64::MAX).first() {
            Some((jid, ticket)) => self.release_job(jid, *ticket, end, now),
            None => Ok(None),
        }
    }

    /// Returns a reserved job's jid from its record, or from the reservations if the record can't
    /// be read.
    fn reserved_jid(&mut self, job: JobIndex) -> Box<str> {
        let position = self.state.arena.get(job).position;
        if let Ok(body) = read_body(&self.journal.reader, position, &mut self.buffer) {
            return Box::from(body.jid);
        }
        let reservation = self.state.reserved.iter().find(|reservation| reservation.job == job);
        reservation.map(|reservation| reservation.jid.clone()).unwrap_or_default()
    }

    /// Returns a job that was taken to its former position. Returns its queue.
    fn wait_again(&mut self, job: JobIndex, taken_from: Option<RunningLane>) -> u16 {
        let ArenaEntry { order, queue, .. } = *self.state.arena.get(job);
        let lane = self.lane_again(queue, job, taken_from);
        let bytes = self.unknown_size(job, queue);
        self.state.rest_in(job, queue, EntryState::Waiting, order, lane, bytes);
        self.end_lane(queue, taken_from, None, Timestamp::default());
        queue
    }

    /// Returns the size of a job that was reserved when the bytes of its queue began to be counted.
    fn unknown_size(&mut self, job: JobIndex, queue: u16) -> Option<u32> {
        if self.state.queues.get(queue).bytes.is_none() || self.state.sizes.get(job) > 0 {
            return None;
        }
        let position = self.state.arena.get(job).position;
        let body = read_body(&self.journal.reader, position, &mut self.buffer).ok()?;
        Some(size_of(body.json.len()))
    }

    /// Returns a live job with this jid whose entry satisfies `wanted`.
    pub(crate) fn find(&self, jid: &str, wanted: impl Fn(&ArenaEntry) -> bool) -> Option<JobIndex> {
        self.find_all(jid, wanted).next()
    }

    /// Returns the live jobs with this jid whose entries satisfy `wanted`.
    pub(crate) fn find_all<'a>(
        &'a self,
        jid: &'a str,
        wanted: impl Fn(&ArenaEntry) -> bool + 'a,
    ) -> impl Iterator<Item = JobIndex> + 'a {
        let hash = self.state.hash(jid);
        let candidates = self.state.index.candidates(hash, &self.state.arena);
        let mut buffer = Vec::new();
        candidates.filter(move |job| {
            let entry = self.state.arena.get(*job);
            let meant = wanted(entry) && !self.state.is_cleared(*job);
            let body = meant.then(|| self.journal.read(entry.position, &mut buffer));
            matches!(body, Some(Ok(body)) if body.jid == jid)
        })
    }
}
