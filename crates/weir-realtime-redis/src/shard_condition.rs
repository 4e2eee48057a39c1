//! Since when a shard can be used, or why it can't.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

/// What operators are shown of a shard.
#[derive(Debug, Default)]
pub(crate) struct ShardCondition(Mutex<Condition>);

#[derive(Debug)]
struct Condition {
    is_connected: bool,
    since: Instant,
    problem: Option<String>,
    /// Whether that is the memory of Redis.
    is_full: bool,
}

impl Default for Condition {
    fn default() -> Self {
        Self { is_connected: false, since: Instant::now(), problem: None, is_full: false }
    }
}

impl ShardCondition {
    /// Notes that a session began or ended.
    pub(crate) fn set_connected(&self, is_connected: bool) {
        let mut condition = self.lock();
        if condition.is_connected != is_connected {
            (condition.is_connected, condition.since) = (is_connected, Instant::now());
        }
    }

    /// Notes why a session ended or did not begin. Returns whether that is another reason than before.
    pub(crate) fn note_problem(&self, problem: &str, is_full: bool) -> bool {
        let mut condition = self.lock();
        condition.is_full = is_full;
        let is_news = condition.problem.as_deref() != Some(problem);
        if is_news {
            condition.problem = Some(problem.to_owned());
        }
        is_news
    }

    /// Returns why the last session ended or did not begin.
    pub(crate) fn problem(&self) -> Option<String> {
        self.lock().problem.clone()
    }

    /// Returns whether the last session ended or did not begin because Redis has reached its maxmemory.
    pub(crate) fn is_full(&self) -> bool {
        self.lock().is_full
    }

    /// Returns for how many seconds the shard can or can't be used.
    pub(crate) fn seconds(&self) -> f64 {
        self.lock().since.elapsed().as_secs_f64()
    }

    fn lock(&self) -> MutexGuard<'_, Condition> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
