//! Recent samples, the estimates from them, and the outcomes of decisions.

mod outcomes;
mod slowdown;

use std::collections::VecDeque;

use serde::Serialize;

use crate::change::Decision;
use crate::estimate::{Covariance, Recent, Sign};
use crate::load::{LoadSample, Roster};
use crate::settings::Settings;
use crate::work::{WorkSample, WorkWindow};

/// A lower database time is believed at once, if so many jobs show it ..
const JOBS_FOR_LESS: f64 = 50.0;
/// .. and it is less than this share of the normal one: the average of 50 exponential times is 1 ± 0.14.
const LESS: f64 = 0.6;

/// What the database has served at full speed counts for about this long.
const FORGET_SECONDS: f64 = 36_000.0;
/// Nothing is learned while the first jobs after a start are in progress.
const LEARNS_AFTER_SECONDS: f64 = 30.0;
/// After this time without a backlog, all values are normal, also those of a slow database.
const CHRONIC_SECONDS: f64 = 600.0;
/// Values are learned in blocks of this length, each after the first sample behind it. A backlog discards the current block,
/// which may show its beginning.
const CANDIDATE_SECONDS: f64 = 15.0;
/// Where no job waits for longer, there are enough threads.
const IDLE_AGE_SECONDS: f64 = 10.0;
/// Standard deviation of the times in the database, in their mean: between that of exponential and of log-normal times.
const VARIATION: f64 = 1.1;

/// What is known of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassHistory {
    /// Recent values.
    pub recent: Recent,
    /// The same over a longer time: more certain, and later.
    pub longer: Recent,
    /// The current block of values, which become normal if no backlog interrupts it.
    pub candidate: Recent,
    /// Values of calm times.
    pub normal: Recent,
    /// Whether there were calm times: otherwise normal values are those of the best times so far.
    pub is_normal_known: bool,
    /// Seconds in the database of a job in calm times.
    pub base_seconds: Option<f64>,
}

impl ClassHistory {
    /// Returns how many times longer than in calm times a job is in the database.
    #[must_use]
    pub fn cost(&self) -> Option<f64> {
        self.cost_in(&self.recent)
    }

    fn cost_in(&self, window: &Recent) -> Option<f64> {
        Some(window.database_seconds()? / self.base_seconds.filter(|base| *base > 1e-6)?)
    }

    /// Returns the relative standard error of the cost.
    fn standard_error(&self, window: &Recent) -> f64 {
        VARIATION * (1.0 / window.finished.max(1.0) + 1.0 / self.normal.finished.max(1.0)).sqrt()
    }
}

/// Whether a decision did what it was expected to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It helped, or did no harm where it was to prevent some.
    Helped,
    /// It did not help, and is taken back.
    DidNotHelp,
    /// Its effect cannot be told, because the load changed.
    Unclear,
}

/// What happened up to now.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// By class.
    pub classes: Vec<ClassHistory>,
    /// By queue.
    pub queues: Vec<Recent>,
    /// The work done in the last minutes.
    pub work: WorkWindow,
    /// In-flight and throughput of all classes together.
    pub covariance: Covariance,
    /// The last sample.
    pub last: Option<LoadSample>,
    /// The decision whose outcome is not known yet.
    pub pending: Option<Decision>,
    /// The decision that did not help and must be taken back.
    pub failed: Option<Decision>,
    /// Decisions with their outcomes, the newest last.
    pub judged: VecDeque<(Decision, Outcome)>,
    /// The most sessions of managed classes that were served at full speed.
    pub fast_sessions: f64,
    /// Whether the rules may change how a class is served, by class.
    pub is_managed: Vec<bool>,
    /// Since when no job waits for long.
    pub idle_since_seconds: Option<f64>,
    /// The first sample.
    pub began_seconds: Option<f64>,
    /// Since when no queue was late and the database was not slow.
    pub calm_since_seconds: Option<f64>,
}

impl History {
    /// Adds a sample and judges the pending decision, if its time is over. A sample without the database is no fresh
    /// data: it is dropped.
    pub fn record(&mut self, sample: LoadSample, roster: &Roster, settings: &Settings) {
        if sample.database.is_none() {
            return;
        }
        self.classes.resize(sample.classes.len(), ClassHistory::default());
        self.queues.resize(sample.queues.len(), Recent::default());
        let is_managed = |queue: usize| roster.queues.get(queue).is_some_and(|it| it.is_managed);
        self.is_managed = roster.classes.iter().map(|class| is_managed(class.queue)).collect();
        let span_seconds = sample.span_seconds;
        for (queue, load) in self.queues.iter_mut().zip(&sample.queues) {
            let new = Recent { arrivals: load.arrivals as f64, span_seconds, ..Recent::default() };
            queue.add(new, 4.0 * settings.recent_seconds);
        }
        let began = *self.began_seconds.get_or_insert(sample.at_seconds);
        let is_warm = sample.at_seconds - began >= LEARNS_AFTER_SECONDS;
        for (class, load) in self.classes.iter_mut().zip(&sample.classes) {
            let new = load.over(span_seconds);
            class.recent.add(new, settings.recent_seconds);
            class.longer.add(new, settings.longer_seconds);
            if is_warm {
                class.learn_less();
            }
        }
        let is_calm = self.is_calm(&sample, roster, settings);
        self.calm_since_seconds = since(self.calm_since_seconds, is_calm, &sample);
        if self.is_normal(is_calm, &sample, roster) && is_warm {
            self.learn(&sample, settings);
        } else {
            self.classes.iter_mut().for_each(|class| class.candidate = Recent::default());
        }
        self.note_work(&sample);
        let at_seconds = sample.at_seconds;
        self.last = Some(sample);
        self.judge(at_seconds, settings);
    }

    /// Returns whether nothing is wrong: the values of this time are normal.
    fn is_calm(&self, sample: &LoadSample, roster: &Roster, settings: &Settings) -> bool {
        let mut queues = sample.queues.iter().zip(&roster.queues);
        let is_late = queues.any(|(queue, info)| queue.oldest_age_seconds > info.target_seconds);
        !is_late && !waits_for_connection(sample) && !self.is_slow(None, settings)
    }

    /// Returns whether jobs wait neither for a thread nor for a connection, apart from moments.
    fn is_idle(sample: &LoadSample, roster: &Roster) -> bool {
        let mut queues = sample.queues.iter().zip(&roster.queues);
        let is_short = queues.all(|(queue, info)| {
            queue.oldest_age_seconds <= IDLE_AGE_SECONDS.min(info.target_seconds)
        });
        is_short && !waits_for_connection(sample)
    }

    /// Returns whether the values of a sample are normal. The waits of jobs decide: learning only from low values would make the
    /// normal ones lower and lower.
    fn is_normal(&mut self, is_calm: bool, sample: &LoadSample, roster: &Roster) -> bool {
        let is_idle = Self::is_idle(sample, roster);
        self.idle_since_seconds = since(self.idle_since_seconds, is_idle, sample);
        let lasts = |seconds: f64| sample.at_seconds - seconds;
        // A slow database without any effect for so long is the normal one, or what was learned is wrong.
        let is_chronic =
            self.idle_since_seconds.is_some_and(|since| lasts(since) >= CHRONIC_SECONDS);
        is_idle && (is_calm || is_chronic)
    }

    fn learn(&mut self, sample: &LoadSample, settings: &Settings) {
        for (class, load) in self.classes.iter_mut().zip(&sample.classes) {
            if class.candidate.span_seconds >= CANDIDATE_SECONDS {
                let block = std::mem::take(&mut class.candidate);
                class.normal.add(block, settings.normal_seconds);
                class.base_seconds = class.normal.database_seconds().or(class.base_seconds);
                class.is_normal_known |= class.normal.database_seconds().is_some();
            }
            class.candidate.add(load.over(sample.span_seconds), f64::INFINITY);
        }
        let left = 1.0 - sample.span_seconds / FORGET_SECONDS;
        let is_fast = self.slowdown(None) < self.slowdown_low(settings);
        let sessions = if is_fast { self.longer_sessions() } else { 0.0 };
        self.fast_sessions = (self.fast_sessions * left).max(sessions);
    }

    fn note_work(&mut self, sample: &LoadSample) {
        let LoadSample { at_seconds, span_seconds, .. } = *sample;
        let (mut work, mut squares) = (0.0, 0.0);
        for (load, class) in sample.classes.iter().zip(&self.classes) {
            let base = class.base_seconds.unwrap_or_default();
            work += load.finished as f64 * base;
            squares += load.finished as f64 * base * base;
        }
        self.work.add(WorkSample { at_seconds, span_seconds, work, squares });
        let sessions: f64 = sample.classes.iter().map(|class| class.sessions).sum();
        self.covariance.add(sessions, work / span_seconds.max(1e-9));
    }

    /// Returns the work that was done recently, in sessions of an idle database: with a slowdown of 2, each session does
    /// half of what it could.
    #[must_use]
    pub fn goodput(&self) -> f64 {
        self.sessions() / self.slowdown(None).max(1.0)
    }

    /// Returns the database sessions of all classes.
    #[must_use]
    pub fn sessions(&self) -> f64 {
        self.classes.iter().map(|class| class.recent.sessions()).sum()
    }

    /// Returns the database sessions of all classes, those that are idle in a transaction included.
    #[must_use]
    pub fn held_sessions(&self) -> f64 {
        self.classes.iter().map(|class| class.recent.held_sessions()).sum()
    }

    /// Returns the recent database sessions of the classes that are managed, or of the others.
    #[must_use]
    pub fn sessions_of(&self, is_managed: bool) -> f64 {
        self.of(is_managed).map(|class| class.recent.sessions()).sum()
    }

    /// Returns the database sessions of the managed classes over the longer time.
    fn longer_sessions(&self) -> f64 {
        self.of(true).map(|class| class.longer.sessions()).sum()
    }

    /// Returns the database sessions that the same classes have in calm times.
    #[must_use]
    pub fn normal_sessions_of(&self, is_managed: bool) -> f64 {
        self.of(is_managed).map(|class| class.normal.sessions()).sum()
    }

    fn of(&self, is_managed: bool) -> impl Iterator<Item = &ClassHistory> {
        let classes = self.classes.iter().zip(&self.is_managed);
        classes.filter(move |(_, managed)| **managed == is_managed).map(|(class, _)| class)
    }

    /// Returns the sign of the covariance of sessions and goodput.
    #[must_use]
    pub fn covariance_sign(&self) -> Sign {
        self.covariance.sign()
    }

    /// Returns the average run time of all classes.
    #[must_use]
    pub fn run_seconds(&self) -> f64 {
        let sums = self.classes.iter().fold((0.0, 0.0), |(run, jobs), class| {
            (run + class.recent.run_seconds, jobs + class.recent.finished)
        });
        sums.0 / sums.1.max(1.0)
    }

    /// Returns the average run time of all classes in calm times; the recent one if there were none.
    #[must_use]
    pub fn normal_run_seconds(&self) -> f64 {
        let sums = self.classes.iter().fold((0.0, 0.0), |(run, jobs), class| {
            (run + class.normal.run_seconds, jobs + class.normal.finished)
        });
        if sums.1 >= 1.0 { sums.0 / sums.1 } else { self.run_seconds() }
    }

    /// Returns the threads that the managed classes keep busy in calm times.
    #[must_use]
    pub fn normal_busy(&self) -> f64 {
        self.of(true)
            .map(|class| class.normal.run_seconds / class.normal.span_seconds.max(1e-9))
            .sum()
    }

    /// Returns the run time of a queue's jobs.
    #[must_use]
    pub fn queue_run_seconds(&self, roster: &Roster, queue: usize) -> f64 {
        let classes =
            self.classes.iter().zip(&roster.classes).filter(|(_, info)| info.queue == queue);
        let sums = classes.fold((0.0, 0.0), |(run, jobs), (class, _)| {
            let both = (class.longer.run_seconds, class.longer.finished);
            let normal = (class.normal.run_seconds * 0.1, class.normal.finished * 0.1);
            (run + both.0 + normal.0, jobs + both.1 + normal.1)
        });
        sums.0 / sums.1.max(1e-3)
    }
}

impl ClassHistory {
    /// Until a class has been seen in calm times, a shorter time in the database than before is the normal one: a system
    /// that was overloaded from the beginning shows its normal time only when it has fewer sessions.
    fn learn_less(&mut self) {
        let Some(seconds) = self.recent.database_seconds() else { return };
        if self.normal.finished >= JOBS_FOR_LESS {
            return;
        }
        let is_certain = self.recent.finished >= JOBS_FOR_LESS;
        match self.base_seconds {
            None => self.base_seconds = Some(seconds),
            Some(base) if is_certain && seconds < LESS * base => {
                self.base_seconds = Some(seconds);
                self.normal = self.recent;
            }
            Some(_) => {}
        }
    }
}

/// Returns whether jobs wait for a connection of the pool.
fn waits_for_connection(sample: &LoadSample) -> bool {
    sample.database.is_some_and(|it| it.waiting_for_connection > 1.0)
}

/// Returns since when something holds.
fn since(before: Option<f64>, holds: bool, sample: &LoadSample) -> Option<f64> {
    holds.then(|| before.unwrap_or(sample.at_seconds))
}
