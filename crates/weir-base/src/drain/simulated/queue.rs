//! A queue with its workers, event by event.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::f64::consts::TAU;

use crate::drain::trend::BacklogSample;

#[derive(Clone, Copy, Debug)]
pub(super) enum Arrivals {
    None,
    Random {
        per_second: f64,
    },
    /// At random times.
    Bursts {
        every_seconds: f64,
        jobs: u64,
    },
    /// Between 0 and twice the mean.
    Oscillating {
        per_second: f64,
        period_seconds: f64,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Durations {
    Fixed(f64),
    /// Exponentially distributed.
    Random {
        mean: f64,
    },
    /// One of so many jobs takes far longer.
    LongTail {
        mean: f64,
        long: f64,
        one_in: f64,
    },
}

#[derive(Clone, Debug)]
pub(super) struct QueueShape {
    pub(super) name: &'static str,
    pub(super) backlog: u64,
    pub(super) arrivals: Arrivals,
    pub(super) durations: Durations,
    /// The share of jobs that fail. They are tried again after 15 to 45 s.
    pub(super) failing: f64,
    /// Jobs in progress at once.
    pub(super) slots: i64,
    /// Slots that come or go at a time.
    pub(super) changes: Vec<(f64, i64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival(u64),
    Ended,
    Returned,
    Slots(i64),
}

const SECOND: f64 = 1e6;

pub(super) struct SimulatedQueue {
    shape: QueueShape,
    random: fastrand::Rng,
    now_us: u64,
    /// By time, and in the order in which they were scheduled.
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    scheduled: u64,
    idle: i64,
    counters: BacklogSample,
}

impl SimulatedQueue {
    pub(super) fn new(shape: QueueShape, seed: u64) -> Self {
        let depth = shape.backlog as f64;
        let mut queue = Self {
            idle: shape.slots,
            random: fastrand::Rng::with_seed(seed),
            now_us: 0,
            events: BinaryHeap::new(),
            scheduled: 0,
            counters: BacklogSample { depth, ..BacklogSample::default() },
            shape,
        };
        for (at, slots) in queue.shape.changes.clone() {
            queue.schedule(at, Event::Slots(slots));
        }
        queue.schedule_arrival();
        queue.fetch();
        queue
    }

    pub(super) fn sample(&self) -> BacklogSample {
        BacklogSample { at_seconds: self.seconds(), ..self.counters }
    }

    pub(super) fn depth(&self) -> f64 {
        self.counters.depth
    }

    /// Runs until a time. Returns when the queue was empty, if it was.
    pub(super) fn run_until(&mut self, seconds: f64) -> Option<f64> {
        while let Some(&Reverse((at, _, event))) = self.events.peek() {
            if at as f64 > seconds * SECOND {
                break;
            }
            self.events.pop();
            self.now_us = at;
            self.apply(event);
            if self.counters.depth <= 0.0 {
                return Some(self.seconds());
            }
        }
        self.now_us = micros(seconds);
        None
    }

    fn seconds(&self) -> f64 {
        self.now_us as f64 / SECOND
    }

    fn schedule(&mut self, after: f64, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((self.now_us + micros(after), self.scheduled, event)));
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Arrival(jobs) => {
                self.counters.depth += jobs as f64;
                self.counters.arrived += jobs as f64;
                self.schedule_arrival();
            }
            Event::Ended => self.end(),
            Event::Returned => {
                self.counters.depth += 1.0;
                self.counters.returned += 1.0;
            }
            Event::Slots(slots) => self.idle += slots,
        }
        self.fetch();
    }

    fn end(&mut self) {
        self.counters.ended += 1.0;
        self.counters.working -= 1.0;
        self.idle += 1;
        if self.random.f64() < self.shape.failing {
            self.counters.retried += 1.0;
            let after = 15.0 + 30.0 * self.random.f64();
            self.schedule(after, Event::Returned);
        }
    }

    fn fetch(&mut self) {
        while self.idle > 0 && self.counters.depth > 0.0 {
            self.counters.depth -= 1.0;
            self.counters.working += 1.0;
            self.idle -= 1;
            let takes = self.duration();
            self.schedule(takes, Event::Ended);
        }
    }

    fn duration(&mut self) -> f64 {
        match self.shape.durations {
            Durations::Fixed(seconds) => seconds,
            Durations::Random { mean } => self.exponential(mean),
            Durations::LongTail { mean, long, one_in } => {
                let is_long = self.random.f64() * one_in < 1.0;
                self.exponential(if is_long { long } else { mean })
            }
        }
    }

    fn schedule_arrival(&mut self) {
        let (after, jobs) = match self.shape.arrivals {
            Arrivals::None => return,
            Arrivals::Random { per_second } => (self.exponential(1.0 / per_second), 1),
            Arrivals::Bursts { every_seconds, jobs } => (self.exponential(every_seconds), jobs),
            Arrivals::Oscillating { per_second, period_seconds } => {
                (self.until_oscillating_arrival(per_second, period_seconds), 1)
            }
        };
        self.schedule(after, Event::Arrival(jobs));
    }

    /// Draws arrivals at the highest rate, and drops those that are too many.
    fn until_oscillating_arrival(&mut self, per_second: f64, period_seconds: f64) -> f64 {
        let mut after = 0.0;
        loop {
            after += self.exponential(0.5 / per_second);
            let phase = (self.seconds() + after) / period_seconds * TAU;
            if self.random.f64() * 2.0 < 1.0 + phase.sin() {
                return after;
            }
        }
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.random.f64()).ln()
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some seconds")]
fn micros(seconds: f64) -> u64 {
    (seconds * SECOND) as u64
}
