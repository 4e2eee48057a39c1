//! Reserves jobs for a group of FETCHes: one script, however many ask.

use std::collections::BTreeSet;
use std::rc::{Rc, Weak};
use std::time::Duration;

use redis::{ScriptInvocation, Value};
use weir_base::clock::Timestamp;
use weir_jobs::dispatch::{Candidate, Choice, QueueEnd};
use weir_jobs::job_class::job_class;
use weir_jobs::model::{Delivery, QueueName, Wid};
use weir_jobs::store::StoreError;
use weir_jobs::tracks::TrackState;

use super::feature_calls::ExpiredJob;
use super::features::StoredFeatures;
use super::handover::{GiveBack, Handover};
use super::inspection::NO_RESOURCES_IN_CLUSTER;
use super::lease::lease_is_over;
use super::limits::{LimitReadings, QueueLimits, Room};
use super::link_connection::LinkConnection;
use super::replies::{PoppedJobs, QueueReading, popped_jobs};
use super::reservations::Reservation;
use super::store_core::{StoreCore, StoreState};
use super::stored::{MalformedPayload, StoredText};
use super::track_notes::is_tracked_text;
use super::translate;
use super::waiting::FetchGroup;

/// Jobs that one script reserves; at least one for each FETCH.
const JOBS_PER_SCRIPT_MAX: usize = 1_000;

/// Returns how many jobs one script reserves at most for each FETCH of a group.
fn jobs_of(group: &FetchGroup) -> impl Iterator<Item = usize> {
    let mut left = JOBS_PER_SCRIPT_MAX;
    group.fetches.iter().map(move |fetch| {
        let jobs = fetch.max.jobs.min(left).max(1);
        left = left.saturating_sub(jobs);
        jobs
    })
}

/// What a group has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupOutcome {
    /// Whether another round may find more jobs for FETCHes in line.
    pub(super) may_have_more: bool,
}

/// What one script has done for a group.
#[derive(Debug, Default)]
struct ReserveStep {
    may_have_more: bool,
    /// FETCHes that have got nothing, with their queues whose jobs are not blocked.
    rest: Option<FetchGroup>,
}

impl StoreCore {
    /// Returns the group without the queues that sleep.
    pub(super) fn awake(&self, group: &FetchGroup) -> FetchGroup {
        let (state, now) = (self.state.borrow(), self.now());
        let is_asleep = |queue: &QueueName| state.sleeping.has(queue, now);
        let queues = match group.queues.iter().any(is_asleep) {
            true => group.queues.iter().filter(|queue| !is_asleep(queue)).cloned().collect(),
            false => Rc::clone(&group.queues),
        };
        FetchGroup { queues, fetches: group.fetches.clone() }
    }

    /// Notes when blocked jobs of a group may start by a rate. Returns the FETCHes that have got nothing, with the queues
    /// that may have jobs for them. `None`: there are none.
    fn rest_of(
        &self,
        group: &FetchGroup,
        blocked: &[(usize, Option<Duration>)],
        is_served: impl Fn(usize) -> bool,
    ) -> Option<FetchGroup> {
        let (mut state, now) = (self.state.borrow_mut(), self.now());
        for (place, wait) in blocked {
            if let (Some(queue), Some(wait)) = (group.queues.get(*place), wait) {
                state.sleeping.insert_blocked(queue.clone(), now, *wait);
                self.sleep_began.notify_one();
            }
        }
        let is_left = |place: usize| !blocked.iter().any(|(it, _)| *it == place);
        let queues = group.queues.iter().enumerate().filter(|(place, _)| is_left(*place));
        let queues: Rc<[QueueName]> = queues.map(|(_, queue)| queue.clone()).collect();
        let fetches = group.fetches.iter().enumerate().filter(|(place, _)| !is_served(*place));
        let fetches: Vec<_> = fetches.map(|(_, fetch)| fetch.clone()).collect();
        let has_rest = !blocked.is_empty() && !queues.is_empty() && !fetches.is_empty();
        has_rest.then_some(FetchGroup { queues, fetches })
    }

    /// Lets the queues at these places of a group sleep. Returns whether there are any.
    pub(super) fn let_sleep(&self, group: &FetchGroup, sleeping: &[(usize, Duration)]) -> bool {
        let (mut state, now) = (self.state.borrow_mut(), self.now());
        for (place, wait) in sleeping {
            if let Some(queue) = group.queues.get(*place) {
                state.sleeping.insert(queue.clone(), now, *wait);
            }
        }
        if !sleeping.is_empty() {
            self.sleep_began.notify_one();
        }
        !sleeping.is_empty()
    }

    /// Returns how long it is until the first queue wakes.
    pub(super) fn wakes_in(&self) -> Option<Duration> {
        self.state.borrow_mut().sleeping.wakes_in(self.now())
    }
}

impl StoreCore {
    /// Reserves jobs for the FETCHes of a group and hands them over. A FETCH that gets nothing because the jobs of a queue
    /// are blocked is served from its other queues.
    pub(super) async fn reserve(
        self: &Rc<Self>,
        group: &FetchGroup,
        mut connection: LinkConnection,
    ) -> Result<GroupOutcome, StoreError> {
        self.count_running(&mut connection).await?;
        if self.state.borrow().has_unlimited {
            self.return_unlimited(&mut connection).await?;
        }
        let (mut rest, mut may_have_more) = (Some(self.awake(group)), false);
        while let Some(group) = rest.take().filter(|group| !group.queues.is_empty()) {
            let step = self.reserve_step(&group, connection.clone()).await?;
            may_have_more |= step.may_have_more;
            rest = step.rest;
        }
        Ok(GroupOutcome { may_have_more })
    }

    async fn reserve_step(
        self: &Rc<Self>,
        group: &FetchGroup,
        mut connection: LinkConnection,
    ) -> Result<ReserveStep, StoreError> {
        let plan = match self.has_rules(&group.queues) {
            true => Some(self.plan(group, &mut connection).await?),
            false => None,
        };
        if plan.as_ref().is_some_and(Vec::is_empty) {
            return Ok(ReserveStep::default());
        }
        let is_plan_cut = plan.as_ref().is_some_and(|plan| plan.len() >= JOBS_PER_SCRIPT_MAX);
        let token = self.token()?;
        let next_number = self.state.borrow().next_number;
        let _reserving = self.rounds.reserve(next_number);
        let popped = if self.is_split() {
            self.reserve_by_queue(group, plan, &mut connection).await?
        } else {
            self.reserve_at_once(group, plan.as_deref(), &token, &mut connection).await?
        };
        if !self.token().is_ok_and(|present| present == token) {
            // They are reserved under an epoch that is over, and return from there.
            return Err(lease_is_over());
        }
        let has_sleeping = self.let_sleep(group, &popped.sleeping);
        let has_more = popped.has_more || popped.is_uncounted;
        if popped.is_uncounted {
            self.state.borrow_mut().has_counted_running = false;
        }
        let blocked = popped.blocked.clone();
        let AcceptedJobs { handovers, started, malformed, expired } = self.accept(group, popped);
        self.free_locks_of_started(&mut connection, &started).await?;
        if !self.has_lease() {
            // Another node may have returned these jobs already. Those that it has not go back.
            return Err(lease_is_over());
        }
        let is_served: Vec<bool> = handovers.iter().map(|it| !it.is_empty()).collect();
        for (fetch, jobs) in group.fetches.iter().zip(handovers) {
            if !jobs.is_empty() {
                self.waiting.serve(fetch.ticket, jobs);
            }
        }
        let has_dropped = !malformed.is_empty() || !expired.is_empty();
        self.end_expired(&mut connection, expired).await?;
        self.move_malformed_to_dead_set(&mut connection, malformed).await?;
        // A FETCH for a queue that may not start a job now is served from its other queues.
        let are_all_served = is_served.iter().all(|is_served| *is_served);
        let is_cut = is_plan_cut && is_served.contains(&true);
        let may_have_more = has_dropped || has_sleeping || has_more || is_cut || are_all_served;
        let rest = self.rest_of(group, &blocked, |place| is_served[place]);
        Ok(ReserveStep { may_have_more, rest })
    }

    async fn reserve_at_once(
        &self,
        group: &FetchGroup,
        plan: Option<&[Choice]>,
        token: &str,
        connection: &mut LinkConnection,
    ) -> Result<PoppedJobs, StoreError> {
        let invocation = self.invocation(group, plan)?;
        let reply: Result<Vec<Value>, _> = invocation.invoke_async(connection).await;
        let reply = reply.map_err(|error| {
            self.state.borrow_mut().reply_lost = true;
            self.link.failed(&error)
        })?;
        if reply.is_empty() {
            return Err(self.lose_lease(token));
        }
        Ok(popped_jobs(reply))
    }

    pub(super) fn has_rules(&self, queues: &[QueueName]) -> bool {
        self.state.borrow().allocation.has_rules_for(queues)
    }

    pub(super) fn invocation(
        &self,
        group: &FetchGroup,
        plan: Option<&[Choice]>,
    ) -> Result<ScriptInvocation<'_>, StoreError> {
        let script = if plan.is_some() { &self.scripts.take } else { &self.scripts.fetch };
        let mut invocation = script.prepare_invoke();
        for queue in &*group.queues {
            let queue = queue.as_str();
            invocation.key(self.keys.list(queue));
            invocation.key(self.keys.reserved(queue)).key(self.keys.control(queue));
        }
        if let [queue] = &*group.queues
            && self.is_split()
        {
            invocation.key(self.lease_key(&self.keys.list(queue.as_str())));
        } else {
            invocation.key(self.keys.nodes()).key(self.keys.reserving());
        }
        let owner = self.owner.borrow().as_ref().map(ToString::to_string);
        let Some(owner) = owner.filter(|_| self.has_lease()) else {
            return Err(lease_is_over());
        };
        let number = self.take_numbers(group);
        invocation.arg(self.micros_argument()).arg(owner).arg(number).arg(group.fetches.len());
        for (fetch, jobs) in group.fetches.iter().zip(jobs_of(group)) {
            invocation.arg(fetch.wid.as_ref().map_or("", |wid| wid.as_str()));
            invocation.arg(jobs).arg(fetch.max.bytes);
        }
        if plan.is_some() {
            self.add_limits(group, &mut invocation);
        }
        for queue in &*group.queues {
            invocation.arg(queue.as_str());
        }
        if let Some(plan) = plan {
            Self::add_plan(plan, &mut invocation);
        }
        Ok(invocation)
    }

    /// Returns the first of as many numbers as the group may need.
    fn take_numbers(&self, group: &FetchGroup) -> u64 {
        let jobs: usize = jobs_of(group).sum();
        let mut state = self.state.borrow_mut();
        let first = state.next_number;
        state.next_number += jobs as u64;
        first
    }

    /// Adds the limits, and the keys that they need.
    fn add_limits(&self, group: &FetchGroup, invocation: &mut ScriptInvocation<'_>) {
        let limits = QueueLimits::of(&self.state.borrow().allocation, &group.queues);
        if limits.has_resources() {
            invocation.key(self.keys.rates());
        }
        // Behind those of the queues, the leases, the names of queues and the rates. Lua counts from 1.
        let first_key = 3 * group.queues.len() + 4;
        let mut first_running = first_key;
        for queue in limits.resource_queues() {
            invocation.key(self.keys.reserved(queue.as_str()));
            first_running += 1;
        }
        if !limits.classes().is_empty() {
            for key in limits.running_keys(&self.keys) {
                invocation.key(key);
            }
            invocation.key(self.keys.queues()).key(self.keys.blocked());
        }
        invocation.arg(limits.json(first_key, first_running));
    }

    fn add_plan(plan: &[Choice], invocation: &mut ScriptInvocation<'_>) {
        for choice in plan {
            let end = match choice.end {
                QueueEnd::Oldest => "oldest",
                QueueEnd::Newest => "newest",
            };
            invocation.arg(choice.place + 1).arg(end);
        }
    }

    /// Chooses a queue and its end for each job, by the rules of the allocation.
    async fn plan(
        &self,
        group: &FetchGroup,
        connection: &mut LinkConnection,
    ) -> Result<Vec<Choice>, StoreError> {
        let limits = QueueLimits::of(&self.state.borrow().allocation, &group.queues);
        let (mut readings, of_limits) =
            self.readings_with_limits(connection, &group.queues, &limits, true).await?;
        let mut room = limits.room(&readings, &of_limits);
        self.let_sleep(group, &asleep(&readings, &room));
        let jobs = group.fetches.iter().map(|fetch| fetch.max.jobs).sum::<usize>();
        let now = self.now();
        let state = &mut *self.state.borrow_mut();
        let mut plan = Vec::new();
        while plan.len() < jobs.min(JOBS_PER_SCRIPT_MAX)
            && let Some(choice) = choose(state, &group.queues, &readings, &room, now)
        {
            let reading = &mut readings[choice.place];
            reading.depth -= 1;
            reading.reserved += 1;
            room.start(choice.place);
            plan.push(choice);
        }
        Ok(plan)
    }

    /// Reads queues, and what is needed to know their limits. To choose a queue for a FETCH, the blocked jobs of a queue
    /// without others count for it, and jobs in progress by type are not read unless they matter.
    pub(super) async fn readings_with_limits(
        &self,
        connection: &mut LinkConnection,
        queues: &[QueueName],
        limits: &QueueLimits,
        is_to_choose: bool,
    ) -> Result<(Vec<QueueReading>, LimitReadings), StoreError> {
        if limits.has_resources() && self.is_split() {
            return Err(StoreError::Unsupported(NO_RESOURCES_IN_CLUSTER));
        }
        let others: BTreeSet<&QueueName> =
            limits.resource_queues().filter(|queue| !queues.contains(queue)).collect();
        let all: Vec<QueueName> = queues.iter().chain(others).cloned().collect();
        let names: Vec<&str> = limits.resource_names().collect();
        let suffixes = if is_to_choose { limits.classes().suffixes() } else { Vec::new() };
        let (mut readings, rates) =
            self.readings_and_rates(connection, &all, &names, &suffixes).await?;
        let by_type = match !is_to_choose || limits.have_queues_and_types() {
            true => self.running_by_type(connection, limits).await?,
            false => Vec::new(),
        };
        let reserved = all.into_iter().zip(readings.iter().map(|it| it.reserved)).collect();
        readings.truncate(queues.len());
        Ok((readings, LimitReadings { reserved, rates, by_type }))
    }

    /// Enters jobs into the table of reservations, unless they are dropped.
    fn accept(
        self: &Rc<Self>,
        group: &FetchGroup,
        PoppedJobs { since, jobs, .. }: PoppedJobs,
    ) -> AcceptedJobs {
        let store: Weak<dyn GiveBack> = Rc::downgrade(&(Rc::clone(self) as Rc<dyn GiveBack>));
        let handovers = group.fetches.iter().map(|_| Handover::new(Weak::clone(&store))).collect();
        let mut accepted = AcceptedJobs { handovers, ..AcceptedJobs::default() };
        let now = self.now();
        for job in jobs {
            let (Some(fetch), Some(queue)) =
                (group.fetches.get(job.worker), group.queues.get(job.queue))
            else {
                continue;
            };
            let (number, payload) = (job.number, job.payload);
            self.count_traffic(queue, |traffic| traffic.taken += 1);
            match StoredText::parse(&payload, self.limits.line_bytes_max) {
                Ok(text) => {
                    let mut reservation =
                        reservation_of(&text, &payload, queue, fetch.wid.clone(), since);
                    if let Some(features) = reservation.features.take_if(|it| it.has_expired(now)) {
                        accepted.expired.push(ExpiredJob {
                            number,
                            queue: queue.clone(),
                            features,
                        });
                        continue;
                    }
                    if reservation.features.as_ref().is_some_and(|it| it.ends_at_start()) {
                        accepted.started.push(number);
                    }
                    let json = translate::to_faktory(&text, queue.as_str(), None);
                    self.observe_wait(queue, text.enqueued_at());
                    reservation.run = Some(self.started_run(&reservation, text.enqueued_at()));
                    let delivery = Delivery { jid: reservation.jid.clone(), json };
                    self.note_reserved(&reservation, TrackState::Working);
                    self.state.borrow_mut().reservations.insert(number, reservation);
                    accepted.handovers[job.worker].add(number, delivery);
                }
                Err(error) => {
                    let queue = queue.clone();
                    accepted.malformed.push(MalformedJob { number, queue, error });
                }
            }
        }
        accepted
    }

    /// Moves payloads that no worker could run to the dead set, as they are.
    async fn move_malformed_to_dead_set(
        &self,
        connection: &mut LinkConnection,
        jobs: Vec<MalformedJob>,
    ) -> Result<(), StoreError> {
        for MalformedJob { number, queue, error } in jobs {
            let score = self.now();
            let text: &[u8] = b"";
            let dead = self.keys.dead();
            match self.settle(connection, &queue, number, &dead, score, text).await {
                Ok(_) => self.count_malformed(1),
                Err(error) if self.link.absence_text().is_some() => return Err(error),
                Err(failed) => {
                    // It stays reserved; the other jobs are served.
                    tracing::warn!(%queue, %failed, "the dead set in Redis can't be used");
                    continue;
                }
            }
            tracing::warn!(%queue, %error, "a payload in Redis is no job: moved to the dead set");
        }
        Ok(())
    }
}

/// What becomes of the jobs that a script has reserved.
#[derive(Debug, Default)]
struct AcceptedJobs {
    /// What each FETCH gets.
    handovers: Vec<Handover>,
    /// Numbers of those whose locks end at their start.
    started: Vec<u64>,
    malformed: Vec<MalformedJob>,
    expired: Vec<ExpiredJob>,
}

/// A payload that is no job.
#[derive(Debug)]
struct MalformedJob {
    number: u64,
    queue: QueueName,
    error: MalformedPayload,
}

pub(super) fn reservation_of(
    text: &StoredText<'_>,
    payload: &[u8],
    queue: &QueueName,
    wid: Option<Wid>,
    since: Timestamp,
) -> Reservation {
    let reserve_for = Duration::from_secs(text.reserve_for_seconds().into());
    Reservation {
        jid: text.jid.as_str().into(),
        class: job_class(&text.jobtype, text.text.as_bytes()).into(),
        queue: queue.clone(),
        wid,
        since,
        expires_at: since + reserve_for,
        payload: payload.to_vec(),
        is_tracked: is_tracked_text(text),
        run: None,
        arrival: 0,
        features: StoredFeatures::of(text, queue.as_str()),
    }
}

/// Returns the queues with jobs that may start only after some time, by a rate.
fn asleep(readings: &[QueueReading], room: &Room<'_>) -> Vec<(usize, Duration)> {
    let waiting = readings.iter().enumerate();
    let waiting = waiting.filter(|(_, reading)| reading.depth > 0 && !reading.paused);
    waiting.filter_map(|(place, _)| Some((place, room.sleep(place)?))).collect()
}

fn choose(
    state: &mut StoreState,
    queues: &[QueueName],
    readings: &[QueueReading],
    room: &Room<'_>,
    now: Timestamp,
) -> Option<Choice> {
    let candidates =
        readings.iter().enumerate().filter(|(_, reading)| reading.depth > 0 && !reading.paused);
    let candidates = candidates.map(|(place, reading)| Candidate {
        place,
        running: reading.reserved,
        oldest_wait: reading.oldest.map_or(Duration::ZERO, |oldest| now.since(oldest)),
        newest_wait: Duration::ZERO,
        is_held_back: !room.is_open(place),
    });
    state.dispatcher.choose(&state.allocation, queues, candidates, now)
}
