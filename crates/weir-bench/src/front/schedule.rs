//! When which request is due.

use std::time::{Duration, Instant};

use fastrand::Rng;

use super::service_times::ServiceTimes;
use super::settings::LoadSettings;

/// So that gaps and service times don't follow each other.
const GAPS_SEED: u64 = 0x5eed_0f9a_b5c0_ffee;

/// A request that is due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    /// When it should be sent: latencies count from here, so that a client or a server that falls behind is charged.
    pub(crate) intended: Instant,
    /// How long the worker is asked to be busy.
    pub(crate) service: Duration,
}

#[derive(Debug)]
pub(crate) struct Schedule {
    service_times: ServiceTimes,
    pace: Pace,
    pub(crate) end: Instant,
}

#[derive(Debug)]
enum Pace {
    /// Each connection asks again as soon as it has its answer.
    Closed,
    /// A Poisson process: whoever comes does not know how the others fare.
    Open { random: Rng, mean_gap_seconds: f64, next: Instant },
}

impl Schedule {
    pub(crate) fn new(settings: &LoadSettings, start: Instant) -> Self {
        let service_times = ServiceTimes::new(settings.scenario, settings.seed);
        let pace = match settings.requests_per_second {
            None => Pace::Closed,
            Some(rate) => {
                let mut random = Rng::with_seed(settings.seed ^ GAPS_SEED);
                let mean_gap_seconds = 1.0 / rate;
                let next = start + gap(&mut random, mean_gap_seconds);
                Pace::Open { random, mean_gap_seconds, next }
            }
        };
        Self { service_times, pace, end: start + settings.duration }
    }

    /// The next request, if one is due at `now`.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Request> {
        let intended = match &mut self.pace {
            Pace::Closed => now,
            Pace::Open { next, .. } if *next > now => return None,
            Pace::Open { random, mean_gap_seconds, next } => {
                let due = *next;
                *next += gap(random, *mean_gap_seconds);
                due
            }
        };
        (intended < self.end).then(|| Request { intended, service: self.service_times.next() })
    }

    /// When the next is due that does not depend on answers; `None`: there is none.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        match &self.pace {
            Pace::Closed => None,
            Pace::Open { next, .. } => Some(*next).filter(|next| *next < self.end),
        }
    }

    /// Whether no more will be due, after everything until `now` was taken.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        match &self.pace {
            Pace::Closed => now >= self.end,
            Pace::Open { next, .. } => *next >= self.end,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.pace, Pace::Open { .. })
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

    fn at_rate(rate: f64, start: Instant) -> Vec<Request> {
        let flags = ["--scenario", "bundler", "--seconds", "60", "--requests-per-second"];
        let settings = LoadSettings::parsed(&[&flags[..], &[&rate.to_string()]].concat(), 1);
        let mut schedule = Schedule::new(&settings, start);
        std::iter::from_fn(|| schedule.take(start + HOUR)).collect()
    }

    #[test]
    fn an_open_loop_is_a_poisson_process_that_waits_for_nobody() {
        let start = now();
        let requests = at_rate(500.0, start);
        // 30,000 expected, with a standard deviation of 173.
        assert!((29_300..30_700).contains(&requests.len()), "{}", requests.len());
        let gaps = requests.windows(2).map(|pair| pair[1].intended - pair[0].intended);
        let gaps: Vec<f64> = gaps.map(|gap| gap.as_secs_f64()).collect();
        // exp(-1) of all gaps are longer than the mean.
        let long = gaps.iter().filter(|gap| **gap > 1.0 / 500.0).count();
        assert!((long * 1000 / gaps.len()).abs_diff(368) < 12, "{long} of {}", gaps.len());
        assert!(requests.iter().all(|request| request.intended < start + Duration::from_secs(60)));
    }

    #[test]
    fn nothing_is_sent_before_it_is_due() {
        let flags = ["--scenario", "noop", "--requests-per-second", "1"];
        let start = now();
        let mut schedule = Schedule::new(&LoadSettings::parsed(&flags, 1), start);
        let due = schedule.next_due().expect("the first");
        assert!(schedule.take(due - Duration::from_nanos(1)).is_none());
        assert_eq!(schedule.take(due).map(|request| request.intended), Some(due));
        assert!(schedule.next_due() > Some(due) && !schedule.is_over(due));
    }

    #[test]
    fn arrivals_and_service_times_are_the_same_each_time() {
        let (one, other) = (now(), now() + HOUR);
        let relative = |start: Instant| {
            let requests = at_rate(100.0, start).into_iter();
            requests.map(|request| (request.intended - start, request.service)).collect::<Vec<_>>()
        };
        assert_eq!(relative(one), relative(other));
    }

    #[test]
    fn a_closed_loop_has_a_request_whenever_it_is_asked_until_the_end() {
        let settings = LoadSettings::parsed(&["--scenario", "mixed", "--seconds", "1"], 1);
        let start = now();
        let mut schedule = Schedule::new(&settings, start);
        let taken = schedule.take(start).expect("due");
        assert_eq!((taken.intended, schedule.next_due()), (start, None));
        let end = start + Duration::from_secs(1);
        assert!(schedule.take(end).is_none() && schedule.is_over(end) && !schedule.is_over(start));
    }
}
