//! When to restart a child that died, and when to give up. Pure: times are arguments.

use std::time::Duration;

use weir_settings::{HOUR, MILLISECOND, Section, WAIT};

/// How a child is restarted.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(upgrade, path = "supervisor")]
pub struct RestartPolicy {
    /// Delay before a service process that died is started again; it doubles with every
    /// consecutive death.
    // The first restart is quick: most deaths are single, and clients wait in the backlog.
    #[setting(advanced, range = MILLISECOND..=HOUR, default = Duration::from_millis(100))]
    pub backoff_min: Duration,
    /// Limit of that delay.
    #[setting(advanced, range = MILLISECOND..=HOUR, default = Duration::from_secs(10))]
    pub backoff_max: Duration,
    /// Consecutive deaths after which Weir ends (crash loop).
    // 100 ms doubled up to 10 s: 20 restarts take about two and a half minutes.
    #[setting(range = 0..=1_000_000, default = 20)]
    pub restarts_max: u32,
    /// A service process that has served this long is healthy: the count of deaths starts at
    /// zero.
    #[setting(advanced, range = WAIT, default = Duration::from_secs(30))]
    pub healthy_after: Duration,
}

/// What to do about a child that died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartDecision {
    /// Restart it after this delay.
    Restart { after: Duration, deaths_in_a_row: u32 },
    /// Give up: too many consecutive deaths, or it never became ready.
    GiveUp { deaths_in_a_row: u32 },
}

/// The history of deaths of one child, and its restart policy.
#[derive(Clone, Debug)]
pub struct Restarts {
    policy: RestartPolicy,
    record: RestartHistory,
}

/// The part of the history that decides about restarts; survives an upgrade of the parent.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct RestartHistory {
    deaths_in_a_row: u32,
    was_ready_once: bool,
}

impl Restarts {
    /// Starts without deaths.
    #[must_use]
    pub fn new(policy: RestartPolicy) -> Self {
        Self { policy, record: RestartHistory { deaths_in_a_row: 0, was_ready_once: false } }
    }

    /// Like [`Restarts::new`], but also retries a first start that fails, as often as any other.
    #[must_use]
    pub fn patient(policy: RestartPolicy) -> Self {
        let mut restarts = Self::new(policy);
        restarts.note_ready();
        restarts
    }

    /// Restores the history of an earlier program.
    pub(crate) fn resume(policy: RestartPolicy, record: RestartHistory) -> Self {
        Self { policy, record }
    }

    pub(crate) fn record(&self) -> RestartHistory {
        self.record
    }

    /// Records that an earlier generation was ready.
    pub(crate) fn note_ready(&mut self) {
        self.record.was_ready_once = true;
    }

    /// Counts a death and returns what to do. `ready_for` is how long the child was ready, None if
    /// it never was.
    ///
    /// If no generation was ever ready, it gives up at once: the cause (a port, a setting, a
    /// damaged store) will not change by itself, and an operator who starts Weir needs the error,
    /// not a delay.
    pub fn record_exit(&mut self, ready_for: Option<Duration>) -> RestartDecision {
        self.record.was_ready_once |= ready_for.is_some();
        if ready_for.is_some_and(|ready_for| ready_for >= self.policy.healthy_after) {
            self.record.deaths_in_a_row = 0;
        }
        self.record.deaths_in_a_row += 1;
        let deaths_in_a_row = self.record.deaths_in_a_row;
        if !self.record.was_ready_once || deaths_in_a_row > self.policy.restarts_max {
            return RestartDecision::GiveUp { deaths_in_a_row };
        }
        RestartDecision::Restart { after: self.backoff(), deaths_in_a_row }
    }

    fn backoff(&self) -> Duration {
        let doublings = (self.record.deaths_in_a_row - 1).min(31);
        let wait = self.policy.backoff_min.saturating_mul(1 << doublings);
        wait.min(self.policy.backoff_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: Option<Duration> = Some(Duration::from_secs(1));

    fn waits(restarts: &mut Restarts, deaths: usize) -> Vec<u128> {
        (0..deaths)
            .map_while(|_| match restarts.record_exit(READY) {
                RestartDecision::Restart { after, .. } => Some(after.as_millis()),
                RestartDecision::GiveUp { .. } => None,
            })
            .collect()
    }

    #[test]
    fn backoff_doubles_up_to_its_limit_and_then_gives_up() {
        let policy = RestartPolicy { restarts_max: 9, ..RestartPolicy::default() };
        let mut restarts = Restarts::new(policy);
        let expected = [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000];
        assert_eq!(waits(&mut restarts, 20), expected);
    }

    #[test]
    fn a_healthy_run_resets_the_restart_count() {
        let mut restarts = Restarts::new(RestartPolicy::default());
        assert_eq!(waits(&mut restarts, 5).len(), 5);
        let healthy = restarts.record_exit(Some(Duration::from_secs(30)));
        let first =
            RestartDecision::Restart { after: Duration::from_millis(100), deaths_in_a_row: 1 };
        assert_eq!(healthy, first);
    }

    #[test]
    fn a_child_that_never_was_ready_is_given_up_at_once() {
        let mut restarts = Restarts::new(RestartPolicy::default());
        assert_eq!(restarts.record_exit(None), RestartDecision::GiveUp { deaths_in_a_row: 1 });
    }

    #[test]
    fn a_patient_policy_retries_the_first_start() {
        let policy = RestartPolicy { restarts_max: 1, ..RestartPolicy::default() };
        let mut restarts = Restarts::patient(policy);
        assert!(matches!(
            restarts.record_exit(None),
            RestartDecision::Restart { deaths_in_a_row: 1, .. }
        ));
        assert_eq!(restarts.record_exit(None), RestartDecision::GiveUp { deaths_in_a_row: 2 });
    }

    #[test]
    fn after_being_ready_a_failed_start_is_retried() {
        let mut restarts = Restarts::new(RestartPolicy::default());
        assert!(matches!(restarts.record_exit(READY), RestartDecision::Restart { .. }));
        assert!(matches!(
            restarts.record_exit(None),
            RestartDecision::Restart { deaths_in_a_row: 2, .. }
        ));
    }
}
