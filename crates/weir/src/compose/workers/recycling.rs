//! Decides which worker is replaced, and why. Pure.

use std::time::Duration;

use weir_config::Recycling;

/// A limit that a worker has exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Limit {
    Memory,
    Age,
    Requests,
}

/// The state of a ready worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) generation: u64,
    /// None: unknown.
    pub(super) pss_bytes: Option<u64>,
    pub(super) age: Duration,
    pub(super) requests: u64,
}

impl Limit {
    pub(super) const ALL: [Self; 3] = [Self::Memory, Self::Age, Self::Requests];

    /// Returns the name in metrics.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Age => "age",
            Self::Requests => "requests",
        }
    }
}

/// Returns the limit that this worker exceeds and a text for the log, if any.
pub(super) fn exceeded_limit(limits: &Recycling, worker: &Facts) -> Option<(Limit, String)> {
    if let Some(bytes) =
        worker.pss_bytes.filter(|bytes| limits.memory > 0 && *bytes > limits.memory)
    {
        let mebibytes = bytes >> 20;
        return Some((Limit::Memory, format!("it has {mebibytes} MiB of memory (recycle_memory)")));
    }
    let share = early_factor(worker.generation);
    if limits.age.is_some_and(|age| worker.age > age.mul_f64(share)) {
        let seconds = worker.age.as_secs();
        return Some((Limit::Age, format!("it is {seconds} s old (recycle_age)")));
    }
    if limits.requests.is_some_and(|requests| worker.requests > scale(requests, share)) {
        let requests = worker.requests;
        return Some((
            Limit::Requests,
            format!("it has served {requests} requests (recycle_requests)"),
        ));
    }
    None
}

/// Returns a factor between 0.9 and 1, constant for a generation, so that workers that were started
/// together are not all replaced together.
fn early_factor(generation: u64) -> f64 {
    1.0 - fastrand::Rng::with_seed(generation).f64() / 10.0
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a limit, which needs not be exact"
)]
fn scale(limit: u64, share: f64) -> u64 {
    (limit as f64 * share) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn limits() -> Recycling {
        let (age, requests) = (Some(10 * HOUR), Some(1_000));
        Recycling { memory: 600 << 20, age, requests, ..Recycling::default() }
    }

    fn worker() -> Facts {
        Facts { generation: 7, pss_bytes: Some(600 << 20), age: 9 * HOUR, requests: 900 }
    }

    fn limit(worker: Facts) -> Option<Limit> {
        exceeded_limit(&limits(), &worker).map(|(limit, _)| limit)
    }

    #[test]
    fn workers_below_their_limits_are_kept() {
        assert_eq!(limit(worker()), None);
        assert_eq!(limit(Facts { pss_bytes: None, ..worker() }), None, "what is not known");
        let never = Recycling::default();
        let old = Facts { age: 10_000 * HOUR, requests: u64::MAX, ..worker() };
        assert_eq!(exceeded_limit(&never, &Facts { pss_bytes: Some(u64::MAX), ..old }), None);
    }

    #[test]
    fn each_limit_is_checked() {
        assert_eq!(
            limit(Facts { pss_bytes: Some((600 << 20) + 1), ..worker() }),
            Some(Limit::Memory)
        );
        assert_eq!(limit(Facts { age: 11 * HOUR, ..worker() }), Some(Limit::Age));
        assert_eq!(limit(Facts { requests: 1_001, ..worker() }), Some(Limit::Requests));
    }

    #[test]
    fn workers_started_together_are_recycled_one_by_one() {
        let due = |generation| {
            let is_due = |requests: &u64| {
                limit(Facts { generation, requests: *requests, ..worker() }).is_some()
            };
            (900..=1_001).find(is_due).expect("at its limit")
        };
        let mut all: Vec<u64> = (1..=20).map(due).collect();
        all.sort_unstable();
        all.dedup();
        assert!(all.len() > 10, "{all:?}");
    }
}
