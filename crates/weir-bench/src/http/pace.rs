//! When requests are due.

use std::time::{Duration, Instant};

use fastrand::Rng;

use super::Extent;

/// So that gaps and what is asked don't follow each other.
const GAPS_SEED: u64 = 0x5eed_0f9a_b5c0_ffee;

#[derive(Debug)]
pub(crate) struct Pace {
    arrivals: Arrivals,
    pub(crate) end: Instant,
}

#[derive(Debug)]
enum Arrivals {
    /// Each connection asks again as soon as it has its answer.
    Closed,
    /// A Poisson process: whoever comes does not know how the others fare.
    Open { random: Rng, mean_gap_seconds: f64, next: Instant },
}

impl Pace {
    pub(crate) fn new(extent: &Extent, start: Instant) -> Self {
        let arrivals = match extent.requests_per_second {
            None => Arrivals::Closed,
            Some(rate) => {
                let mut random = Rng::with_seed(extent.seed ^ GAPS_SEED);
                let mean_gap_seconds = 1.0 / rate;
                let next = start + gap(&mut random, mean_gap_seconds);
                Arrivals::Open { random, mean_gap_seconds, next }
            }
        };
        Self { arrivals, end: start + extent.duration }
    }

    /// When the next request should be sent, if it is due at `now`.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Instant> {
        let intended = match &mut self.arrivals {
            Arrivals::Closed => now,
            Arrivals::Open { next, .. } if *next > now => return None,
            Arrivals::Open { random, mean_gap_seconds, next } => {
                let due = *next;
                *next += gap(random, *mean_gap_seconds);
                due
            }
        };
        (intended < self.end).then_some(intended)
    }

    /// When the next is due that does not depend on answers; `None`: there is none.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        match &self.arrivals {
            Arrivals::Closed => None,
            Arrivals::Open { next, .. } => Some(*next).filter(|next| *next < self.end),
        }
    }

    /// Whether no more will be due, after everything until `now` was taken.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        match &self.arrivals {
            Arrivals::Closed => now >= self.end,
            Arrivals::Open { next, .. } => *next >= self.end,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.arrivals, Arrivals::Open { .. })
    }
}

fn gap(random: &mut Rng, mean_seconds: f64) -> Duration {
    // From an even number to an exponential one; it must not be 0.
    Duration::from_secs_f64(-(1.0 - random.f64()).ln() * mean_seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;

    const HOUR: Duration = Duration::from_secs(3600);

    fn extent(seconds: u64, requests_per_second: Option<f64>) -> Extent {
        Extent {
            connections: 1,
            duration: Duration::from_secs(seconds),
            keep_alive: true,
            requests_per_second,
            seed: 1,
            timeout: HOUR,
        }
    }

    fn at_rate(rate: f64, start: Instant) -> Vec<Instant> {
        let mut pace = Pace::new(&extent(60, Some(rate)), start);
        std::iter::from_fn(|| pace.take(start + HOUR)).collect()
    }

    #[test]
    fn an_open_loop_is_a_poisson_process_that_waits_for_nobody() {
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
    fn nothing_is_sent_before_it_is_due() {
        let start = now();
        let mut pace = Pace::new(&extent(10, Some(1.0)), start);
        let due = pace.next_due().expect("the first");
        assert!(pace.take(due - Duration::from_nanos(1)).is_none());
        assert_eq!(pace.take(due), Some(due));
        assert!(pace.next_due() > Some(due) && !pace.is_over(due));
    }

    #[test]
    fn arrivals_are_the_same_each_time() {
        let (one, other) = (now(), now() + HOUR);
        let relative = |start: Instant| {
            at_rate(100.0, start).into_iter().map(|at| at - start).collect::<Vec<_>>()
        };
        assert_eq!(relative(one), relative(other));
    }

    #[test]
    fn a_closed_loop_has_a_request_whenever_it_is_asked_until_the_end() {
        let start = now();
        let mut pace = Pace::new(&extent(1, None), start);
        assert_eq!((pace.take(start), pace.next_due()), (Some(start), None));
        let end = start + Duration::from_secs(1);
        assert!(pace.take(end).is_none() && pace.is_over(end) && !pace.is_over(start));
    }
}
