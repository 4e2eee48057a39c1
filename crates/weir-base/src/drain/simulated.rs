//! Compares forecasts with simulated drains: how many times are within their range, and how wide the ranges are.
//!
//! No clock and no machine is in the way: what is simulated follows from the seed. `weir-bench forecasts` measures the
//! same with a real Weir.

mod queue;

use self::queue::{Arrivals, Durations, QueueShape, SimulatedQueue};
use super::forecast::{DrainForecast, Trend};
use super::trend::{BacklogSample, since_it_was_empty};

const SEEDS_OF_SHAPE: u64 = 25;
/// Of those that are given.
const WITHIN_MIN: f64 = 0.85;
/// Of the end of a range to its start: a tenth above what it was when the test was written.
const MEDIAN_RATIO_MAX: f64 = 1.6;
/// Samples as of the job server: for two minutes.
const INTERVAL_SECONDS: f64 = 5.0;
const SAMPLES_MAX: usize = 25;
/// Forecasts are made once the queue was measured for so long.
const MEASURED_SECONDS_MIN: f64 = 20.0;
/// Of a drain that is not over by then, nothing is counted.
const SECONDS_MAX: f64 = 600.0;

fn shape(name: &'static str, backlog: u64) -> QueueShape {
    QueueShape {
        name,
        backlog,
        arrivals: Arrivals::None,
        durations: Durations::Random { mean: 0.2 },
        failing: 0.0,
        slots: 8,
        changes: Vec::new(),
    }
}

/// Returns queues of all shapes. Workers come or go within the first part of a drain.
fn shapes(random: &mut fastrand::Rng) -> Vec<QueueShape> {
    let at = 15.0 + 30.0 * random.f64();
    let long = Durations::LongTail { mean: 0.1, long: 5.0, one_in: 50.0 };
    vec![
        QueueShape { durations: Durations::Fixed(0.25), ..shape("steady", 3_000) },
        QueueShape { arrivals: Arrivals::Random { per_second: 20.0 }, ..shape("arrivals", 2_000) },
        QueueShape {
            arrivals: Arrivals::Bursts { every_seconds: 5.0, jobs: 40 },
            ..shape("bursts", 3_000)
        },
        QueueShape {
            arrivals: Arrivals::Random { per_second: 5.0 },
            failing: 0.3,
            ..shape("retries", 2_800)
        },
        QueueShape {
            slots: 1,
            changes: (1..8).map(|slot| (f64::from(slot) * 4.0, 1)).collect(),
            ..shape("slow start", 3_800)
        },
        QueueShape { slots: 4, changes: vec![(at, 4)], ..shape("worker added", 4_000) },
        QueueShape { changes: vec![(at, -3)], ..shape("worker killed", 3_000) },
        QueueShape { durations: long, slots: 6, ..shape("long tail", 3_500) },
        QueueShape {
            arrivals: Arrivals::Oscillating { per_second: 15.0, period_seconds: 20.0 },
            ..shape("oscillating", 2_500)
        },
    ]
}

/// The forecasts of drains, and what became of them.
#[derive(Debug, Default)]
struct Tally {
    within: usize,
    outside: usize,
    withheld: usize,
    ratios: Vec<f64>,
}

impl Tally {
    fn add(&mut self, forecast: DrainForecast, actual: f64) {
        let Some(range) = forecast.range() else {
            self.withheld += 1;
            return;
        };
        match (range.shortest_seconds..=range.longest_seconds).contains(&actual) {
            true => self.within += 1,
            false => self.outside += 1,
        }
        self.ratios.push(range.longest_seconds / range.shortest_seconds);
    }

    fn join(&mut self, other: Self) {
        self.within += other.within;
        self.outside += other.outside;
        self.withheld += other.withheld;
        self.ratios.extend(other.ratios);
    }

    fn within_share(&self) -> f64 {
        self.within as f64 / (self.within + self.outside).max(1) as f64
    }

    fn median_ratio(&self) -> f64 {
        let mut ratios = self.ratios.clone();
        ratios.sort_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// Makes forecasts at random times until the queue is empty.
fn drain(shape: QueueShape, seed: u64) -> Tally {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut queue = SimulatedQueue::new(shape, seed);
    let mut samples = vec![queue.sample()];
    let mut asked = Vec::new();
    let mut next = MEASURED_SECONDS_MIN * random.f64();
    let mut tally = Tally::default();
    for tick in 1.. {
        let until = f64::from(tick) * INTERVAL_SECONDS;
        while next < until {
            if let Some(empty) = queue.run_until(next) {
                return counted(tally, &asked, empty);
            }
            asked.push((next, forecast(&samples, queue.depth())));
            next += 8.0 + 12.0 * random.f64();
        }
        if let Some(empty) = queue.run_until(until) {
            return counted(tally, &asked, empty);
        }
        samples.push(queue.sample());
        samples.drain(..samples.len().saturating_sub(SAMPLES_MAX));
        if until > SECONDS_MAX {
            tally.withheld += asked.len();
            return tally;
        }
    }
    tally
}

fn counted(mut tally: Tally, asked: &[(f64, DrainForecast)], empty: f64) -> Tally {
    for (at, forecast) in asked {
        tally.add(*forecast, empty - at);
    }
    tally
}

fn forecast(samples: &[BacklogSample], depth: f64) -> DrainForecast {
    let backlog = since_it_was_empty(samples);
    let measured = backlog.first().zip(backlog.last());
    let measured_seconds = measured.map_or(0.0, |(first, last)| last.at_seconds - first.at_seconds);
    match Trend::of(samples).filter(|_| measured_seconds >= MEASURED_SECONDS_MIN) {
        Some(trend) => trend.forecast(depth),
        None => DrainForecast::TooShort { measured_seconds },
    }
}

#[test]
fn nine_of_ten_drains_end_within_their_range() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut all = Tally::default();
    let mut table = String::new();
    for place in 0..shapes(&mut random).len() {
        let mut tally = Tally::default();
        for seed in 0..SEEDS_OF_SHAPE {
            let shape = shapes(&mut random).swap_remove(place);
            tally.join(drain(shape, seed * 100 + place as u64));
        }
        table += &format!(
            "{:14} {:3} of {:3} within, {:3} without a range, median ratio {:.2}\n",
            shapes(&mut random)[place].name,
            tally.within,
            tally.within + tally.outside,
            tally.withheld,
            tally.median_ratio()
        );
        all.join(tally);
    }
    let (share, ratio, given) = (all.within_share(), all.median_ratio(), all.ratios.len());
    eprintln!("{table}all: {share:.3} of {given} within, {} without, {ratio:.2}", all.withheld);
    assert!(share >= WITHIN_MIN, "{share:.3} are within their range:\n{table}");
    assert!(ratio <= MEDIAN_RATIO_MAX, "the median range is {ratio:.2} times its start:\n{table}");
    assert!(given > 2 * all.withheld, "{given} ranges, {} without one:\n{table}", all.withheld);
}
