//! Tracks whether an upstream has just failed.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::FetchError;
use weir_base::backoff::Backoff;

/// Delays requests that clients wait for after an error. The delay grows with each error.
#[derive(Debug)]
pub(super) struct Health {
    /// A std mutex: it is locked only for a comparison.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    backoff: Backoff,
    down_until: Option<Instant>,
    /// End of the time for which the upstream asked us to wait.
    busy_until: Option<Instant>,
}

/// Maximum delay that an upstream can ask for.
const BUSY_MAX: Duration = Duration::from_secs(3_600);

impl Health {
    pub(super) const fn new(backoff: Backoff) -> Self {
        Self { state: Mutex::new(State { backoff, down_until: None, busy_until: None }) }
    }

    pub(super) fn check(&self) -> Result<(), FetchError> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.down_until {
            Some(until) if Instant::now() < until => Err(FetchError::Down),
            _ => Ok(()),
        }
    }

    pub(super) fn failed(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        // Requests that fail at the same time count as one error.
        if state.down_until.is_none_or(|until| until <= now) {
            let wait = state.backoff.next_delay();
            state.down_until = Some(now + wait);
        }
    }

    /// Records that the upstream asked us to wait.
    pub(super) fn is_busy(&self, wait: Duration) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.busy_until = Some(Instant::now() + wait.min(BUSY_MAX));
    }

    /// Returns the remaining time of that wait.
    pub(super) fn busy_for(&self) -> Duration {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let until = state.busy_until;
        until.map(|until| until.duration_since(Instant::now())).unwrap_or_default()
    }

    pub(super) fn is_well(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.backoff.reset();
        (state.down_until, state.busy_until) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_asks_to_be_left_alone_is_but_not_for_ever() {
        let second = Duration::from_secs(1);
        let health = Health::new(Backoff::new(second, second, fastrand::Rng::new()));
        assert_eq!(health.busy_for(), Duration::ZERO);
        health.is_busy(7 * second);
        tokio::time::advance(5 * second).await;
        assert_eq!(health.busy_for(), 2 * second);
        tokio::time::advance(5 * second).await;
        assert_eq!(health.busy_for(), Duration::ZERO);
        health.is_busy(Duration::MAX);
        assert_eq!(health.busy_for(), BUSY_MAX);
        health.is_well();
        assert_eq!(health.busy_for(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_asks_for_a_moment_after_a_failure() {
        let second = Duration::from_secs(1);
        let health = Health::new(Backoff::new(second, 4 * second, fastrand::Rng::new()));
        assert!(health.check().is_ok());
        health.failed();
        health.failed();
        assert!(health.check().is_err());
        tokio::time::advance(second).await;
        // Both errors counted as one, so the first delay is over.
        assert!(health.check().is_ok());
        health.failed();
        health.is_well();
        assert!(health.check().is_ok());
    }
}
