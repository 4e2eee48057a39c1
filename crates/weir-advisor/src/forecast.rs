//! Forecasts when all queues of a job system will be empty.
//!
//! The rate of a single queue is not enough: when a queue is empty, its threads serve the other
//! queues of their process. Queues are therefore split into groups that share no process. For each
//! group, a simulation of the queues ([`fluid`]) refines the estimate from the group's total rate.

mod fluid;
#[cfg(test)]
mod simulated;
mod teams;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use self::fluid::FluidQueue;
use self::teams::LinkedQueues;
use crate::flow::{Drain, Flow};
use crate::observation::{ObservedQueue, SidekiqObservation};

/// Larger groups are not simulated; their total rate is used.
const LINES_MAX: usize = 100;
/// Narrower ranges are not reported.
const RANGE_SHARE_MIN: f64 = 0.1;

/// The time to drain of all queues and of each one, as far as known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// Of all served queues.
    pub all: Option<Drain>,
    /// The range of `all` at 95 % confidence.
    pub between: Option<Between>,
    /// No time to drain is forecast, because most jobs fail and return to their queues as retries.
    pub is_withheld: bool,
    queues: BTreeMap<String, (Drain, Option<Between>)>,
}

/// A range at 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Between {
    /// At least.
    pub shortest: Duration,
    /// At most; `None` if it may never end.
    pub longest: Option<Duration>,
}

impl Between {
    /// Returns the range around `drain` by the variation of `flow`, or `None` if it is within 10 %.
    fn around(drain: Drain, flow: &Flow) -> Option<Self> {
        let Drain::After(left) = drain else { return None };
        let (shorter, longer) = flow.spread();
        let is_narrow = longer.is_some_and(|longer| longer - shorter <= 2.0 * RANGE_SHARE_MIN);
        let of = |factor: f64| seconds(left.as_secs_f64() * factor);
        let between = || Self { shortest: of(shorter), longest: longer.map(of) };
        (!is_narrow).then(between)
    }
}

impl Forecast {
    /// Computes the forecast from two samples of a system.
    #[must_use]
    pub fn of(jobs: &SidekiqObservation) -> Self {
        let mut forecast = Self::default();
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
            if let Some(known) = own(queue, line, *end) {
                self.queues.insert(queue.name.clone(), known);
            }
        }
        let flow = flow?;
        let drain = of_group(&flow, &lines, &ends);
        let is_behind = lines.iter().any(|line| line.waits);
        Some(GroupForecast { drain, between: Between::around(drain, &flow), is_behind })
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
fn own(
    queue: &ObservedQueue,
    line: &FluidQueue,
    end: Option<f64>,
) -> Option<(Drain, Option<Between>)> {
    let flow = queue.flow.known()?;
    let drain = match (flow.drain(), end) {
        (Drain::After(_) | Drain::Stands, Some(end)) if line.waits => Drain::After(seconds(end)),
        (drain, _) => drain,
    };
    let moves = matches!(flow.drain(), Drain::After(_));
    Some((drain, Between::around(drain, flow).filter(|_| moves)))
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
