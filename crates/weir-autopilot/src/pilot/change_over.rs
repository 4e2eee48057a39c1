//! Changes that take a while, because they replace processes: one at a time, not too often, and judged once they are in
//! effect.

use weir_control::{Change, Decision};

use super::Autopilot;
use super::begin::what;
use crate::journal::EntryKind;
use crate::mode::{JobSystem, Mode};
use crate::sources::ChangeProgress;

/// The last change of threads.
#[derive(Debug, Default)]
pub(super) struct ChangeOver {
    /// When it began, or was still under way.
    last_seconds: Option<f64>,
    is_under_way: bool,
    /// Why it has stopped half-way, as the journal has it.
    failed: Option<String>,
}

impl ChangeOver {
    pub(super) fn begin(&mut self, change: &Change, now_seconds: f64) {
        if matches!(change, Change::Threads { .. }) {
            self.last_seconds = Some(now_seconds);
        }
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    /// Returns whether the next change may begin, `interval_seconds` after this one has ended.
    fn may_begin(&self, now_seconds: f64, interval_seconds: f64) -> bool {
        let is_over = |last: f64| now_seconds - last >= interval_seconds;
        !self.is_under_way && self.last_seconds.is_none_or(is_over)
    }
}

impl Autopilot {
    /// Lets the time of the awaited outcome begin when all processes are replaced.
    pub(super) fn note_change_over(&mut self) {
        let progress = match &mut self.actuator {
            Ok(actuator) if self.mode == Mode::On => actuator.progress(),
            _ => ChangeProgress::Done,
        };
        let now_seconds = self.now_seconds();
        let is_under_way = progress == ChangeProgress::UnderWay;
        self.change_over.is_under_way = is_under_way;
        if is_under_way {
            self.change_over.last_seconds = Some(now_seconds);
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

    /// Returns whether a decision may be carried out now: where a change replaces processes, only after the last one.
    pub(super) fn may_change_now(&self, decision: &Decision) -> bool {
        let is_slow = self.system == JobSystem::Sidekiq
            && self.mode == Mode::On
            && matches!(decision.change, Change::Threads { .. });
        let interval_seconds = self.settings.change_interval.as_secs_f64();
        !is_slow || self.change_over.may_begin(self.now_seconds(), interval_seconds)
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
        let text = format!(
            "ended the limit for {}: without it there are {plan} threads, because the settings have changed or an operator \
             has set them",
            what(&None)
        );
        self.note(EntryKind::End, text);
        self.save_or_log();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_change_waits_for_the_end_of_this_one_and_then_for_the_interval() {
        let mut change_over = ChangeOver::default();
        assert!(change_over.may_begin(0.0, 60.0));
        change_over.begin(&Change::Threads { from: 20, to: 10 }, 5.0);
        assert!(!change_over.may_begin(64.0, 60.0) && change_over.may_begin(65.0, 60.0));
        (change_over.is_under_way, change_over.last_seconds) = (true, Some(100.0));
        assert!(!change_over.may_begin(1_000.0, 60.0));
        change_over.is_under_way = false;
        assert!(!change_over.may_begin(159.0, 60.0) && change_over.may_begin(160.0, 60.0));
    }
}
