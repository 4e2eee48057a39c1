//! Forecasts when all queues of a job system will be empty.
//!
//! The rate of a single queue is not enough: when a queue is empty, its threads serve the other
//! queues of their process. Queues are therefore split into groups that share no process. For each
//! group, a simulation of the queues ([`fluid`]) refines the estimate from the group's total rate.
//! The range around it, and the effect of jobs that fail, is that of [`weir_base::drain`], as for
//! Weir's own queues.

mod fluid;
#[cfg(test)]
mod simulated;
mod teams;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use weir_base::drain::{DrainForecast, RETRY_DELAY_SECONDS, Retries, Trend};

use self::fluid::FluidQueue;
use self::teams::LinkedQueues;
use crate::flow::{Drain, Flow};
use crate::observation::{ObservedQueue, SidekiqObservation};

/// Larger groups are not simulated; their total rate is used.
const LINES_MAX: usize = 100;

/// The time to drain of all queues and of each one, as far as known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forecast {
    /// Of all served queues.
    pub all: Option<Drain>,
    /// The range of `all`, which contains it in about 9 of 10 cases.
    pub between: Option<Between>,
    /// No time to drain is forecast, because most jobs fail and return to their queues as retries.
    pub is_withheld: bool,
    queues: BTreeMap<String, (Drain, Option<Between>)>,
    retries: ReturningRetries,
}

/// Jobs that fail faster than they return.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ReturningRetries {
    /// By how much the retry set grows per second.
    growth_per_second: f64,
    /// Jobs that all queues complete per second.
    served_per_second: f64,
}

/// A range that contains the time to drain in about 9 of 10 cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Between {
    /// At least.
    pub shortest: Duration,
    /// At most; `None` if it may never end.
    pub longest: Option<Duration>,
}

impl Between {
    /// Returns the range without its end if that is not known.
    fn unless(self, has_no_end: bool) -> Self {
        Self { longest: self.longest.filter(|_| !has_no_end), ..self }
    }
}

/// Reports whether jobs wait that no thread serves yet: how long they take is not known.
fn is_unmeasured(line: &FluidQueue) -> bool {
    line.waits && line.served <= 0.0
}

impl ReturningRetries {
    fn of(jobs: &SidekiqObservation) -> Self {
        let growth = jobs.retries.flow.known().filter(|flow| flow.drain() == Drain::Grows);
        let served = jobs.queues.iter().filter_map(|queue| queue.flow.known());
        Self {
            growth_per_second: growth.map_or(0.0, Flow::net_per_second),
            served_per_second: served.map(Flow::served_per_second).sum(),
        }
    }

    /// Returns the time to drain and its range, if `left` is what the present rates give. Each queue has its share of
    /// the jobs that fail, which come back to it after a while.
    fn forecast(self, left: Duration, flow: &Flow) -> (Drain, Option<Between>) {
        let share = flow.served_per_second() / self.served_per_second.max(f64::MIN_POSITIVE);
        let retries = Retries {
            delay_seconds: RETRY_DELAY_SECONDS,
            due_per_second: 0.0,
            failing_per_second: self.growth_per_second * share.min(1.0),
        };
        let trend = Trend { retries, ..flow.trend() };
        // As many jobs as take so long at the rate of the flow.
        let depth = left.as_secs_f64() * -trend.change_per_second;
        let expected = match self.growth_per_second > 0.0 {
            true => trend.expected_seconds(depth).map(seconds),
            false => Some(left),
        };
        let Some(expected) = expected else { return (Drain::Stands, None) };
        let between = match trend.forecast(depth) {
            DrainForecast::Drains(range) => Some(Between {
                shortest: seconds(range.shortest_seconds),
                longest: Some(seconds(range.longest_seconds)),
            }),
            DrainForecast::TooVariable { shortest_seconds } => {
                Some(Between { shortest: seconds(shortest_seconds), longest: None })
            }
            _ => None,
        };
        (Drain::After(expected), between)
    }
}

impl Forecast {
    /// Computes the forecast from two samples of a system.
    #[must_use]
    pub fn of(jobs: &SidekiqObservation) -> Self {
        let mut forecast = Self { retries: ReturningRetries::of(jobs), ..Self::default() };
        let groups = teams::groups(jobs);
        let is_known = groups.iter().all(|group| group.flow().is_some());
        let ends: Vec<_> = groups.iter().filter_map(|group| forecast.add(group)).collect();
        let behind = || ends.iter().filter(|end| end.is_behind);
        let total =
            || Flow::total(groups.iter().filter_map(LinkedQueues::flow).collect::<Vec<_>>().iter());
        let worst = behind().max_by_key(|end| rank(end.drain));
        forecast.all = match worst {
            _ if !is_known => None,
            Some(end) => Some(end.drain),
            None => total().map(|flow| flow.drain()),
        };
        if jobs.has_more_processes {
            // With unlisted processes or queues, only bad news is certain: an unseen queue may be
            // unserved.
            forecast.all = forecast.all.filter(|it| matches!(it, Drain::Grows | Drain::Stands));
        }
        let has_end = is_known && forecast.all.is_some();
        forecast.between = worst.filter(|_| has_end).and_then(|end| end.between);
        if jobs.most_fail() {
            forecast.withhold();
        }
        forecast
    }

    /// Removes each time to drain. What grows or stands still does.
    fn withhold(&mut self) {
        self.is_withheld = true;
        self.all = self.all.filter(|drain| !matches!(drain, Drain::After(_)));
        self.between = None;
        self.queues.retain(|_, (drain, _)| !matches!(drain, Drain::After(_)));
    }

    /// Returns the time to drain of one queue, or `None` if it was not sampled twice.
    #[must_use]
    pub fn queue(&self, name: &str) -> Option<Drain> {
        self.queues.get(name).map(|(drain, _)| *drain)
    }

    /// Returns the same, or the time to drain by the queue's own rates if it is in no group: no
    /// process serves it, or it is paused.
    #[must_use]
    pub fn queue_or_own(&self, queue: &ObservedQueue) -> Option<Drain> {
        let own = || queue.flow.known().map(Flow::drain);
        let is_shown = |drain: &Drain| !(self.is_withheld && matches!(drain, Drain::After(_)));
        self.queue(&queue.name).or_else(|| own().filter(is_shown))
    }

    /// Returns the range of the queue's time to drain.
    #[must_use]
    pub fn queue_between(&self, name: &str) -> Option<Between> {
        self.queues.get(name)?.1
    }

    fn add(&mut self, group: &LinkedQueues<'_>) -> Option<GroupForecast> {
        let flow = group.flow();
        let lines = group.lines();
        let ends = match flow.map(|flow| flow.drain()) {
            Some(Drain::After(_)) if lines.len() <= LINES_MAX => group.run(&lines),
            _ => vec![None; lines.len()],
        };
        for (queue, (line, end)) in group.queues().zip(lines.iter().zip(&ends)) {
            let Some(own) = queue.flow.known() else { continue };
            let drain = of_queue(own, line, *end);
            // A queue that is served once others are empty has the range of all of them.
            let moves = matches!(own.drain(), Drain::After(_));
            let mut known = self.with_range(drain, flow.as_ref().filter(|_| !moves).unwrap_or(own));
            known.1 = known.1.map(|it| it.unless(is_unmeasured(line)));
            self.queues.insert(queue.name.clone(), known);
        }
        let flow = flow?;
        let (drain, between) = self.with_range(of_group(&flow, &lines, &ends), &flow);
        let has_unmeasured = lines.iter().any(is_unmeasured);
        let between = between.map(|it| it.unless(has_unmeasured));
        let is_behind = lines.iter().any(|line| line.waits);
        Some(GroupForecast { drain, between, is_behind })
    }

    fn with_range(&self, drain: Drain, flow: &Flow) -> (Drain, Option<Between>) {
        match drain {
            Drain::After(left) if flow.net_per_second() < 0.0 => self.retries.forecast(left, flow),
            drain => (drain, None),
        }
    }
}

/// The forecast of one group.
struct GroupForecast {
    drain: Drain,
    between: Option<Between>,
    is_behind: bool,
}

/// Returns a sort key: drains that never end rank highest.
pub(crate) fn rank(drain: Drain) -> (u8, Duration) {
    match drain {
        Drain::Empty => (0, Duration::ZERO),
        Drain::After(left) => (1, left),
        Drain::Stands => (2, Duration::ZERO),
        Drain::Grows => (3, Duration::ZERO),
    }
}

/// Returns the time to drain by simulation, or by the total rate if the simulation does not end.
fn of_group(flow: &Flow, lines: &[FluidQueue], ends: &[Option<f64>]) -> Drain {
    let waiting = lines.iter().zip(ends).filter(|(line, _)| line.waits);
    let ends: Option<Vec<f64>> = waiting.map(|(_, end)| *end).collect();
    match (flow.drain(), ends.and_then(|ends| ends.into_iter().reduce(f64::max))) {
        (Drain::After(_), Some(end)) => Drain::After(seconds(end)),
        (drain, _) => drain,
    }
}

/// Returns the time to drain of one queue. Growing queues are reported as growing; queues that get
/// threads only once others are empty end with the simulation.
fn of_queue(flow: &Flow, line: &FluidQueue, end: Option<f64>) -> Drain {
    match (flow.drain(), end) {
        (Drain::After(_) | Drain::Stands, Some(end)) if line.waits => Drain::After(seconds(end)),
        (drain, _) => drain,
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
