//! The faults of a run, in an order that follows from the seed: each kind once before any is repeated.

use std::time::Duration;

use fastrand::Rng;

use super::fault::Fault;

/// How long a fault lasts that is not an instant.
const LASTS_MIN: Duration = Duration::from_secs(3);
const LASTS_MAX: Duration = Duration::from_secs(12);

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PlannedFault {
    pub(super) fault: Fault,
    /// After the beginning of the load.
    pub(super) at: Duration,
    pub(super) lasts: Duration,
    /// Chooses the node, or the worker.
    pub(super) victim: usize,
}

/// Returns the faults for a load of `seconds`. The last one begins early enough that its interval is part of the load.
pub(super) fn plan(
    available: &[Fault],
    seed: u64,
    interval: Duration,
    load: Duration,
) -> Vec<PlannedFault> {
    let mut random = Rng::with_seed(seed);
    let mut deck: Vec<Fault> = Vec::new();
    let mut faults = Vec::new();
    let mut at = interval / 2;
    while !available.is_empty() && at + interval / 2 <= load {
        if deck.is_empty() {
            deck = available.to_vec();
            random.shuffle(&mut deck);
        }
        if let Some(fault) = deck.pop() {
            let more = (LASTS_MAX - LASTS_MIN).mul_f64(random.f64());
            let lasts = (LASTS_MIN + more).min(interval / 2);
            faults.push(PlannedFault { fault, at, lasts, victim: random.usize(..1_000) });
        }
        at += interval;
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    const AVAILABLE: [Fault; 3] = [Fault::WorkerKill, Fault::WeirKill, Fault::WeirPause];

    fn planned(seed: u64) -> Vec<PlannedFault> {
        plan(&AVAILABLE, seed, Duration::from_secs(60), Duration::from_secs(600))
    }

    #[test]
    fn each_fault_is_injected_once_before_any_is_repeated() {
        let faults = planned(7);
        assert_eq!(faults.len(), 10);
        for round in faults.chunks(3).filter(|round| round.len() == 3) {
            let mut kinds: Vec<Fault> = round.iter().map(|planned| planned.fault).collect();
            kinds.sort();
            assert_eq!(kinds, AVAILABLE);
        }
        assert!(faults.iter().all(|it| (LASTS_MIN..=LASTS_MAX).contains(&it.lasts)));
    }

    #[test]
    fn plan_follows_from_the_seed() {
        assert_eq!(planned(7), planned(7));
        assert_ne!(planned(7), planned(8));
    }

    #[test]
    fn without_faults_the_plan_is_empty() {
        assert!(plan(&[], 1, Duration::from_secs(60), Duration::from_secs(600)).is_empty());
    }
}
