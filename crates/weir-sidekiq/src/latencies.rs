//! Reads only how long the next jobs of some queues have waited, for frequent use.

use std::time::Duration;

use weir_base::clock::Timestamp;

use crate::connection::RedisConnection;
use crate::error::SidekiqError;
use crate::job::JobSummary;
use crate::keys;
use crate::look::time_of;
use crate::questions::{Question, ReadCommand, RedisReply, ReplyResult};
use crate::snapshot::Read;

/// Jobs that are searched for a time if the next one has none.
const SEARCHED: i64 = 10;

/// How long the next job of a queue has waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLatency {
    /// The queue has no jobs.
    Empty,
    /// By the clock of Redis.
    Waited(Duration),
    /// The next jobs do not say when they were enqueued.
    Untimed,
}

impl RedisConnection {
    /// Reads the latencies of queues in one round trip, in their order, so `queues` should have at most
    /// some dozens. A second one is for queues whose next job has no time.
    ///
    /// # Errors
    /// Returns an error if the connection fails. A rejected command is not an error.
    pub async fn latencies(
        &mut self,
        queues: &[String],
    ) -> Result<Read<Vec<QueueLatency>>, SidekiqError> {
        let now = Question::new(ReadCommand::Time, &[]);
        let next = queues.iter().map(|queue| last_jobs(queue, 1));
        let questions: Vec<_> = std::iter::once(now).chain(next).collect();
        let mut answers = self.query(&questions).await?.into_iter();
        let now = answers.next().expect("a connection answers each question or fails");
        let latencies = now.and_then(time_of).and_then(|now| {
            let latencies: Read<Vec<_>> = answers.map(|answer| latency(answer, now)).collect();
            Ok((now, latencies?))
        });
        let (now, mut latencies) = match latencies {
            Ok(read) => read,
            Err(rejected) => return Ok(Err(rejected)),
        };
        let both = || queues.iter().zip(&latencies);
        let untimed = both().filter(|(_, latency)| **latency == QueueLatency::Untimed);
        let more: Vec<_> = untimed.map(|(queue, _)| last_jobs(queue, SEARCHED)).collect();
        if !more.is_empty() {
            let answers = self.query(&more).await?;
            let untimed = latencies.iter_mut().filter(|it| **it == QueueLatency::Untimed);
            for (found, answer) in untimed.zip(answers) {
                // An error would have been in the first reply as well.
                *found = latency(answer, now).unwrap_or(QueueLatency::Untimed);
            }
        }
        Ok(Ok(latencies))
    }
}

/// Sidekiq pushes at the front of the list and fetches from its end.
fn last_jobs(queue: &str, count: i64) -> Question {
    Question::range(ReadCommand::ListRange, &keys::queue(queue), -count, -1)
}

fn latency(answer: ReplyResult, now: Timestamp) -> Read<QueueLatency> {
    let jobs = answer.and_then(RedisReply::read::<Vec<Vec<u8>>>)?;
    if jobs.is_empty() {
        return Ok(QueueLatency::Empty);
    }
    let summaries = jobs.iter().rev().filter_map(|job| JobSummary::parse(job));
    let next = summaries.filter_map(|job| job.enqueued_at).next();
    Ok(next.map_or(QueueLatency::Untimed, |at| QueueLatency::Waited(now.since(at))))
}
