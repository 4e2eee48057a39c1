//! Decisions, what they were expected to do, and what they did.

use super::{History, Outcome};
use crate::change::{Change, Decision, Measure};
use crate::estimate::Recent;
use crate::settings::Settings;

/// Failures in a row that lengthen the time until a change is tried again: up to 8 times.
const FAILURES_MAX: usize = 4;
/// A value that is higher by less is the same.
const WORSE: f64 = 1.05;
/// Judged decisions that are stored.
const JUDGED_MAX: usize = 1_000;
/// The work of a change counts from so long after it.
const SETTLED_SECONDS: f64 = 5.0;
/// The work before a change is that of so long at least, and at most.
const BEFORE_SECONDS: (f64, f64) = (15.0, 60.0);
/// The work after a change must be known with this relative standard error ..
const WORK_ERROR: f64 = 0.08;
/// .. unless this many times the time until it is judged have passed.
const JUDGED_AT_LAST: f64 = 3.0;

impl History {
    /// Notes a decision that was carried out.
    pub fn note(&mut self, decision: Decision) {
        self.failed = None;
        if matches!(decision.change, Change::Threads { .. }) {
            self.classes.iter_mut().for_each(|class| class.longer = Recent::default());
        }
        if decision.forecast.is_some() {
            // The outcome of the decision before will never be known, but what it did counts.
            if let Some(replaced) = self.pending.replace(decision) {
                self.remember(replaced, Outcome::Unclear);
            }
        }
    }

    fn remember(&mut self, decision: Decision, outcome: Outcome) {
        self.judged.push_back((decision, outcome));
        if self.judged.len() > JUDGED_MAX {
            self.judged.pop_front();
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
            Measure::Goodput => match self.pending.as_ref().or(self.failed.as_ref()) {
                Some(decision) => self.work_after(decision).0,
                None => self.work_before(),
            },
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

    /// Returns the work per second before a change that is decided now: since the last change, but of a minute at most.
    fn work_before(&self) -> f64 {
        let now = self.last.as_ref().map_or(0.0, |it| it.at_seconds);
        let changed = self.judged.back().map_or(f64::NEG_INFINITY, |(it, _)| it.at_seconds);
        let since =
            (changed + SETTLED_SECONDS).max(now - BEFORE_SECONDS.1).min(now - BEFORE_SECONDS.0);
        self.work.since(since).0
    }

    /// Returns the work per second since a change, and its relative standard error.
    fn work_after(&self, decision: &Decision) -> (f64, f64) {
        self.work.since(decision.at_seconds + SETTLED_SECONDS)
    }

    /// Returns whether the outcome of a change can be told.
    fn can_be_judged(&self, decision: &Decision, now_seconds: f64) -> bool {
        let Some(forecast) = decision.forecast else { return true };
        let age = now_seconds - decision.at_seconds;
        if age < forecast.within_seconds {
            return false;
        }
        let Change::Threads { to, .. } = decision.change else { return true };
        // Jobs that are too many may still be running.
        let is_effective = self.last.as_ref().is_none_or(|it| it.threads.busy <= to);
        let is_certain = self.work_after(decision).1 <= WORK_ERROR;
        (is_effective && is_certain) || age >= JUDGED_AT_LAST * forecast.within_seconds
    }

    pub(super) fn judge(&mut self, now_seconds: f64, settings: &Settings) {
        let Some(decision) = self.pending.take() else { return };
        if !self.can_be_judged(&decision, now_seconds) {
            self.pending = Some(decision);
            return;
        }
        if decision.forecast.is_none() {
            return;
        }
        let outcome = self.outcome(&decision, settings);
        if outcome == Outcome::DidNotHelp {
            self.failed = Some(decision.clone());
        }
        self.remember(decision, outcome);
    }

    fn outcome(&self, decision: &Decision, settings: &Settings) -> Outcome {
        let Some(forecast) = decision.forecast else { return Outcome::Unclear };
        let now = match forecast.measure {
            Measure::Goodput => self.work_after(decision).0,
            measure => self.value(measure),
        };
        match &decision.change {
            Change::Threads { from, to } if to > from => {
                // New processes may still be starting, or the backlog may be gone.
                let middle = u32::midpoint(*from, *to);
                let is_used = self.last.as_ref().is_some_and(|it| it.threads.busy >= middle);
                let gain = settings.gain_least * (forecast.expected - forecast.before);
                // While queries are fast, chance hides the gain at most.
                let is_fast = !self.is_slow(None, settings);
                match now {
                    _ if !is_used => Outcome::Unclear,
                    now if is_fast || now >= forecast.before + gain => Outcome::Helped,
                    _ => Outcome::DidNotHelp,
                }
            }
            Change::Threads { .. } => {
                let is_kept = now >= forecast.before * (1.0 - settings.loss_most);
                // A database that is still saturated does not do less because it has fewer sessions.
                let is_saturated = self.slowdown(None) >= settings.slowdown_saturated;
                if is_kept || is_saturated { Outcome::Helped } else { Outcome::DidNotHelp }
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

    /// Returns the number of threads that were too many most recently, within some time: before a reduction that was not
    /// taken back, or after an increase that was.
    #[must_use]
    pub fn too_many_threads(&self, now_seconds: f64, within_seconds: f64) -> Option<u32> {
        let recent = self.judged.iter().rev();
        let mut recent = recent.take_while(|(it, _)| now_seconds - it.at_seconds < within_seconds);
        recent.find_map(|(decision, outcome)| match (&decision.change, outcome) {
            (Change::Threads { from, to }, Outcome::Helped | Outcome::Unclear) if to < from => {
                Some(*from)
            }
            (Change::Threads { from, to }, Outcome::DidNotHelp) if to > from => Some(*to),
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

    /// Returns whether a class is limited only because it fills a queue.
    #[must_use]
    pub fn is_flood_limit(&self, class: usize) -> bool {
        let decisions = self.judged.iter().map(|(decision, _)| decision).chain(&self.pending);
        let is_cut = |decision: &&Decision| match decision.change {
            Change::Cap { class: it, from, to: Some(to) } => {
                it == class && from.is_none_or(|from| to < from)
            }
            _ => false,
        };
        let last = decisions.rev().find(is_cut).and_then(|it| it.forecast);
        last.is_some_and(|it| matches!(it.measure, Measure::WaitingBeside(_)))
    }

    /// Returns the limit under which a class' jobs made others wait for locks, when it was last lowered for that, unless
    /// that is longer ago than `within_seconds`.
    #[must_use]
    pub fn lock_limit(&self, class: usize, now_seconds: f64, within_seconds: f64) -> Option<u32> {
        let decisions = self.judged.iter().map(|(decision, _)| decision).chain(&self.pending).rev();
        let mut recent = decisions.take_while(|it| now_seconds - it.at_seconds < within_seconds);
        recent.find_map(|decision| match (&decision.change, decision.forecast?.measure) {
            (Change::Cap { class: it, from, to: Some(to) }, Measure::BlockedBy(_))
                if *it == class && from.is_some_and(|from| *to < from) =>
            {
                *from
            }
            _ => None,
        })
    }

    /// Returns how often a class was limited for its locks since a time.
    #[must_use]
    pub fn lock_limits(&self, class: usize, since_seconds: f64) -> usize {
        let decisions = self.judged.iter().map(|(decision, _)| decision).chain(&self.pending);
        let recent = decisions.filter(|decision| decision.at_seconds >= since_seconds);
        let is_of_locks = |it: &&Decision| {
            it.forecast.is_some_and(|forecast| forecast.measure == Measure::BlockedBy(class))
        };
        recent.filter(is_of_locks).count()
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
