//! Computes how many web threads are enough.
//!
//! Based on Erlang's C formula (M/M/c): the share of requests that find all threads busy, and how
//! long they wait.

use serde::Serialize;

use super::ceiling;
use super::rounding::busy;

/// Acceptable mean wait as a share of the service time.
const WAIT_SHARE: f64 = 0.1;
/// The search ends at this many threads, more than a machine can run.
const THREADS_MAX: u32 = 1_000;

/// The measured HTTP load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WebDemand {
    /// Requests per second, in the busiest minutes.
    pub requests_per_second: f64,
    /// Mean seconds of a thread per request.
    pub service_seconds: f64,
    /// Threads per process (`MAX_THREADS`).
    pub threads: u32,
    /// Processes that run now, if the load is not known: the plan has at least as many. 0: any number.
    pub processes_now: u32,
}

impl WebDemand {
    /// Returns the average number of busy threads.
    pub(super) fn busy(&self) -> f64 {
        busy(self.requests_per_second, self.service_seconds)
    }
}

/// Returns the fewest threads for which the mean wait is at most a tenth of the service time.
#[must_use]
pub fn threads_enough(demand: &WebDemand) -> u32 {
    let load = demand.busy();
    if load <= 0.0 {
        return 1;
    }
    let least = ceiling(load).clamp(1, THREADS_MAX);
    let enough = |threads: &u32| mean_wait(*threads, load) <= WAIT_SHARE;
    (least..=THREADS_MAX).find(enough).unwrap_or(THREADS_MAX)
}

/// Returns the mean wait in units of the service time, for a load in threads. Infinite if the
/// threads do not keep up.
fn mean_wait(threads: u32, load: f64) -> f64 {
    let spare = f64::from(threads) - load;
    if spare <= 0.0 { f64::INFINITY } else { waiting_share(threads, load) / spare }
}

/// Computes Erlang C by the recursion for Erlang B, which does not overflow.
fn waiting_share(threads: u32, load: f64) -> f64 {
    let lost = (1..=threads).fold(1.0, |lost, thread| {
        let offered = load * lost;
        offered / (f64::from(thread) + offered)
    });
    let utilisation = load / f64::from(threads);
    lost / (1.0 - utilisation * (1.0 - lost))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erlangs_formula_gives_the_values_of_its_tables() {
        // With one thread, the waiting share equals the utilisation. With two threads at a load of
        // one, it is a third.
        assert!((waiting_share(1, 0.5) - 0.5).abs() < 1e-9);
        assert!((waiting_share(2, 1.0) - 1.0 / 3.0).abs() < 1e-9);
        // With ten threads at a load of eight, it is 0.409.
        assert!((waiting_share(10, 8.0) - 0.409).abs() < 1e-3);
    }

    #[test]
    fn enough_is_a_little_more_than_the_load() {
        let threads = |requests_per_second, service_seconds| {
            threads_enough(&WebDemand {
                requests_per_second,
                service_seconds,
                threads: 5,
                processes_now: 0,
            })
        };
        assert_eq!(threads(0.0, 0.1), 1);
        assert_eq!(threads(30.0, 0.1), 6);
        assert_eq!(threads(100.0, 0.1), 13);
        assert_eq!(threads(1e9, 1.0), THREADS_MAX);
        assert_eq!(threads(f64::INFINITY, 1.0), THREADS_MAX);
        assert_eq!(threads(f64::NAN, 1.0), 1);
    }
}
