//! Lengths of queues, when their jobs came, and three windows of what they hold.

use std::collections::BTreeSet;

use crate::error::SidekiqError;
use crate::job::JobSummary;
use crate::keys;
use crate::questions::{Command, Question};
use crate::snapshot::{QueueLook, Read};

use super::{Looking, Scope};

/// A list's jobs, as they stand in it.
type Window = Vec<Vec<u8>>;

impl Looking<'_> {
    /// Queues that were pushed to, and those that are `served`.
    pub(super) async fn queues(
        &mut self,
        scope: Scope,
        served: &BTreeSet<String>,
    ) -> Result<Read<Vec<QueueLook>>, SidekiqError> {
        let max = self.limits.queues_max;
        let pushed = match self.members(keys::QUEUES, max, "queues_max").await? {
            Ok(pushed) => pushed,
            Err(refusal) => return Ok(Err(refusal)),
        };
        // The set is Sidekiq Pro's, and missing without it; who may not read it knows of no pause.
        let paused = self.members(keys::PAUSED, max, "queues_max").await?.unwrap_or_default();
        let names = pushed.union(served).take(max);
        let queues = names.map(|name| QueueLook {
            name: name.clone(),
            pushed: pushed.contains(name),
            paused: paused.contains(name),
            ..QueueLook::default()
        });
        let mut queues: Vec<_> = queues.collect();
        if let Err(refusal) = self.lengths(&mut queues).await? {
            return Ok(Err(refusal));
        }
        let filled = self.windows(scope, &mut queues).await?;
        Ok(filled.map(|()| queues))
    }

    async fn lengths(&mut self, queues: &mut [QueueLook]) -> Result<Read<()>, SidekiqError> {
        let length =
            |queue: &QueueLook| Question::new(Command::ListLength, &[&keys::queue(&queue.name)]);
        let questions: Vec<_> = queues.iter().map(length).collect();
        let answers = self.ask(&questions).await?;
        for (queue, answer) in queues.iter_mut().zip(answers) {
            match answer.and_then(|told| told.read()) {
                Ok(length) => queue.length = length,
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
        Ok(Ok(()))
    }

    /// The oldest job of each queue tells how large a window may be.
    async fn windows(
        &mut self,
        scope: Scope,
        queues: &mut [QueueLook],
    ) -> Result<Read<()>, SidekiqError> {
        let mut waiting: Vec<_> = queues.iter_mut().filter(|queue| queue.length > 0).collect();
        let oldest = |queue: &&mut QueueLook| {
            Question::new(Command::ListIndex, &[&keys::queue(&queue.name), "-1"])
        };
        let questions: Vec<_> = waiting.iter().map(oldest).collect();
        let answers = self.ask(&questions).await?;
        let mut plans = Vec::new();
        for (queue, answer) in waiting.iter_mut().zip(answers) {
            let oldest: Option<Vec<u8>> = match answer.and_then(|told| told.read()) {
                Ok(oldest) => oldest,
                Err(refusal) => return Ok(Err(refusal)),
            };
            let oldest = oldest.unwrap_or_default();
            queue.oldest = JobSummary::parse(&oldest).and_then(|job| job.enqueued_at);
            plans.push(self.plan(scope, queue, oldest.len()));
        }
        let questions: Vec<_> = plans.iter().flatten().cloned().collect();
        let mut answers = self.ask(&questions).await?.into_iter();
        for (queue, plan) in waiting.into_iter().zip(plans) {
            let windows = answers.by_ref().take(plan.len());
            let windows: Read<Vec<Window>> =
                windows.map(|answer| answer.and_then(|told| told.read())).collect();
            match windows {
                Ok(windows) => fill(queue, &windows, self.limits.sample_window),
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
        Ok(Ok(()))
    }

    /// The newest jobs; of a long queue also those in the middle and the oldest.
    fn plan(&self, scope: Scope, queue: &QueueLook, job_bytes: usize) -> Vec<Question> {
        let fitting = (self.limits.window_bytes / job_bytes.max(1)).max(1);
        let jobs = |max: usize| i64::try_from(max.min(fitting)).unwrap_or(i64::MAX);
        let key = keys::queue(&queue.name);
        let range = |from, to| Question::range(Command::ListRange, &key, from, to);
        let mut plan = vec![range(0, jobs(self.limits.arrivals_max) - 1)];
        if scope == Scope::Everything && queue.length >= self.limits.sample_length_min {
            let (window, middle) = (jobs(self.limits.sample_window), queue.length / 2);
            let middle = i64::try_from(middle).unwrap_or(i64::MAX - window);
            plan.extend([range(middle, middle + window - 1), range(-window, -1)]);
        }
        plan
    }
}

/// The first window is of the newest jobs; a sample takes no more of it than of the others.
fn fill(queue: &mut QueueLook, windows: &[Window], sample_window: usize) {
    let Some((newest, others)) = windows.split_first() else { return };
    let newest: Vec<_> = newest.iter().filter_map(|payload| JobSummary::parse(payload)).collect();
    queue.newest = newest.iter().filter_map(|job| job.enqueued_at).collect();
    if !others.is_empty() {
        let others = others.iter().flatten().filter_map(|payload| JobSummary::parse(payload));
        queue.sample = newest.into_iter().take(sample_window).chain(others).collect();
    }
}
