//! Reads the scheduled, retry and dead sets: sizes, due jobs, and a sample from one end.

use std::time::Duration;

use weir_base::clock::Timestamp;

use crate::error::SidekiqError;
use crate::keys;
use crate::questions::{Question, ReadCommand, RedisReply};
use crate::snapshot::{FAR_AHEAD, Read, SetSample};
use crate::time;

use super::window::{EntryWindow, WindowStart};
use super::{SampleScope, SnapshotReader};

/// Jobs that died within this time count as recent.
const LATELY: Duration = Duration::from_secs(3_600);

impl SnapshotReader<'_> {
    /// Returns the scheduled, retry and dead sets.
    pub(super) async fn sets(
        &mut self,
        scope: SampleScope,
        now: Timestamp,
    ) -> Result<[Read<SetSample>; 3], SidekiqError> {
        // No rule uses a sample of scheduled jobs.
        let scheduled = self.scheduled(now).await?;
        let mut retries = self.set(keys::RETRIES, now).await?;
        let mut dead = self.dead(now).await?;
        if scope == SampleScope::Everything {
            retries = self.sampled(keys::RETRIES, WindowStart::Rank(0), retries).await?;
            dead = self.sampled(keys::DEAD, WindowStart::End, dead).await?;
        }
        Ok([scheduled, retries, dead])
    }

    async fn set(&mut self, key: &str, now: Timestamp) -> Result<Read<SetSample>, SidekiqError> {
        let due = format!("{:.6}", now.as_secs_f64());
        let questions = [
            Question::new(ReadCommand::SortedSize, &[key]),
            Question::new(ReadCommand::SortedCount, &[key, "-inf", &due]),
            Question::new(ReadCommand::SortedRange, &[key, "0", "0", "WITHSCORES"]),
        ];
        let answers = self.query(&questions).await?;
        Ok(answers.into_iter().collect::<Read<Vec<RedisReply>>>().and_then(set))
    }

    /// Counts jobs that are due very late as well. Redis compares the scores as they are, so that a
    /// time in milliseconds is one of the year 58,000.
    async fn scheduled(&mut self, now: Timestamp) -> Result<Read<SetSample>, SidekiqError> {
        let set = self.set(keys::SCHEDULED, now).await?;
        let (now, far) = (now.as_secs_f64(), FAR_AHEAD.as_secs_f64());
        let number = |score: f64| format!("{score:.3}");
        let (late, from, to) =
            (number(now + far), number((now - far) * 1e3), number((now + far) * 1e3));
        let questions = [
            Question::new(ReadCommand::SortedCount, &[keys::SCHEDULED, &late, "+inf"]),
            Question::new(ReadCommand::SortedCount, &[keys::SCHEDULED, &from, &to]),
        ];
        let answers = self.query(&questions).await?;
        let counts = answers.into_iter().map(|it| it.and_then(RedisReply::read));
        let counts: Read<Vec<u64>> = counts.collect();
        Ok(set.and_then(|set| {
            let mut counts = counts?.into_iter();
            let mut next = || counts.next().unwrap_or_default();
            let (far, far_as_millis) = (next(), next());
            Ok(SetSample { far, far_as_millis, ..set })
        }))
    }

    /// In the dead set, the score is the time of death.
    async fn dead(&mut self, now: Timestamp) -> Result<Read<SetSample>, SidekiqError> {
        let from = (now.as_secs_f64() - LATELY.as_secs_f64()).max(0.0);
        let from = format!("{from:.6}");
        let set = self.set(keys::DEAD, now).await?;
        let lately = Question::new(ReadCommand::SortedCount, &[keys::DEAD, &from, "+inf"]);
        let lately = self.query_one(lately).await?.and_then(RedisReply::read);
        Ok(set.and_then(|set| Ok(SetSample { lately: lately?, ..set })))
    }

    async fn sampled(
        &mut self,
        key: &str,
        start: WindowStart,
        look: Read<SetSample>,
    ) -> Result<Read<SetSample>, SidekiqError> {
        let Ok(mut look) = look else { return Ok(look) };
        if look.size > 0 {
            let window =
                EntryWindow::new(ReadCommand::SortedRange, key, start, self.limits.set_sample);
            let mut windows = [window];
            self.read(&mut windows).await?;
            let [window] = windows;
            if let Some(refusal) = window.refusal {
                return Ok(Err(refusal));
            }
            look.sample = window.jobs;
        }
        Ok(Ok(look))
    }
}

fn set(answers: Vec<RedisReply>) -> Read<SetSample> {
    let mut answers = answers.into_iter();
    let mut look = SetSample::default();
    if let Some(told) = answers.next() {
        look.size = told.read()?;
    }
    if let Some(told) = answers.next() {
        look.due = told.read()?;
    }
    if let Some(told) = answers.next() {
        let first: Vec<(Vec<u8>, String)> = told.read()?;
        look.first = first.first().and_then(|(_, score)| time::from_text(score));
    }
    Ok(look)
}
