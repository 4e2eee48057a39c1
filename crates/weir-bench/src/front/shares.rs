//! How the requests were shared among the workers.

use std::cmp::Reverse;
use std::collections::HashMap;

/// Most distinct worker names; a server with more invents them.
const NAMES_MAX: usize = 10_000;

#[derive(Debug, Clone, Default)]
pub(crate) struct Shares {
    requests: HashMap<Vec<u8>, u64>,
}

/// Figures over all workers, including idle ones if the number of workers is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fairness {
    /// Jain's index, (sum x)^2 / (n sum x^2): 1 when all got the same, 1/n when one got everything.
    pub(crate) jain: f64,
    pub(crate) min: u64,
    pub(crate) max: u64,
    /// `None` if the number of workers is unknown.
    pub(crate) idle_workers: Option<usize>,
    pub(crate) workers_seen: usize,
}

impl Shares {
    pub(crate) fn count(&mut self, worker: &[u8]) {
        if let Some(requests) = self.requests.get_mut(worker) {
            *requests += 1;
        } else if self.requests.len() < NAMES_MAX {
            self.requests.insert(worker.to_vec(), 1);
        }
    }

    /// Returns the requests per worker in descending order, without idle workers.
    pub(crate) fn counts(&self) -> Vec<u64> {
        let mut counts: Vec<u64> = self.requests.values().copied().collect();
        counts.sort_unstable_by_key(|count| Reverse(*count));
        counts
    }

    /// Returns `None` if no response named its worker. With replaced workers there can be more names than `workers`.
    pub(crate) fn fairness(&self, workers: Option<usize>) -> Option<Fairness> {
        if self.requests.is_empty() {
            return None;
        }
        let workers_seen = self.requests.len();
        let idle_workers = workers.map(|workers| workers.saturating_sub(workers_seen));
        let least = self.requests.values().copied().min().unwrap_or(0);
        Some(Fairness {
            jain: self.jain(workers_seen + idle_workers.unwrap_or(0)),
            min: if idle_workers.unwrap_or(0) > 0 { 0 } else { least },
            max: self.requests.values().copied().max().unwrap_or(0),
            idle_workers,
            workers_seen,
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^53 requests")]
    fn jain(&self, workers: usize) -> f64 {
        let counts = self.requests.values().map(|requests| *requests as f64);
        let (sum, squares) = counts
            .fold((0.0, 0.0), |(sum, squares), count| (sum + count, count.mul_add(count, squares)));
        sum * sum / (workers as f64 * squares)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(counts: &[u64]) -> Shares {
        let mut shares = Shares::default();
        for (worker, count) in counts.iter().enumerate() {
            (0..*count).for_each(|_| shares.count(worker.to_string().as_bytes()));
        }
        shares
    }

    #[test]
    fn jain_is_1_for_equal_shares_and_1_over_n_for_a_single_worker() {
        let equal = shares(&[5, 5, 5, 5]).fairness(Some(4)).expect("named");
        assert!((equal.jain - 1.0).abs() < 1e-12, "{equal:?}");
        assert_eq!((equal.min, equal.max, equal.idle_workers), (5, 5, Some(0)));
        let single = shares(&[7]).fairness(Some(4)).expect("named");
        assert!((single.jain - 0.25).abs() < 1e-12, "{single:?}");
        assert_eq!((single.min, single.max, single.idle_workers), (0, 7, Some(3)));
        // (1 + 2 + 3)^2 / (3 (1 + 4 + 9))
        let uneven = shares(&[1, 2, 3]).fairness(None).expect("named");
        assert!((uneven.jain - 36.0 / 42.0).abs() < 1e-12, "{uneven:?}");
        assert_eq!((uneven.min, uneven.idle_workers, uneven.workers_seen), (1, None, 3));
        assert_eq!(shares(&[1, 2, 3]).counts(), [3, 2, 1]);
    }

    #[test]
    fn replaced_workers_can_exceed_the_worker_count() {
        let replaced = shares(&[2, 2, 2]).fairness(Some(2)).expect("named");
        assert_eq!((replaced.idle_workers, replaced.workers_seen, replaced.min), (Some(0), 3, 2));
        assert_eq!(Shares::default().fairness(Some(2)), None);
    }
}
