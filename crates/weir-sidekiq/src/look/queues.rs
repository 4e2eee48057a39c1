//! Reads queue depths, arrival times and three windows of jobs.

use std::collections::BTreeSet;
use std::time::Duration;

use weir_base::clock::Timestamp;
use weir_jobs::quarantine;

use crate::error::SidekiqError;
use crate::job::JobSummary;
use crate::keys;
use crate::questions::{Question, ReadCommand, RedisReply};
use crate::snapshot::{QueueSample, Read};

use super::redis_itself::SEARCH_WINDOW;
use super::window::{EntryWindow, WindowStart};
use super::{SampleScope, SnapshotReader};

/// Steps of the search for lists of queues.
const QUEUE_SEARCHES_MAX: usize = 3;

impl SnapshotReader<'_> {
    /// Reads the queues that were pushed to and those that are `served`. Returns them with the time at
    /// which their lengths were read.
    pub(super) async fn queues(
        &mut self,
        scope: SampleScope,
        served: &BTreeSet<String>,
    ) -> Result<Read<(Timestamp, Vec<QueueSample>)>, SidekiqError> {
        let max = self.limits.queues_max;
        let pushed = match self.members(keys::QUEUES, max, "queues_max").await? {
            Ok(pushed) => pushed,
            Err(refusal) => return Ok(Err(refusal)),
        };
        // Only Sidekiq Pro has this set. Without permission, no queue counts as paused.
        let paused = self.members(keys::PAUSED, max, "queues_max").await?.unwrap_or_default();
        let unlisted: BTreeSet<String> =
            self.queue_lists().await?.difference(&pushed).cloned().collect();
        let mut names: BTreeSet<&String> = pushed.union(served).take(max).collect();
        names.extend(unlisted.iter().take(max.saturating_sub(names.len())));
        let queues = names.into_iter().map(|name| QueueSample {
            name: name.clone(),
            pushed: pushed.contains(name) || unlisted.contains(name),
            unlisted: unlisted.contains(name),
            // Sidekiq has no part in a quarantine of Weir, which no process is to serve.
            paused: paused.contains(name) || quarantine::parts(name).is_some(),
            ..QueueSample::default()
        });
        let mut queues: Vec<_> = queues.collect();
        let at = match self.lengths(&mut queues).await? {
            Ok(at) => at,
            Err(refusal) => return Ok(Err(refusal)),
        };
        self.expiries(&mut queues).await?;
        let filled = self.windows(scope, &mut queues).await?;
        // A list of another library has no jobs of Sidekiq.
        queues.retain(|queue| !queue.unlisted || queue.oldest.is_some());
        Ok(filled.map(|()| (at, queues)))
    }

    /// Returns queues by the names of their lists, which a client that does not add them to the set
    /// of queues fills as well. Searches some thousand keys at most. They are only a hint, so errors
    /// are ignored.
    async fn queue_lists(&mut self) -> Result<BTreeSet<String>, SidekiqError> {
        let (mut found, mut cursor) = (BTreeSet::new(), "0".to_owned());
        let pattern = keys::queue("*");
        for _ in 0..QUEUE_SEARCHES_MAX {
            let words = [&cursor, "MATCH", &pattern, "COUNT", SEARCH_WINDOW];
            let answer = self.query_one(Question::new(ReadCommand::Scan, &words)).await?;
            let read = answer.and_then(RedisReply::read::<(String, Vec<Vec<u8>>)>);
            let Ok((next, window)) = read else { break };
            let names = window.iter().filter_map(|key| std::str::from_utf8(key).ok());
            found.extend(names.filter_map(keys::queue_name).map(str::to_owned));
            if next == "0" {
                break;
            }
            cursor = next;
        }
        Ok(found)
    }

    /// Reads the lengths and returns the time. Keys that are not lists are recorded as odd and dropped.
    async fn lengths(
        &mut self,
        queues: &mut Vec<QueueSample>,
    ) -> Result<Read<Timestamp>, SidekiqError> {
        let length = |queue: &QueueSample| {
            Question::new(ReadCommand::ListLength, &[&keys::queue(&queue.name)])
        };
        let (at, answers) = self.query_timed(queues.iter().map(length).collect()).await?;
        let mut read = Vec::with_capacity(queues.len());
        for (mut queue, answer) in queues.drain(..).zip(answers) {
            let what = || format!("queue {}", queue.name);
            match self.unless_odd(what, answer.and_then(RedisReply::read)) {
                Ok(Some(length)) => {
                    queue.length = length;
                    read.push(queue);
                }
                Ok(None) => {}
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
        *queues = read;
        Ok(Ok(at))
    }

    /// Reads whether queues expire. That is only a hint, so errors are ignored. Notes the time, because
    /// the newest jobs are read next.
    async fn expiries(&mut self, queues: &mut [QueueSample]) -> Result<(), SidekiqError> {
        let mut waiting: Vec<_> = queues.iter_mut().filter(|queue| queue.length > 0).collect();
        let question = |queue: &&mut QueueSample| {
            Question::new(ReadCommand::TimeToLive, &[&keys::queue(&queue.name)])
        };
        let (at, answers) = self.query_timed(waiting.iter().map(question).collect()).await?;
        for (queue, answer) in waiting.iter_mut().zip(answers) {
            queue.came_until = Some(at);
            // Negative without an expiry.
            let millis = answer.and_then(RedisReply::read::<i64>).ok();
            let millis = millis.and_then(|millis| u64::try_from(millis).ok());
            queue.expires_in = millis.map(Duration::from_millis);
        }
        Ok(())
    }

    async fn windows(
        &mut self,
        scope: SampleScope,
        queues: &mut [QueueSample],
    ) -> Result<Read<()>, SidekiqError> {
        let waiting: Vec<_> = queues.iter_mut().filter(|queue| queue.length > 0).collect();
        let mut windows: Vec<_> =
            waiting.iter().flat_map(|queue| self.windows_of(scope, queue)).collect();
        self.read(&mut windows).await?;
        // If the last jobs have no enqueue time, reads more of those before them.
        for [_, _, oldest] in windows.as_chunks_mut().0 {
            if enqueued(&oldest.jobs).next().is_none() {
                oldest.widen(self.limits.step_jobs);
            }
        }
        self.read(&mut windows).await?;
        if let Some(refusal) = windows.iter_mut().find_map(|window| window.refusal.take()) {
            return Ok(Err(refusal));
        }
        let mut windows = windows.into_iter();
        for queue in waiting {
            let mut next = || windows.next().map(|window| window.jobs).unwrap_or_default();
            let (newest, middle, oldest) = (next(), next(), next());
            queue.oldest = enqueued(&oldest).next();
            queue.newest = enqueued(&newest).collect();
            if self.is_sampled(scope, queue) {
                // The sample uses no more of the newest jobs than of the others.
                let newest = newest.into_iter().take(self.limits.sample_window);
                queue.sample = newest.chain(middle).chain(oldest).collect();
            }
        }
        Ok(Ok(()))
    }

    /// Returns the windows: the newest and the oldest jobs. For long queues, the window of the
    /// oldest is larger, and there is one in the middle.
    fn windows_of(&self, scope: SampleScope, queue: &QueueSample) -> [EntryWindow; 3] {
        let key = keys::queue(&queue.name);
        let window = |start, jobs| EntryWindow::new(ReadCommand::ListRange, &key, start, jobs);
        let sample = if self.is_sampled(scope, queue) { self.limits.sample_window } else { 0 };
        [
            window(WindowStart::Rank(0), self.limits.arrivals_max),
            window(WindowStart::Rank(queue.length / 2), sample),
            window(WindowStart::End, sample.max(1)),
        ]
    }

    fn is_sampled(&self, scope: SampleScope, queue: &QueueSample) -> bool {
        scope == SampleScope::Everything && queue.length >= self.limits.sample_length_min
    }
}

fn enqueued(jobs: &[JobSummary]) -> impl Iterator<Item = Timestamp> {
    jobs.iter().filter_map(|job| job.enqueued_at)
}
