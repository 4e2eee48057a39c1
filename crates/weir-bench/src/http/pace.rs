//! When requests are due.

use std::time::{Duration, Instant};

use fastrand::Rng;

use super::LoadProfile;

/// Keeps the gaps independent of the requests.
const GAPS_SEED: u64 = 0x5eed_0f9a_b5c0_ffee;

#[derive(Debug)]
pub(crate) struct Pace {
    arrivals: Arrivals,
    pub(crate) end: Instant,
}

#[derive(Debug)]
enum Arrivals {
    /// Each connection sends its next request as soon as it has the response.
    ClosedLoop,
    /// A Poisson process: arrivals do not depend on responses.
    OpenLoop { random: Rng, mean_gap_seconds: f64, next: Instant },
}

impl Pace {
    pub(crate) fn new(profile: &LoadProfile, start: Instant) -> Self {
        let arrivals = match profile.requests_per_second {
            None => Arrivals::ClosedLoop,
            Some(rate) => {
                let mut random = Rng::with_seed(profile.seed ^ GAPS_SEED);
                let mean_gap_seconds = 1.0 / rate;
                let next = start + gap(&mut random, mean_gap_seconds);
                Arrivals::OpenLoop { random, mean_gap_seconds, next }
            }
        };
        Self { arrivals, end: start + profile.duration }
    }

    /// Returns when the next request was due, if that is not after `now`.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Instant> {
        let intended = match &mut self.arrivals {
            Arrivals::ClosedLoop => now,
            Arrivals::OpenLoop { next, .. } if *next > now => return None,
            Arrivals::OpenLoop { random, mean_gap_seconds, next } => {
                let due = *next;
                *next += gap(random, *mean_gap_seconds);
                due
            }
        };
        (intended < self.end).then_some(intended)
    }

    /// Returns when the next request of an open loop is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        match &self.arrivals {
            Arrivals::ClosedLoop => None,
            Arrivals::OpenLoop { next, .. } => Some(*next).filter(|next| *next < self.end),
        }
    }

    /// Returns whether no more requests will be due after `now`.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        match &self.arrivals {
            Arrivals::ClosedLoop => now >= self.end,
            Arrivals::OpenLoop { next, .. } => *next >= self.end,
        }
    }

    pub(crate) fn is_open_loop(&self) -> bool {
        matches!(self.arrivals, Arrivals::OpenLoop { .. })
    }
}

fn gap(random: &mut Rng, mean_seconds: f64) -> Duration {
    // Turns a uniform number into an exponential one. The logarithm's argument must not be 0.
    Duration::from_secs_f64(-(1.0 - random.f64()).ln() * mean_seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;

    const HOUR: Duration = Duration::from_secs(3600);

    fn profile(seconds: u64, requests_per_second: Option<f64>) -> LoadProfile {
        LoadProfile {
            connections: 1,
            duration: Duration::from_secs(seconds),
            keep_alive: true,
            requests_per_second,
            seed: 1,
            timeout: HOUR,
        }
    }

    fn at_rate(rate: f64, start: Instant) -> Vec<Instant> {
        let mut pace = Pace::new(&profile(60, Some(rate)), start);
        std::iter::from_fn(|| pace.take_due(start + HOUR)).collect()
    }

    #[test]
    fn open_loop_is_a_poisson_process_independent_of_responses() {
        let start = now();
        let requests = at_rate(500.0, start);
        // 30,000 expected, with a standard deviation of 173.
        assert!((29_300..30_700).contains(&requests.len()), "{}", requests.len());
        let gaps = requests.windows(2).map(|pair| pair[1] - pair[0]);
        let gaps: Vec<f64> = gaps.map(|gap| gap.as_secs_f64()).collect();
        // exp(-1) of all gaps are longer than the mean.
        let long = gaps.iter().filter(|gap| **gap > 1.0 / 500.0).count();
        assert!((long * 1000 / gaps.len()).abs_diff(368) < 12, "{long} of {}", gaps.len());
        assert!(requests.iter().all(|intended| *intended < start + Duration::from_secs(60)));
    }

    #[test]
    fn requests_are_not_sent_before_they_are_due() {
        let start = now();
        let mut pace = Pace::new(&profile(10, Some(1.0)), start);
        let due = pace.next_due().expect("the first");
        assert!(pace.take_due(due - Duration::from_nanos(1)).is_none());
        assert_eq!(pace.take_due(due), Some(due));
        assert!(pace.next_due() > Some(due) && !pace.is_over(due));
    }

    #[test]
    fn arrivals_are_determined_by_the_seed() {
        let (one, other) = (now(), now() + HOUR);
        let relative = |start: Instant| {
            at_rate(100.0, start).into_iter().map(|at| at - start).collect::<Vec<_>>()
        };
        assert_eq!(relative(one), relative(other));
    }

    #[test]
    fn closed_loop_always_has_a_request_until_the_end() {
        let start = now();
        let mut pace = Pace::new(&profile(1, None), start);
        assert_eq!((pace.take_due(start), pace.next_due()), (Some(start), None));
        let end = start + Duration::from_secs(1);
        assert!(pace.take_due(end).is_none() && pace.is_over(end) && !pace.is_over(start));
    }
}
