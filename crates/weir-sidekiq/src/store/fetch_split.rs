//! Reserves jobs with one script for each queue, where the queues are on several slots.

use std::collections::BTreeSet;
use std::rc::Rc;

use futures_util::future::join_all;
use redis::Value;
use weir_jobs::dispatch::Choice;
use weir_jobs::model::QueueName;
use weir_jobs::store::{BatchSize, StoreError};

use super::fetch::GroupOutcome;
use super::link_connection::LinkConnection;
use super::replies::{PoppedJobs, QueueReading, popped_jobs};
use super::store_core::StoreCore;
use super::waiting::{FetchGroup, GroupedFetch};

impl StoreCore {
    /// Reserves jobs for all groups, that of the FETCH that has waited longest first: each takes several
    /// steps. Errors of some groups, whose servers are away, are not those of the others.
    pub(super) async fn reserve_in_turn(
        self: &Rc<Self>,
        groups: &[FetchGroup],
        connection: &LinkConnection,
    ) -> Vec<Result<GroupOutcome, StoreError>> {
        let mut outcomes = Vec::with_capacity(groups.len());
        let mut without_jobs: BTreeSet<QueueName> = BTreeSet::new();
        for group in groups {
            // A job that arrives meanwhile belongs to the FETCH that has waited longer.
            let is_left = |queue: &&QueueName| !without_jobs.contains(*queue);
            let queues: Rc<[QueueName]> = group.queues.iter().filter(is_left).cloned().collect();
            let fetches = group.fetches.clone();
            let outcome = match queues.is_empty() {
                true => Ok(GroupOutcome { may_have_more: false }),
                false => self.reserve(&FetchGroup { queues, fetches }, connection.clone()).await,
            };
            if outcome.as_ref().is_ok_and(|outcome| !outcome.may_have_more) {
                without_jobs.extend(group.queues.iter().cloned());
            }
            outcomes.push(outcome);
        }
        if self.owner.borrow().is_some() && outcomes.iter().any(Result::is_ok) {
            outcomes.retain(Result::is_ok);
        }
        outcomes
    }

    /// Reserves jobs queue by queue, in the order of the queues or of the plan. Queues that can't be
    /// used are passed over, if another one has jobs.
    pub(super) async fn reserve_by_queue(
        self: &Rc<Self>,
        group: &FetchGroup,
        plan: Option<Vec<Choice>>,
        connection: &mut LinkConnection,
    ) -> Result<PoppedJobs, StoreError> {
        let queues = group.queues.iter().map(QueueName::as_str);
        // Queues whose server is away are found out below.
        drop(self.take_queue_leases(connection, queues).await);
        let mut reserved: Option<PoppedJobs> = None;
        let mut left: Vec<BatchSize> = group.fetches.iter().map(|fetch| fetch.max).collect();
        let mut failed = None;
        for (place, choices) in self.places_to_read(group, plan, connection).await? {
            if left.iter().all(|max| max.jobs == 0 || max.bytes == 0) {
                break;
            }
            let part = part_of(group, place, &left);
            match self.reserve_from(&part, choices.as_deref(), connection).await {
                Ok(popped) => {
                    let since = popped.since;
                    let all = reserved.get_or_insert(PoppedJobs { since, ..PoppedJobs::default() });
                    all.add(place, popped, &mut left);
                }
                Err(error) => failed = Some(error),
            }
        }
        match (failed, reserved) {
            (Some(error), None) => Err(error),
            (_, reserved) => Ok(reserved.unwrap_or_default()),
        }
    }

    /// Returns the queues to take jobs from, each with what the plan says of it.
    async fn places_to_read(
        &self,
        group: &FetchGroup,
        plan: Option<Vec<Choice>>,
        connection: &mut LinkConnection,
    ) -> Result<Vec<(usize, Option<Vec<Choice>>)>, StoreError> {
        let Some(plan) = plan else {
            if group.queues.len() == 1 {
                return Ok(vec![(0, None)]);
            }
            let readings = self.queue_readings(connection, &group.queues).await?;
            let is_open = |(_, it): &(usize, &QueueReading)| it.depth > 0 && !it.paused;
            return Ok(readings
                .iter()
                .enumerate()
                .filter(is_open)
                .map(|(it, _)| (it, None))
                .collect());
        };
        // The jobs of a FETCH are one batch, so those of a queue may come together.
        let mut places: Vec<(usize, Option<Vec<Choice>>)> = Vec::new();
        for choice in plan {
            let queue = choice.place;
            let choice = Choice { place: 0, ..choice };
            match places.iter_mut().find(|(place, _)| *place == queue) {
                Some((_, choices)) => choices.get_or_insert_default().push(choice),
                None => places.push((queue, Some(vec![choice]))),
            }
        }
        Ok(places)
    }

    /// Reserves jobs of one queue. If the lease beside it is over, takes it once more.
    async fn reserve_from(
        self: &Rc<Self>,
        part: &FetchGroup,
        plan: Option<&[Choice]>,
        connection: &mut LinkConnection,
    ) -> Result<PoppedJobs, StoreError> {
        let list = self.keys.list(part.queues[0].as_str());
        for _ in 0..2 {
            let queues = part.queues.iter().map(QueueName::as_str);
            self.take_queue_leases(connection, queues).await?;
            let invocation = self.invocation(part, plan)?;
            let reply: Result<Vec<Value>, _> = invocation.invoke_async(connection).await;
            let reply = reply.map_err(|error| {
                self.state.borrow_mut().reply_lost = true;
                self.link.failed(&error)
            })?;
            if !reply.is_empty() {
                return Ok(popped_jobs(reply));
            }
            self.lose_lease_at(&list, &self.token()?);
        }
        Err(super::lease::lease_is_over())
    }

    /// Reads what is shown of queues, one script for each. A queue whose server is away counts as
    /// empty, unless all are.
    pub(super) async fn queue_readings_by_queue(
        &self,
        connection: &LinkConnection,
        queues: &[QueueName],
    ) -> Result<Vec<QueueReading>, StoreError> {
        let reading = queues.iter().map(|queue| {
            let mut connection = connection.clone();
            let invocation = self.readings_of(std::slice::from_ref(queue), &[], &[]);
            async move {
                let reply: Result<Vec<Value>, _> = invocation.invoke_async(&mut connection).await;
                reply.map(|reply| QueueReading::all_of(&reply, 1).into_iter().next())
            }
        });
        let (mut readings, mut failed) = (Vec::with_capacity(queues.len()), None);
        let mut read = 0;
        for reading in join_all(reading).await {
            match reading {
                Ok(reading) => {
                    read += 1;
                    readings.push(reading.unwrap_or_default());
                }
                Err(error) => {
                    failed = Some(self.link.failed(&error));
                    readings.push(QueueReading::default());
                }
            }
        }
        failed.filter(|_| read == 0).map_or(Ok(readings), Err)
    }
}

impl PoppedJobs {
    /// Adds the jobs of the queue at `place`, which the workers have no room for any more.
    fn add(&mut self, place: usize, popped: Self, left: &mut [BatchSize]) {
        self.sleeping.extend(popped.sleeping.into_iter().map(|(_, wait)| (place, wait)));
        for job in popped.jobs {
            if let Some(left) = left.get_mut(job.worker) {
                left.jobs = left.jobs.saturating_sub(1);
                left.bytes = left.bytes.saturating_sub(job.payload.len());
            }
            self.jobs.push(super::replies::PoppedJob { queue: place, ..job });
        }
    }
}

/// Returns a group for one of the queues, with what the workers still have room for.
fn part_of(group: &FetchGroup, place: usize, left: &[BatchSize]) -> FetchGroup {
    let fetches = group.fetches.iter().zip(left);
    let fetches = fetches.map(|(fetch, max)| GroupedFetch {
        ticket: fetch.ticket,
        wid: fetch.wid.clone(),
        max: *max,
    });
    FetchGroup { queues: Rc::from([group.queues[place].clone()]), fetches: fetches.collect() }
}
