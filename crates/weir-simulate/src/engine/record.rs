//! What a simulation measured.

use std::collections::{BTreeSet, VecDeque};

use super::histogram::Waits;
use crate::plant::Plant;
use crate::scenario::Scenario;

/// The state is judged by what happened in the time before it.
const WINDOW_SECONDS: f64 = 30.0;
/// The state is judged so often.
pub(super) const WATCH_SECONDS: f64 = 5.0;
/// An incident is contained when its effects are gone for this long.
const CONTAINED_SECONDS: f64 = 60.0;
/// Chance alone changes the slowdown of a window by some percent.
const LEVEL_TOLERANCE: f64 = 1.1;

/// The results of a simulation. Waits are those of jobs that arrived after the first event began, without the backlog
/// of the beginning.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// How long it was simulated.
    pub seconds: f64,
    /// By queue.
    pub queues: Vec<QueueRecord>,
    /// By class.
    pub classes: Vec<ClassRecord>,
    /// Points of the charts.
    pub points: Vec<Point>,
    /// What the policy decided.
    pub decisions: Vec<DecisionRecord>,
    /// Whether there is something to drain: an event or a backlog.
    pub has_cause: bool,
    /// When the first event begins.
    pub begins_seconds: f64,
    /// When the backlog was empty, after all events that end had ended.
    pub drained_at_seconds: Option<f64>,
    /// From the first effect of an event to the time from which there was none for a minute; 0 without any effect,
    /// `None` if there was no such minute.
    pub contained_after_seconds: Option<f64>,
    /// Seconds with an effect after that.
    pub late_effects_seconds: f64,
    /// The most connections at once.
    pub connections_max: u32,
    /// Jobs that found no connection.
    pub rejected_connections: u64,
    /// Jobs that waited too long for the pool.
    pub pool_timeouts: u64,
    /// Jobs that wait at the end.
    pub waiting: u64,
    /// Jobs in progress at the end.
    pub in_flight: u64,
    /// Jobs that wait for a retry at the end.
    pub retries: u64,
    pub(super) watch: Watch,
    pub(super) is_culprit: Vec<bool>,
    work_seconds: f64,
    database_seconds: f64,
}

/// A queue.
#[derive(Clone, Debug)]
pub struct QueueRecord {
    /// Its name.
    pub name: String,
    /// Its target.
    pub target_seconds: f64,
    /// Whether its target counts.
    pub is_urgent: bool,
    /// Waits of all its jobs.
    pub waits: Waits,
    /// Waits of the classes that no event changes.
    pub waits_of_others: Waits,
}

/// A class. `arrived` = `done` + `dead` + those that wait, are in progress or wait for a retry.
#[derive(Clone, Debug, Default)]
pub struct ClassRecord {
    /// Its name.
    pub name: String,
    /// Jobs that arrived, or waited at the beginning.
    pub arrived: u64,
    /// Jobs that succeeded.
    pub done: u64,
    /// Jobs that failed for the last time.
    pub dead: u64,
    /// Runs that failed and were retried.
    pub failed: u64,
}

/// A point of the charts.
#[derive(Clone, Debug)]
pub struct Point {
    /// Its time.
    pub at_seconds: f64,
    /// Jobs that wait, by queue.
    pub waiting: Vec<f64>,
    /// Jobs in progress, by queue.
    pub busy: Vec<f64>,
    /// Sessions of the database.
    pub sessions: f64,
    /// How many times longer than on an idle database a query takes.
    pub slowdown: f64,
    /// The limit of threads.
    pub threads: f64,
}

/// What a policy did.
#[derive(Clone, Debug)]
pub struct DecisionRecord {
    /// When.
    pub at_seconds: f64,
    /// What, and why.
    pub text: String,
}

/// What happened recently.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    /// Start times and waits, by queue.
    waits: Vec<VecDeque<(f64, f64)>>,
    /// End times, work and time in the database.
    database: VecDeque<(f64, f64, f64)>,
    /// The work and the time in the database before the first event.
    before: (f64, f64),
    first_effect: Option<f64>,
    clear_since: Option<f64>,
}

impl Record {
    /// Returns the most decisions within an hour.
    #[must_use]
    pub fn decisions_per_hour_max(&self) -> usize {
        let within = |from: usize| {
            let end = self.decisions[from].at_seconds + 3_600.0;
            self.decisions[from..].iter().take_while(|decision| decision.at_seconds < end).count()
        };
        (0..self.decisions.len()).map(within).max().unwrap_or_default()
    }

    pub(super) fn new(scenario: &Scenario, plant: &Plant) -> Self {
        let culprits: BTreeSet<&str> =
            scenario.events.iter().filter_map(|it| it.class.as_deref()).collect();
        let queues = scenario.queues.iter().map(|queue| QueueRecord {
            name: queue.name.clone(),
            target_seconds: queue.target_seconds,
            is_urgent: queue.urgent,
            waits: Waits::new(queue.target_seconds),
            waits_of_others: Waits::new(queue.target_seconds),
        });
        let class = |name: &String| ClassRecord { name: name.clone(), ..ClassRecord::default() };
        let has_backlog = scenario.classes.iter().any(|class| class.backlog > 0);
        Self {
            queues: queues.collect(),
            classes: scenario.classes.iter().map(|it| class(&it.name)).collect(),
            has_cause: has_backlog || !scenario.events.is_empty(),
            begins_seconds: scenario.begins_seconds(),
            watch: Watch {
                waits: vec![VecDeque::new(); plant.roster.queues.len()],
                ..Watch::default()
            },
            is_culprit: scenario
                .classes
                .iter()
                .map(|it| culprits.contains(it.name.as_str()))
                .collect(),
            ..Self::default()
        }
    }

    pub(super) fn started(
        &mut self,
        now: f64,
        class: usize,
        queue: usize,
        enqueued: f64,
        is_backlog: bool,
    ) {
        if is_backlog || enqueued < self.begins_seconds {
            return;
        }
        let wait = now - enqueued;
        let record = &mut self.queues[queue];
        record.waits.add(wait);
        if !self.is_culprit[class] {
            record.waits_of_others.add(wait);
            if record.is_urgent {
                self.watch.waits[queue].push_back((now, wait));
            }
        }
    }

    pub(super) fn database_done(&mut self, now: f64, class: usize, work: f64, seconds: f64) {
        self.work_seconds += work;
        self.database_seconds += seconds;
        if !self.is_culprit[class] {
            self.watch.database.push_back((now, work, seconds));
            if now < self.begins_seconds {
                self.watch.before.0 += work;
                self.watch.before.1 += seconds;
            }
        }
    }

    /// Returns how many times longer than on an idle database the jobs' queries took, on average.
    #[must_use]
    pub fn slowdown(&self) -> f64 {
        self.database_seconds / self.work_seconds.max(1e-9)
    }

    /// Returns the time from the first event until the backlog was empty.
    #[must_use]
    pub fn drain_seconds(&self) -> Option<f64> {
        self.drained_at_seconds.map(|at| at - self.begins_seconds)
    }

    /// Returns whether all urgent queues met their targets, the jobs of changed classes aside.
    #[must_use]
    pub fn is_urgent_in_target(&self) -> bool {
        let mut urgent = self.queues.iter().filter(|queue| queue.is_urgent);
        urgent.all(|queue| queue.waits_of_others.is_in_target())
    }

    /// Judges the state: `late` tells whether an urgent queue has a job that is past its target.
    pub(super) fn judge(&mut self, now: f64, is_late: bool) {
        let since = now - WINDOW_SECONDS;
        let watch = &mut self.watch;
        watch.database.retain(|(at, _, _)| *at >= since);
        watch.waits.iter_mut().for_each(|waits| waits.retain(|(at, _)| *at >= since));
        if now < self.begins_seconds {
            return;
        }
        let mut queues = self.queues.iter().zip(&watch.waits);
        let is_missed = queues.any(|(queue, waits)| {
            let in_target = waits.iter().filter(|(_, wait)| *wait <= queue.target_seconds).count();
            (in_target as f64) < 0.95 * waits.len() as f64
        });
        let is_affected = is_late || is_missed || watch.is_database_slower();
        match (is_affected, self.contained_after_seconds) {
            (true, Some(_)) => self.late_effects_seconds += WATCH_SECONDS,
            (true, None) => {
                watch.first_effect.get_or_insert(now);
                watch.clear_since = None;
            }
            (false, None) if watch.first_effect.is_some() => {
                let since = *watch.clear_since.get_or_insert(now);
                if now - since >= CONTAINED_SECONDS {
                    self.contained_after_seconds = watch.first_effect.map(|first| since - first);
                }
            }
            (false, _) => {}
        }
    }

    pub(super) fn finish(&mut self, now: f64, waiting: u64, in_flight: u64, retries: u64) {
        self.seconds = now;
        self.waiting = waiting;
        self.in_flight = in_flight;
        self.retries = retries;
        if self.watch.first_effect.is_none() {
            self.contained_after_seconds = Some(0.0);
        }
    }
}

impl Watch {
    fn is_database_slower(&self) -> bool {
        let sums = self
            .database
            .iter()
            .fold((0.0, 0.0), |(a, b), (_, work, seconds)| (a + work, b + seconds));
        let ratio = |(work, seconds): (f64, f64)| if work > 0.0 { seconds / work } else { 1.0 };
        ratio(sums) > ratio(self.before) * LEVEL_TOLERANCE
    }
}
