//! The scheduled, retry and dead sets: sizes, what is due, and a sample from one end.

use weir_base::clock::Timestamp;

use crate::error::SidekiqError;
use crate::job::JobSummary;
use crate::keys;
use crate::questions::{Command, Question, Told};
use crate::snapshot::{Read, SetLook};
use crate::time;

use super::{Looking, Scope};

impl Looking<'_> {
    /// Scheduled, retries, dead.
    pub(super) async fn sets(
        &mut self,
        scope: Scope,
        now: Timestamp,
    ) -> Result<[Read<SetLook>; 3], SidekiqError> {
        let sample = i64::try_from(self.limits.set_sample).unwrap_or(i64::MAX);
        // Of scheduled jobs nothing is wrong that a sample could tell.
        let scheduled = self.set(keys::SCHEDULED, now, None).await?;
        let everything = scope == Scope::Everything && sample > 0;
        let next = everything.then_some((0, sample - 1));
        let retries = self.set(keys::RETRIES, now, next).await?;
        let last = everything.then_some((-sample, -1));
        let dead = self.set(keys::DEAD, now, last).await?;
        Ok([scheduled, retries, dead])
    }

    async fn set(
        &mut self,
        key: &str,
        now: Timestamp,
        sample: Option<(i64, i64)>,
    ) -> Result<Read<SetLook>, SidekiqError> {
        let due = format!("{:.6}", now.as_secs_f64());
        let mut questions = vec![
            Question::new(Command::SortedSize, &[key]),
            Question::new(Command::SortedCount, &[key, "-inf", &due]),
            Question::new(Command::SortedRange, &[key, "0", "0", "WITHSCORES"]),
        ];
        let range = |(from, to)| Question::range(Command::SortedRange, key, from, to);
        questions.extend(sample.map(range));
        let answers = self.ask(&questions).await?;
        Ok(answers.into_iter().collect::<Read<Vec<Told>>>().and_then(set))
    }
}

fn set(answers: Vec<Told>) -> Read<SetLook> {
    let mut answers = answers.into_iter();
    let mut look = SetLook::default();
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
    if let Some(told) = answers.next() {
        let jobs: Vec<Vec<u8>> = told.read()?;
        look.sample = jobs.iter().filter_map(|payload| JobSummary::parse(payload)).collect();
    }
    Ok(look)
}
