//! Storing, fetching and finishing jobs: push, take, ack, fail, expiry of reservations, release.

use std::rc::Rc;
use std::time::Duration;

use weir_base::clock::Timestamp;

use super::state::{
    JobId, MemoryJob, MemoryJobState, MemoryQueue, MemoryReservation, MemoryState, MemoryTotals,
};
use crate::batches::JobEnd;
use crate::custom::UniqueKey;
use crate::dispatch::{Candidate, DispatchCharge, QueueEnd};
use crate::features::JobFeatures;
use crate::job_class::job_class;
use crate::job_text;
use crate::job_types::{StartedJob, TypeRun};
use crate::metrics::{JobServerLimit, StaleReport};
use crate::model::{
    Delivery, FailureCause, FailureReport, NewJob, QueueName, SetName, Wid, WorkerEnd,
};
use crate::resources::{ResourceSet, TypeKey};
use crate::rules::{self, Return};
use crate::store::{FailOutcome, Restored, StoreError};
use crate::tracks::TrackState;

/// The job that a worker's report is about.
enum ReportedJob {
    Reserved(JobId),
    /// Another worker has reserved it.
    OfAnother,
    NotReserved,
}

/// A pushed or imported job with its destination.
#[derive(Debug)]
struct PlacedJob<'a> {
    job: &'a NewJob<'a>,
    set: Option<(SetName, Timestamp)>,
    features: JobFeatures,
}

impl PlacedJob<'_> {
    fn has_lock(&self, key: UniqueKey) -> bool {
        self.features.lock.is_some_and(|lock| lock.key == key)
    }
}

/// A job that is being delivered to a worker.
#[derive(Debug)]
pub(super) struct MemoryFetch {
    id: JobId,
    /// The ticket of its reservation.
    ticket: u64,
    since: Timestamp,
    /// The features of the job before it started, among them a lock that ends at the start.
    features: JobFeatures,
    pub(super) delivery: Delivery,
}

impl MemoryState {
    /// Stores all jobs or none. Returns the queues with new jobs, in order.
    pub(super) fn push(
        &mut self,
        jobs: &[NewJob<'_>],
        now: Timestamp,
    ) -> Result<Vec<QueueName>, StoreError> {
        let mut placed = Vec::with_capacity(jobs.len());
        for job in jobs {
            let features = JobFeatures::of(&job.custom, job.at, now);
            self.features.admit(&features, now, &self.limits, &self.metrics)?;
            if let Some(lock) = features.lock
                && placed.iter().any(|earlier: &PlacedJob<'_>| earlier.has_lock(lock.key))
            {
                return Err(StoreError::NotUnique);
            }
            let set = job.at.map(|at| (SetName::Scheduled, at));
            placed.push(PlacedJob { job, set, features });
        }
        self.add(&placed, now)
    }

    /// Returns whether another job holds the unique lock of a job.
    pub(super) fn is_locked(&self, job: &NewJob<'_>, now: Timestamp) -> bool {
        self.features.is_locked(&JobFeatures::of(&job.custom, job.at, now), now)
    }

    /// Like [`MemoryState::push`], but puts each job into its former set.
    pub(super) fn restore(
        &mut self,
        jobs: &[Restored<'_>],
        now: Timestamp,
    ) -> Result<Vec<QueueName>, StoreError> {
        let placed = |old: &Restored<'_>| (old.job.custom, old.set.map(|set| (set, old.at)));
        let placed: Vec<_> = jobs
            .iter()
            .map(|old| {
                let (custom, set) = placed(old);
                let due = set.filter(|(set, _)| *set == SetName::Scheduled).map(|(_, at)| at);
                let mut features = JobFeatures::of(&custom, due, now);
                if let Some(exported) = &old.features {
                    features = features.imported(exported);
                }
                PlacedJob {
                    job: &old.job,
                    set,
                    features: self.features.admit_import(features, now),
                }
            })
            .collect();
        let queues = self.add(&placed, now)?;
        self.trim_dead();
        Ok(queues)
    }

    fn add(
        &mut self,
        jobs: &[PlacedJob<'_>],
        now: Timestamp,
    ) -> Result<Vec<QueueName>, StoreError> {
        self.check_room(jobs.iter().map(|placed| placed.job.json.len()).sum())?;
        let names = self.make_queues(jobs.iter().map(|placed| placed.job.queue))?;
        let mut with_work = Vec::new();
        for (PlacedJob { job, set, features }, name) in jobs.iter().zip(names) {
            if set.is_none() {
                with_work.push(name.clone());
            }
            self.insert(job, name, *set, *features, now);
        }
        Ok(with_work)
    }

    fn check_room(&self, more: usize) -> Result<(), StoreError> {
        let max = self.limits.memory_bytes_max;
        if self.bytes + more > max {
            self.metrics.limit_hit(JobServerLimit::MemoryBytesMax);
            let text = format!("memory full: at most {max} bytes (jobs.limits.memory_bytes_max)");
            return Err(StoreError::Limit(text));
        }
        Ok(())
    }

    /// Returns the queue of each job. Creates new ones, unless there are too many.
    pub(super) fn make_queues<'n>(
        &mut self,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<Vec<QueueName>, StoreError> {
        let names: Result<Vec<_>, _> =
            names.map(|name| QueueName::parse(name, &self.limits)).collect();
        let names = names.map_err(|error| StoreError::Limit(error.to_string()))?;
        let mut new: Vec<_> =
            names.iter().filter(|name| !self.queues.contains_key(*name)).collect();
        new.sort_unstable();
        new.dedup();
        let max = self.limits.queues_max;
        if self.queues.len() + new.len() > max {
            self.metrics.limit_hit(JobServerLimit::QueuesMax);
            let text = format!("too many queues: at most {max} (jobs.limits.advanced.queues_max)");
            return Err(StoreError::Limit(text));
        }
        for name in new {
            let metrics = self.metrics.queue(name.as_str());
            let mut queue = MemoryQueue { fair: self.lanes_for(name), ..MemoryQueue::new(metrics) };
            queue.rate.set(self.allocation.of(name).rate);
            self.queues.insert(name.clone(), queue);
        }
        for name in &names {
            self.queue(name).hidden = false;
        }
        Ok(names)
    }

    /// Reserves the next job of `queues`, and drops expired ones before it. Returns `None` if no job is
    /// available.
    pub(super) fn take(
        &mut self,
        wid: Option<&Wid>,
        queues: &[QueueName],
        fetches_waiting: impl Fn(&QueueName) -> u32,
        now: Timestamp,
    ) -> Option<MemoryFetch> {
        self.wake(queues, now);
        loop {
            let Some((id, charge)) = self.choose(queues, &fetches_waiting, now) else {
                self.sleep(queues, now);
                return None;
            };
            if !self.features.get(id).has_expired(now) {
                return Some(self.reserve(id, wid, charge, now));
            }
            self.take_back_charge(id, charge);
            self.metrics.expired();
            self.note_track(id, TrackState::Dead, now);
            self.forget(id);
        }
    }

    fn choose(
        &mut self,
        queues: &[QueueName],
        fetches_waiting: &impl Fn(&QueueName) -> u32,
        now: Timestamp,
    ) -> Option<(JobId, Option<DispatchCharge>)> {
        let blocked = self.blocked_resources(now);
        let mut left_out = Vec::new();
        loop {
            let candidates: Vec<Candidate> = queues
                .iter()
                .enumerate()
                .filter(|(place, _)| !left_out.contains(place))
                .filter_map(|(place, name)| {
                    self.candidate(place, name, blocked, fetches_waiting, now)
                })
                .collect();
            let candidates = candidates.iter().copied();
            let chosen = self.dispatcher.choose(&self.allocation, queues, candidates, now)?;
            let name = &queues[chosen.place];
            let target = self.allocation.of(name).target_latency.unwrap_or_default();
            let newest_from = (chosen.end == QueueEnd::Newest).then(|| (now - target).as_micros());
            if let Some(id) = self.next_job(name, newest_from, fetches_waiting, blocked) {
                return Some((id, chosen.charge));
            }
            // The next jobs of all its tenants wait for resources.
            if let Some(charge) = chosen.charge {
                self.dispatcher.take_back(name, charge);
            }
            left_out.push(chosen.place);
        }
    }

    fn candidate(
        &self,
        place: usize,
        name: &QueueName,
        blocked: ResourceSet,
        fetches_waiting: &impl Fn(&QueueName) -> u32,
        now: Timestamp,
    ) -> Option<Candidate> {
        let wait = |order: &u64| now.since(Timestamp::from_micros(*order));
        let queue = self.queues.get(name).filter(|queue| !queue.paused)?;
        let (oldest, _) = queue.lane.first_key_value()?;
        let has_none = || match &queue.fair {
            Some(fair) => !fair.can_serve(queue.room(|| fetches_waiting(name))),
            None => self.oldest_open(queue, blocked).is_none(),
        };
        Some(Candidate {
            place,
            running: queue.reserved,
            oldest_wait: wait(oldest),
            newest_wait: queue.lane.keys().next_back().map(wait).unwrap_or_default(),
            is_held_back: queue.rate.blocked_until(now).is_some()
                || !self.resources.of_queue(name.as_str()).is_open(blocked)
                || has_none(),
        })
    }

    fn next_job(
        &mut self,
        name: &QueueName,
        newest_from: Option<u64>,
        fetches_waiting: &impl Fn(&QueueName) -> u32,
        blocked: ResourceSet,
    ) -> Option<JobId> {
        let queue = self.queues.get(name)?;
        if queue.fair.is_none() {
            let newest = newest_from.and_then(|from| self.newest_open(queue, from, blocked));
            return newest.or_else(|| self.oldest_open(queue, blocked));
        }
        let room = queue.room(|| fetches_waiting(name));
        let Self { queues, jobs, resources, .. } = self;
        let classes = &resources.classes;
        let class_of = |id| {
            let jobtype = jobs.get(&id).map_or("", |job: &MemoryJob| &job.jobtype);
            classes.of_type(TypeKey::of(jobtype))
        };
        let is_open = |class| classes.uses(class).is_open(blocked);
        queues.get_mut(name)?.fair.as_mut()?.next(room, newest_from, class_of, is_open)
    }

    /// Takes back what dispatch charged for a job that waits again.
    fn take_back_charge(&mut self, id: JobId, charge: Option<DispatchCharge>) {
        if let Some(charge) = charge {
            let queue = self.job(id).queue.clone();
            self.dispatcher.take_back(&queue, charge);
        }
    }

    fn reserve(
        &mut self,
        id: JobId,
        wid: Option<&Wid>,
        charge: Option<DispatchCharge>,
        now: Timestamp,
    ) -> MemoryFetch {
        let MemoryJob { jid, jobtype, json, queue, order, .. } = self.job(id);
        let run = self.metrics.types().run_of(&job_class(jobtype, json), now);
        let ready_at = Some(Timestamp::from_micros(*order));
        run.start(&StartedJob { jid, queue: queue.as_str(), ready_at }, now);
        let (queue, order, run) = (queue.clone(), *order, Rc::new(run));
        let delivery = Delivery { jid: jid.clone(), json: json.clone() };
        let reserve_for = Duration::from_secs(self.job(id).reserve_for_seconds.into());
        let expires_at = now + reserve_for;
        let uses = Self::uses(&self.resources, self.job(id));
        self.last_ticket += 1;
        let (ticket, wid) = (self.last_ticket, wid.cloned());
        let reservation =
            MemoryReservation { ticket, wid, since: now, expires_at, charge, run, uses };
        self.rest(id, MemoryJobState::Reserved(reservation), order);
        self.count_start(id, now);
        let features = self.features.get(id);
        self.features.set(id, features.started());
        self.note_track(id, TrackState::Working, now);
        let waited = now.since(Timestamp::from_micros(order));
        let target = self.allocation.of(&queue).target_latency;
        let state = self.queue(&queue);
        state.metrics.wait.observe(waited.as_secs_f64());
        state.totals.in_time.count(waited, target);
        MemoryFetch { id, ticket, since: now, features, delivery }
    }

    /// Returns whether the reservation of a job that was taken has not ended.
    pub(super) fn is_held(&self, taken: &MemoryFetch) -> bool {
        let rest = self.jobs.get(&taken.id).map(|job| &job.rest);
        matches!(rest, Some(MemoryJobState::Reserved(held)) if held.ticket == taken.ticket)
    }

    /// Returns a job that was not delivered to its former position, unless its reservation has
    /// ended since. Returns its queue.
    pub(super) fn put_back(&mut self, taken: &MemoryFetch) -> Option<QueueName> {
        if !self.is_held(taken) {
            return None;
        }
        if !self.features.is_locked(&taken.features, taken.since) {
            self.features.set(taken.id, taken.features);
        }
        Some(self.wait_again(taken.id, taken.since))
    }

    /// Ends a reservation, or removes a job that waits again. Returns the job's queue, or `None` if
    /// the jid is unknown.
    pub(super) fn ack(
        &mut self,
        reporter: Option<&Wid>,
        jid: &str,
        now: Timestamp,
    ) -> Option<QueueName> {
        let waiting = |job: &MemoryJob| matches!(job.rest, MemoryJobState::Waiting);
        let id = match self.reserved(jid, reporter, StaleReport::Ack) {
            ReportedJob::Reserved(id) => id,
            ReportedJob::OfAnother => return None,
            ReportedJob::NotReserved => self.find_where(jid, waiting)?,
        };
        let name = self.job(id).queue.clone();
        self.observe_run(id, now);
        if let Some(run) = self.run(id) {
            run.succeeded(now);
        }
        self.note_track(id, TrackState::Success, now);
        self.features.end(id, JobEnd::Succeeded);
        self.totals.processed += 1;
        self.queue(&name).totals.processed += 1;
        self.forget(id);
        Some(name)
    }

    /// Ends a reservation with a failure. Returns the outcome and the job's queue.
    pub(super) fn fail(
        &mut self,
        reporter: Option<&Wid>,
        report: FailureReport,
        now: Timestamp,
    ) -> Result<(FailOutcome, QueueName), StoreError> {
        match self.reserved(&report.jid, reporter, StaleReport::Fail) {
            ReportedJob::Reserved(id) => {
                self.observe_run(id, now);
                Ok(self.fail_job(id, report, FailureCause::Run, now))
            }
            ReportedJob::OfAnother | ReportedJob::NotReserved => {
                Err(StoreError::NotFound(report.jid))
            }
        }
    }

    /// Finds the reserved job that a report ends. Counts a report of another worker's job.
    fn reserved(&self, jid: &str, reporter: Option<&Wid>, report: StaleReport) -> ReportedJob {
        let of_reporter = |job: &MemoryJob| match &job.rest {
            MemoryJobState::Reserved(held) => rules::may_end(held.wid.as_ref(), reporter),
            _ => false,
        };
        let of_any = |job: &MemoryJob| matches!(job.rest, MemoryJobState::Reserved(_));
        match self.find_where(jid, of_reporter) {
            Some(id) => ReportedJob::Reserved(id),
            None if self.find_where(jid, of_any).is_some() => {
                self.metrics.stale_report(report);
                ReportedJob::OfAnother
            }
            None => ReportedJob::NotReserved,
        }
    }

    /// Records the time since the fetch of a job that its worker ends.
    fn observe_run(&mut self, id: JobId, now: Timestamp) {
        let job = self.job(id);
        if let MemoryJobState::Reserved(reservation) = &job.rest {
            let (name, ran) = (job.queue.clone(), now.since(reservation.since).as_secs_f64());
            self.queue(&name).metrics.run.observe(ran);
        }
        self.end_charge(id, now);
    }

    /// Corrects the charge of a reserved job that ends.
    fn end_charge(&mut self, id: JobId, now: Timestamp) {
        self.end_lane(id, now);
        if let Some((charge, since)) = self.charge(id) {
            let queue = self.job(id).queue.clone();
            self.dispatcher.ended(&queue, charge, now.since(since));
        }
    }

    /// Ends the charge of a job whose worker has not reported its end.
    fn lapse_charge(&mut self, id: JobId, now: Timestamp) {
        self.end_lane(id, now);
        if let Some((charge, since)) = self.charge(id) {
            let queue = self.job(id).queue.clone();
            self.dispatcher.lapsed(&queue, charge, now.since(since));
        }
    }

    /// Returns the charge of a reserved job, and since when it is reserved.
    fn charge(&self, id: JobId) -> Option<(DispatchCharge, Timestamp)> {
        match &self.job(id).rest {
            MemoryJobState::Reserved(held) => held.charge.map(|charge| (charge, held.since)),
            _ => None,
        }
    }

    /// Returns the run of a reserved job.
    fn run(&self, id: JobId) -> Option<&TypeRun> {
        match &self.job(id).rest {
            MemoryJobState::Reserved(held) => Some(&held.run),
            _ => None,
        }
    }

    fn fail_job(
        &mut self,
        id: JobId,
        report: FailureReport,
        cause: FailureCause,
        now: Timestamp,
    ) -> (FailOutcome, QueueName) {
        let job = self.jobs.get(&id).expect("an id in a place names a live job");
        let previous = job_text::failure(&job.json, job.base_bytes);
        let facts =
            rules::FailedJob { retry: job.retry, backtrace: job.backtrace, previous, cause };
        let (outcome, failure) = rules::fail(&facts, report, now, &mut self.random);
        let json = job_text::failed(&job.json, job.base_bytes, &failure);
        if let MemoryJobState::Reserved(held) = &job.rest {
            held.run.failed(&job.jid, &failure, now);
        }
        let name = job.queue.clone();
        self.totals.count_failure();
        self.queue(&name).totals.count_failure();
        let state = match outcome {
            FailOutcome::Dead => TrackState::Dead,
            FailOutcome::Retry { .. } | FailOutcome::Discarded => TrackState::Failed,
        };
        self.note_track(id, state, now);
        if matches!(outcome, FailOutcome::Retry { .. }) {
            self.queue(&name).totals.arrivals.retried_total += 1;
        }
        let features = self.features.get(id);
        let is_dead = outcome == FailOutcome::Dead;
        self.features.set(id, if is_dead { features.died() } else { features.failed() });
        match outcome {
            FailOutcome::Discarded => self.forget(id),
            FailOutcome::Retry { next_at } => self.settle(id, SetName::Retries, next_at, json),
            FailOutcome::Dead => {
                self.settle(id, SetName::Dead, now, json);
                self.trim_dead();
            }
        }
        (outcome, name)
    }

    /// Moves a job to `set` with a new text.
    pub(super) fn settle(&mut self, id: JobId, set: SetName, at: Timestamp, json: Vec<u8>) {
        self.rewrite(id, json);
        self.rest(id, MemoryJobState::In(set), at.as_micros());
    }

    /// Ends the reservation that expired first, if any has expired: its job has failed, unless its worker was lost before.
    /// Returns the job's queue.
    pub(super) fn lapse_one(&mut self, now: Timestamp) -> Option<QueueName> {
        let (_, id) = *self.expiry.first().filter(|(at, _)| *at <= now)?;
        if let MemoryJobState::Reserved(held) = &self.job(id).rest
            && self.lost_workers.has(held.wid.as_ref())
        {
            return Some(self.release_job(id, WorkerEnd::Killed, now));
        }
        self.lapse_charge(id, now);
        let report = rules::reservation_expired(self.job(id).jid.clone());
        Some(self.fail_job(id, report, FailureCause::Run, now).1)
    }

    /// Releases the jobs of a worker that has ended, up to the ticket `last`: they wait again, or are dead if they have
    /// killed too many workers. Returns the queue of each.
    pub(super) fn release(
        &mut self,
        wid: &Wid,
        last: u64,
        end: WorkerEnd,
        now: Timestamp,
    ) -> Vec<QueueName> {
        let is_held = |job: &MemoryJob| match &job.rest {
            MemoryJobState::Reserved(held) => held.ticket <= last && held.wid.as_ref() == Some(wid),
            _ => false,
        };
        let held = self.expiry.iter().filter(|(_, id)| is_held(self.job(*id)));
        let held: Vec<JobId> = held.map(|(_, id)| *id).collect();
        held.into_iter().map(|id| self.release_job(id, end, now)).collect()
    }

    fn release_job(&mut self, id: JobId, end: WorkerEnd, now: Timestamp) -> QueueName {
        let features = self.features.get(id);
        match rules::after_worker_end(end, features.kills, self.limits.returns_max, now) {
            Return::Dies { times } => {
                self.lapse_charge(id, now);
                self.metrics.limit_hit(JobServerLimit::ReturnsMax);
                let jid = self.job(id).jid.clone();
                tracing::warn!(%jid, times, "a job has killed too many workers: it is dead");
                let report = rules::worker_killed(jid, times);
                self.fail_job(id, report, FailureCause::WorkerKilled, now).1
            }
            Return::Waits(kills) => {
                self.features.set(id, JobFeatures { kills, ..features });
                if let Some(run) = self.run(id) {
                    run.returned(&self.job(id).jid, now);
                }
                self.wait_again(id, now)
            }
        }
    }

    fn wait_again(&mut self, id: JobId, now: Timestamp) -> QueueName {
        let charge = self.charge(id).map(|(charge, _)| charge);
        self.take_back_charge(id, charge);
        self.note_track(id, TrackState::Enqueued, now);
        let (order, name) = (self.job(id).order, self.job(id).queue.clone());
        self.rest(id, MemoryJobState::Waiting, order);
        name
    }

    /// Extends a reservation until `until`; never shortens it. Returns false if there is no such
    /// reservation.
    pub(super) fn extend(&mut self, jid: &str, until: Timestamp) -> bool {
        let reserved = |job: &MemoryJob| matches!(job.rest, MemoryJobState::Reserved(_));
        let Some(id) = self.find_where(jid, reserved) else {
            return false;
        };
        let job = self.job(id);
        let order = job.order;
        if let MemoryJobState::Reserved(old) = job.rest.clone()
            && until > old.expires_at
        {
            self.rest(
                id,
                MemoryJobState::Reserved(MemoryReservation { expires_at: until, ..old }),
                order,
            );
        }
        true
    }

    /// Returns the oldest live job with this jid that satisfies `wanted`.
    pub(super) fn find_where(
        &self,
        jid: &str,
        wanted: impl Fn(&MemoryJob) -> bool,
    ) -> Option<JobId> {
        let twins = self.by_jid.get(jid)?;
        twins.iter().copied().find(|id| wanted(self.job(*id)))
    }
}

impl MemoryTotals {
    fn count_failure(&mut self) {
        self.processed += 1;
        self.failed += 1;
    }
}
