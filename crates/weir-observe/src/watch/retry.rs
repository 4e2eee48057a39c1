//! Decides whether a source is queried, and records the results.

use std::time::Duration;

use weir_advisor::observation::{Missing, SourceKind, SourceState};
use weir_base::backoff::Backoff;
use weir_base::clock::Timestamp;

use super::PollSchedule;

/// The history of a source.
#[derive(Debug)]
pub(super) struct SourceRetry {
    state: SourceState,
    backoff: Backoff,
    not_before: Option<Timestamp>,
}

impl SourceRetry {
    pub(super) fn new(
        kind: SourceKind,
        name: String,
        schedule: PollSchedule,
        random: fastrand::Rng,
    ) -> Self {
        let state = SourceState {
            kind,
            name,
            problem: None,
            looks: 0,
            failures: 0,
            spared: 0,
            questions: 0,
            took: Duration::ZERO,
        };
        let retry_max = schedule.retry_max.max(schedule.interval);
        Self {
            state,
            backoff: Backoff::new(schedule.interval, retry_max, random),
            not_before: None,
        }
    }

    /// Returns the last error if the source is to be skipped now.
    pub(super) fn spared(&mut self, now: Timestamp) -> Option<Missing> {
        if self.not_before.is_none_or(|not_before| now >= not_before) {
            return None;
        }
        self.state.spared += 1;
        self.state.problem.clone()
    }

    /// Records a sample. `problem` is `None` if it succeeded.
    pub(super) fn note(&mut self, began: Timestamp, now: Timestamp, problem: Option<Missing>) {
        self.state.looks += 1;
        self.state.took = now.since(began);
        self.not_before = match &problem {
            Some(_) => Some(now + self.backoff.next_delay()),
            None => {
                self.backoff.reset();
                None
            }
        };
        self.state.failures += u64::from(problem.is_some());
        self.state.problem = problem;
    }

    /// Adds to the number of queries sent.
    pub(super) const fn count(&mut self, questions: u64) {
        self.state.questions = self.state.questions.saturating_add(questions);
    }

    pub(super) const fn state(&self) -> &SourceState {
        &self.state
    }
}

#[cfg(test)]
mod tests {
    use weir_advisor::observation::MissingReason;

    use super::*;

    fn at(second: u64) -> Timestamp {
        Timestamp::from_millis(second * 1_000)
    }

    #[test]
    fn a_source_that_fails_is_left_alone_longer_each_time_and_no_longer_than_allowed() {
        let seconds = Duration::from_secs;
        let schedule = PollSchedule {
            interval: seconds(10),
            sample_timeout: seconds(5),
            retry_max: seconds(100),
        };
        let random = fastrand::Rng::with_seed(1);
        let mut retry = SourceRetry::new(SourceKind::Redis, "r".to_owned(), schedule, random);
        let (obstacle, reason) = (MissingReason::Unreachable, "refused".to_owned());
        let missing = Missing { what: "Redis".to_owned(), obstacle, reason, remedy: None };
        assert_eq!(retry.spared(at(0)), None);
        let mut tries = Vec::new();
        for second in 0..1_000 {
            if retry.spared(at(second)).is_none() {
                tries.push(second);
                retry.note(at(second), at(second), Some(missing.clone()));
            } else {
                assert_eq!(retry.state().problem, Some(missing.clone()));
            }
        }
        let gaps: Vec<u64> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps[0] <= 10 && gaps[5..].iter().all(|gap| (50..=100).contains(gap)), "{gaps:?}");
        let state = retry.state();
        assert_eq!((state.looks, state.failures), (tries.len() as u64, tries.len() as u64));
        assert_eq!(state.looks + state.spared, 1_000);

        retry.note(at(1_000), at(1_002), None);
        assert_eq!((retry.spared(at(1_002)), retry.state().took), (None, seconds(2)));
        assert_eq!(retry.state().problem, None);
        retry.note(at(1_003), at(1_003), Some(missing));
        assert_eq!(retry.spared(at(1_014)), None, "it begins anew");
    }
}
