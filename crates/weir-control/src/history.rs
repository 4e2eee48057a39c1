//! Recent samples, the estimates from them, and the outcomes of decisions.

use std::collections::VecDeque;

use serde::Serialize;

use crate::change::{Change, Decision, Measure};
use crate::estimate::{Covariance, Recent, Sign};
use crate::load::{LoadSample, Roster};
use crate::settings::Settings;

/// Judged decisions that are stored.
const JUDGED_MAX: usize = 1_000;
/// A lower database time is believed at once, if so many jobs show it ..
const JOBS_FOR_LESS: f64 = 50.0;
/// .. and it is less than this share of the normal one: the average of 50 exponential times is 1 ± 0.14.
const LESS: f64 = 0.6;

/// The slowdown is the cost up to which this share of the work is.
const SLOWED_SHARE: f64 = 1.0 / 3.0;
/// What the database has served at full speed counts for about this long.
const FORGET_SECONDS: f64 = 36_000.0;
/// Failures in a row that lengthen the time until a change is tried again: up to 8 times.
const FAILURES_MAX: usize = 4;
/// A value that is higher by less is the same.
const WORSE: f64 = 1.05;

/// What is known of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassHistory {
    /// Recent values.
    pub recent: Recent,
    /// Values of calm times.
    pub normal: Recent,
    /// Seconds in the database of a job in calm times.
    pub base_seconds: Option<f64>,
}

impl ClassHistory {
    /// Returns how many times longer than in calm times a job is in the database.
    #[must_use]
    pub fn cost(&self) -> Option<f64> {
        Some(self.recent.database_seconds()? / self.base_seconds.filter(|base| *base > 1e-6)?)
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
        for (class, load) in self.classes.iter_mut().zip(&sample.classes) {
            let new = Recent {
                session_seconds: load.sessions * span_seconds,
                finished: load.finished as f64,
                run_seconds: load.run_seconds,
                span_seconds,
                ..Recent::default()
            };
            class.recent.add(new, settings.recent_seconds);
            class.learn_less();
        }
        let is_calm = self.is_calm(&sample, roster, settings);
        // Values from just below the limit are not learnt: the next limit would be higher.
        let is_normal = is_calm && self.slowdown(None) < self.slowdown_low(settings);
        self.calm_since_seconds =
            if is_calm { self.calm_since_seconds.or(Some(sample.at_seconds)) } else { None };
        if is_normal {
            self.learn(&sample, settings);
            let left = 1.0 - span_seconds / FORGET_SECONDS;
            self.fast_sessions = (self.fast_sessions * left).max(self.sessions_of(true));
        }
        let sessions: f64 = sample.classes.iter().map(|class| class.sessions).sum();
        let work = sample.classes.iter().zip(&self.classes);
        let work: f64 =
            work.map(|(load, it)| load.finished as f64 * it.base_seconds.unwrap_or(0.0)).sum();
        self.covariance.add(sessions, work / span_seconds.max(1e-9));
        let at_seconds = sample.at_seconds;
        self.last = Some(sample);
        self.judge(at_seconds, settings);
    }

    /// Returns whether nothing is wrong: the values of this time are normal.
    fn is_calm(&self, sample: &LoadSample, roster: &Roster, settings: &Settings) -> bool {
        let mut queues = sample.queues.iter().zip(&roster.queues);
        let is_late = queues.any(|(queue, info)| queue.oldest_age_seconds > info.target_seconds);
        let is_blocked = sample.database.is_some_and(|it| it.waiting_for_connection > 1.0);
        !is_late && !is_blocked && self.slowdown(None) < self.slowdown_high(settings)
    }

    fn learn(&mut self, sample: &LoadSample, settings: &Settings) {
        for (class, load) in self.classes.iter_mut().zip(&sample.classes) {
            let new = Recent {
                session_seconds: load.sessions * sample.span_seconds,
                finished: load.finished as f64,
                run_seconds: load.run_seconds,
                span_seconds: sample.span_seconds,
                ..Recent::default()
            };
            class.normal.add(new, settings.normal_seconds);
            class.base_seconds = class.normal.database_seconds().or(class.base_seconds);
        }
    }

    /// Returns how many times longer than in calm times the jobs of all classes are in the database, without one class;
    /// 1 if unknown. A slow database slows all classes down, so this is the cost that two thirds of the work exceed:
    /// classes whose own work has grown do not count.
    #[must_use]
    pub fn slowdown(&self, without: Option<usize>) -> f64 {
        let others = self.classes.iter().enumerate().filter(|(index, _)| Some(*index) != without);
        let mut costs: Vec<(f64, f64)> = others
            .filter_map(|(_, class)| Some((class.cost()?, class.normal.sessions())))
            .collect();
        costs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut left = SLOWED_SHARE * costs.iter().map(|(_, work)| work).sum::<f64>();
        let exceeded = costs.iter().find(|(_, work)| {
            left -= work;
            left <= 0.0
        });
        exceeded.map_or(1.0, |(cost, _)| *cost)
    }

    /// Returns the slowdown from which the database has too many sessions.
    #[must_use]
    pub fn slowdown_high(&self, settings: &Settings) -> f64 {
        let high = settings.slowdown_high + settings.slowdown_errors.0 * self.standard_error();
        high.min(settings.slowdown_most.0)
    }

    /// Returns the slowdown below which the database has room for more sessions.
    #[must_use]
    pub fn slowdown_low(&self, settings: &Settings) -> f64 {
        let low = settings.slowdown_low + settings.slowdown_errors.1 * self.standard_error();
        low.min(settings.slowdown_most.1)
    }

    /// Returns the standard error of the slowdown: run times are about exponential.
    fn standard_error(&self) -> f64 {
        let jobs: f64 = self.classes.iter().map(|class| class.recent.finished).sum();
        1.0 / jobs.max(1.0).sqrt()
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

    /// Returns the recent database sessions of the classes that are managed, or of the others.
    #[must_use]
    pub fn sessions_of(&self, is_managed: bool) -> f64 {
        self.of(is_managed).map(|class| class.recent.sessions()).sum()
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

    /// Returns the run time of a queue's jobs.
    #[must_use]
    pub fn queue_run_seconds(&self, roster: &Roster, queue: usize) -> f64 {
        let classes =
            self.classes.iter().zip(&roster.classes).filter(|(_, info)| info.queue == queue);
        let sums = classes.fold((0.0, 0.0), |(run, jobs), (class, _)| {
            let both = (class.recent.run_seconds, class.recent.finished);
            let normal = (class.normal.run_seconds * 0.1, class.normal.finished * 0.1);
            (run + both.0 + normal.0, jobs + both.1 + normal.1)
        });
        sums.0 / sums.1.max(1e-3)
    }

    /// Notes a decision that was carried out.
    pub fn note(&mut self, decision: Decision) {
        self.failed = None;
        if decision.forecast.is_some() {
            self.pending = Some(decision);
        }
    }

    /// Lets the time of the pending decision begin now: what it changes takes effect only from now on.
    pub fn restart_pending(&mut self, now_seconds: f64) {
        if let Some(pending) = &mut self.pending {
            pending.at_seconds = now_seconds;
        }
    }

    /// Returns the value that a forecast is about.
    #[must_use]
    pub fn value(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Goodput => self.goodput(),
            Measure::Slowdown => self.slowdown(None),
            Measure::SlowdownWithout(class) => self.slowdown(Some(class)),
            Measure::BlockedBy(class) => {
                let class = self.last.as_ref().and_then(|sample| sample.classes.get(class));
                class.map_or(0.0, |class| class.blocks)
            }
            Measure::WaitingBeside(class) => {
                let classes = self.last.iter().flat_map(|sample| sample.classes.iter().enumerate());
                let others = classes.filter(|(index, _)| *index != class);
                others.map(|(_, load)| load.waiting as f64).sum()
            }
            Measure::QueueAge(queue) => {
                let queue = self.last.as_ref().and_then(|sample| sample.queues.get(queue));
                queue.map_or(0.0, |queue| queue.oldest_age_seconds)
            }
        }
    }

    fn judge(&mut self, now_seconds: f64, settings: &Settings) {
        let Some(decision) = self.pending.take() else { return };
        let Some(forecast) = decision.forecast else { return };
        if now_seconds < decision.at_seconds + forecast.within_seconds {
            self.pending = Some(decision);
            return;
        }
        let outcome = self.outcome(&decision, settings);
        if outcome == Outcome::DidNotHelp {
            self.failed = Some(decision.clone());
        }
        self.judged.push_back((decision, outcome));
        if self.judged.len() > JUDGED_MAX {
            self.judged.pop_front();
        }
    }

    fn outcome(&self, decision: &Decision, settings: &Settings) -> Outcome {
        let Some(forecast) = decision.forecast else { return Outcome::Unclear };
        let now = self.value(forecast.measure);
        match &decision.change {
            Change::Threads { from, to } if to > from => {
                // New processes may still be starting, or the backlog may be gone.
                let middle = u32::midpoint(*from, *to);
                let is_used = self.last.as_ref().is_some_and(|it| it.threads.busy >= middle);
                let gain = settings.gain_least * (forecast.expected - forecast.before);
                // While queries are fast, chance hides the gain at most.
                let is_fast = self.slowdown(None) <= self.slowdown_low(settings);
                match now {
                    _ if !is_used => Outcome::Unclear,
                    now if is_fast || now >= forecast.before + gain => Outcome::Helped,
                    _ => Outcome::DidNotHelp,
                }
            }
            Change::Threads { .. } => {
                let is_lower = now >= forecast.before * (1.0 - settings.loss_most);
                if is_lower { Outcome::Helped } else { Outcome::DidNotHelp }
            }
            Change::Cap { class, to, .. } => {
                let load = self.last.as_ref().and_then(|it| it.classes.get(*class));
                // Jobs that began before the limit may still be running.
                let is_effective = load.zip(*to).is_none_or(|(load, cap)| load.in_flight <= cap);
                // Whether others wait depends on the other queues as well.
                let is_telling = !matches!(forecast.measure, Measure::WaitingBeside(_));
                match now <= forecast.before.max(forecast.expected) * WORSE {
                    true => Outcome::Helped,
                    false if is_effective && is_telling => Outcome::DidNotHelp,
                    false => Outcome::Unclear,
                }
            }
            Change::Allocation { .. } | Change::FreshLane { .. } => {
                if now <= forecast.before.max(forecast.expected) {
                    Outcome::Helped
                } else {
                    Outcome::Unclear
                }
            }
        }
    }

    /// Returns whether a change of this kind did not help recently. Each failure in a row doubles the time.
    #[must_use]
    pub fn is_refused(
        &self,
        now_seconds: f64,
        settings: &Settings,
        like: impl Fn(&Change) -> bool,
    ) -> bool {
        let similar = self.judged.iter().rev().filter(|(decision, _)| like(&decision.change));
        let mut failures =
            similar.take_while(|(_, outcome)| *outcome == Outcome::DidNotHelp).take(FAILURES_MAX);
        let Some((last, _)) = failures.next() else { return false };
        let more = i32::try_from(failures.count()).unwrap_or_default();
        let refused_for = settings.refused_for_seconds * 2_f64.powi(more);
        now_seconds - last.at_seconds < refused_for
    }

    /// Returns the number of threads that were too many most recently, within some time.
    #[must_use]
    pub fn too_many_threads(&self, now_seconds: f64, within_seconds: f64) -> Option<u32> {
        let recent = self.judged.iter().rev();
        let mut recent = recent.take_while(|(it, _)| now_seconds - it.at_seconds < within_seconds);
        recent.find_map(|(decision, outcome)| match decision.change {
            Change::Threads { from, to } if to < from && *outcome == Outcome::Helped => Some(from),
            _ => None,
        })
    }

    /// Returns the most work that was done before the reductions that led to this number of threads, since a time; 0
    /// without any.
    #[must_use]
    pub fn work_before_reductions(&self, threads: u32, since_seconds: f64) -> f64 {
        let recent = self.judged.iter().rev().filter(|(it, _)| it.at_seconds >= since_seconds);
        let (mut reached, mut work) = (threads, 0.0_f64);
        for (decision, outcome) in recent {
            match (&decision.change, decision.forecast) {
                (Change::Threads { from, to }, Some(forecast))
                    if to < from && *to == reached && *outcome == Outcome::Helped =>
                {
                    reached = *from;
                    work = work.max(forecast.before);
                }
                (Change::Threads { .. }, _) => break,
                _ => {}
            }
        }
        work
    }

    /// Returns the age of the last sample; infinite without any.
    #[must_use]
    pub fn age_seconds(&self, now_seconds: f64) -> f64 {
        self.last.as_ref().map_or(f64::INFINITY, |it| now_seconds - it.at_seconds)
    }

    /// Returns how often a class was paused since a time.
    #[must_use]
    pub fn pauses(&self, class: usize, since_seconds: f64) -> usize {
        let judged = self.judged.iter().map(|(decision, _)| decision).chain(&self.pending);
        let recent = judged.filter(|decision| decision.at_seconds >= since_seconds);
        let is_pause = |change: &Change| matches!(change, Change::Cap { class: it, to: Some(0), .. } if *it == class);
        recent.filter(|decision| is_pause(&decision.change)).count()
    }

    /// Returns the last time that a class' limit was changed.
    #[must_use]
    pub fn cap_changed_seconds(&self, class: usize) -> Option<f64> {
        let of_class = |(decision, _): &&(Decision, Outcome)| matches!(decision.change, Change::Cap { class: it, .. } if it == class);
        let judged = self.judged.iter().rev().find(of_class).map(|(it, _)| it.at_seconds);
        let pending = self
            .pending
            .as_ref()
            .filter(|it| matches!(it.change, Change::Cap { class: it, .. } if it == class));
        pending.map(|it| it.at_seconds).or(judged)
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
