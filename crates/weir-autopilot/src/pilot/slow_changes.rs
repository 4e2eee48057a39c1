//! Changes that take a while, because they replace processes: one at a time, not too often, and judged once they are in
//! effect.

use weir_control::{Change, Decision, blame};

use super::Autopilot;
use super::begin::what;
use crate::journal::EntryKind;
use crate::mode::{JobSystem, Mode};
use crate::sources::ChangeProgress;

/// Where a change of threads replaces every process, a change by less than this share is not worth it.
const CHANGE_SHARE_MIN: f64 = 0.25;

impl Autopilot {
    /// Lets the time of the awaited outcome begin when all processes are replaced.
    pub(super) fn note_change_over(&mut self) {
        let progress = match &mut self.actuator {
            Ok(actuator) if self.mode == Mode::On => actuator.progress(),
            _ => ChangeProgress::Done,
        };
        let now_seconds = self.now_seconds();
        let is_under_way = progress == ChangeProgress::UnderWay;
        self.change_over.note(is_under_way, now_seconds);
        if is_under_way {
            let pending = self.history.pending.as_ref().map(|it| it.at_seconds);
            if let Some((_, awaited)) = &mut self.awaited
                && pending == Some(awaited.at_seconds)
            {
                awaited.at_seconds = now_seconds;
                self.history.restart_pending(now_seconds);
            }
        }
        let failed = match progress {
            ChangeProgress::Failed(reason) => Some(reason),
            _ => None,
        };
        if failed != self.change_over.failed {
            if let Some(reason) = &failed {
                self.note(EntryKind::Failure, format!("the threads were not changed: {reason}"));
            }
            self.change_over.failed = failed;
        }
    }

    /// Returns whether a decision may be carried out now: where a change replaces processes, only after the last one, and
    /// only if it is worth it.
    pub(super) fn may_change_now(&self, decision: &Decision) -> bool {
        if self.system == JobSystem::Sidekiq && self.is_small(&decision.change) {
            return false;
        }
        // A class is limited at once; a higher limit is another process.
        let is_of_processes = match decision.change {
            Change::Threads { .. } => true,
            Change::Cap { from, to, .. } => from.is_some() && to.is_some() && from < to,
            Change::Allocation { .. } | Change::FreshLane { .. } => false,
        };
        let is_slow = self.system == JobSystem::Sidekiq && self.mode == Mode::On && is_of_processes;
        let interval_seconds = self.settings.change_interval.as_secs_f64();
        !is_slow || self.change_over.may_begin(self.now_seconds(), interval_seconds)
    }

    /// The static plan returns in any case.
    fn is_small(&self, change: &Change) -> bool {
        match *change {
            Change::Threads { from, to } if to < self.sampler.workers() => {
                f64::from(from.abs_diff(to)) < CHANGE_SHARE_MIN * f64::from(from)
            }
            _ => false,
        }
    }

    /// Notes which classes can be limited now, and what is wrong with the limits in force.
    pub(super) fn note_class_limits(&mut self) {
        if self.system.limits_classes() {
            return;
        }
        let acts = self.mode == Mode::On;
        match &mut self.actuator {
            Ok(actuator) => {
                let can_limit = |class: &str| actuator.can_limit(class, acts).is_ok();
                self.sampler.roster.set_limitable(can_limit);
            }
            Err(_) => self.sampler.roster.set_limitable(|_| false),
        }
        let problem = self.actuator.as_mut().ok().and_then(|actuator| actuator.class_problem());
        if problem != self.class_problem {
            if let Some(problem) = &problem {
                self.note(EntryKind::Failure, format!("the limit of a job type: {problem}"));
            }
            self.class_problem = problem;
        }
    }

    /// Names the class that alone slows the others down, where only an operator can do something about it.
    pub(super) fn advise_by_hand(&mut self) {
        if self.system.limits_classes() {
            return;
        }
        let blamed = self.with_state(|state| blame(state, &self.rules, &self.history));
        let Some(decision) = blamed else { return };
        let Change::Cap { class, .. } = decision.change else { return };
        let roster = &self.sampler.roster;
        let name = roster.class_name(class);
        // Not what stands for several classes, or for sessions of others.
        if roster.find_class(name).is_none() {
            return;
        }
        let why = match &mut self.actuator {
            Ok(actuator) => actuator.can_limit(name, false).err(),
            Err(_) => None,
        };
        let why = why.map(|why| format!(". The autopilot can't do that here: {why}"));
        let reason = format!(
            "{}; {} has no limit for a job type: give {name} a queue and a process of its own, or pause its queue{}",
            decision.reason,
            self.system.name(),
            why.unwrap_or_default()
        );
        self.advise(&Decision { reason, forecast: None, ..decision });
    }

    /// Ends a limit of threads that limits nothing any more: the settings have changed, or an operator has set the threads.
    pub(super) async fn end_limit_of_nothing(&mut self) {
        let is_by_hand = self.in_force.overrides.iter().any(|it| it.class.is_none());
        let plan = self.sampler.workers();
        let is_needless = self.in_force.controls.threads.is_some_and(|threads| threads >= plan);
        if self.system == JobSystem::JobServer || is_by_hand || !is_needless || !self.has_plan {
            return;
        }
        self.in_force.set_limit(None, None, self.now());
        let _ = self.apply().await;
        // There is nothing left to judge, or to take back.
        (self.history.pending, self.history.failed) = (None, None);
        let text = format!(
            "ended the limit for {}: without it there are {plan} threads, because the settings have changed or an operator \
             has set them",
            what(&None)
        );
        self.note(EntryKind::End, text);
        self.save_or_log();
    }
}
