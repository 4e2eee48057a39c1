//! What the rules read.

use crate::change::{Change, Decision, Forecast, Measure};
use crate::controls::Controls;
use crate::history::History;
use crate::load::{LoadSample, Roster};
use crate::settings::Settings;

/// What a decision is based on, besides the history.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    /// The time, on the clock of the samples.
    pub now_seconds: f64,
    /// Queues and classes.
    pub roster: &'a Roster,
    /// What is in force.
    pub controls: &'a Controls,
    /// Threads of the static plan.
    pub static_threads: u32,
    /// The numbers of threads that can be carried out, ascending, if not all can: several processes have equally many.
    pub thread_steps: &'a [u32],
}

/// What the rules read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'a> {
    pub(super) state: &'a State<'a>,
    pub(super) settings: &'a Settings,
    pub(super) history: &'a History,
    pub(super) sample: &'a LoadSample,
}

impl State<'_> {
    /// Returns the number of threads to carry out instead of `to`: one that can be, and not beyond it if possible.
    pub(super) fn step_to(&self, from: u32, to: u32) -> u32 {
        let steps = self.thread_steps;
        let at = steps.partition_point(|step| *step < to);
        let found = match steps.get(at) {
            Some(step) if *step == to || to > from => Some(step),
            // The one below, or the fewest.
            _ => steps.get(at.saturating_sub(1)),
        };
        found.copied().unwrap_or(to)
    }
}

impl Context<'_> {
    /// Returns whether a decision changes something that is not an operator's to decide.
    pub(super) fn is_permitted(&self, decision: &Decision) -> bool {
        let controls = self.state.controls;
        let mut changed = controls.clone();
        decision.change.apply(&mut changed);
        let is_overridden =
            controls.is_overridden(decision.change.target(), self.state.now_seconds);
        !is_overridden && changed != *controls
    }

    /// Returns whether a decision may be carried out although the outcome of another one is awaited: only if it is more
    /// urgent.
    pub(super) fn is_next(&self, decision: &Decision) -> bool {
        let Some(pending) = &self.history.pending else { return true };
        let rank = |change: &Change| match change {
            Change::Cap { .. } => 2,
            Change::Threads { .. } => 1,
            Change::Allocation { .. } | Change::FreshLane { .. } => 0,
        };
        rank(&decision.change) > rank(&pending.change)
    }

    pub(super) fn decision(
        &self,
        change: Change,
        reason: String,
        forecast: Option<Forecast>,
    ) -> Decision {
        Decision { at_seconds: self.state.now_seconds, change, reason, forecast }
    }

    pub(super) fn forecast(&self, measure: Measure, expected: f64) -> Option<Forecast> {
        let (least, most) = self.settings.judged_after_seconds;
        let within_seconds = (2.0 * self.history.run_seconds()).clamp(least, most);
        Some(Forecast { measure, before: self.history.value(measure), expected, within_seconds })
    }

    pub(super) fn queue_name(&self, queue: usize) -> &str {
        self.state.roster.queues.get(queue).map_or("?", |it| it.name.as_str())
    }

    pub(super) fn class_name(&self, class: usize) -> &str {
        self.state.roster.classes.get(class).map_or("?", |it| it.name.as_str())
    }

    /// Returns whether the rules may limit a class.
    pub(super) fn can_be_limited(&self, class: usize) -> bool {
        let class = self.state.roster.classes.get(class).filter(|it| it.can_be_limited);
        let queue = class.and_then(|class| self.state.roster.queues.get(class.queue));
        queue.is_some_and(|it| it.is_managed)
    }

    pub(super) fn measure_name(&self, measure: Measure) -> String {
        match measure {
            Measure::Goodput => "the work done, in sessions,".to_owned(),
            Measure::Slowdown => "the database time, in its normal value,".to_owned(),
            Measure::SlowdownWithout(class) => {
                format!(
                    "the database time of all but {}, in its normal value,",
                    self.class_name(class)
                )
            }
            Measure::BlockedBy(class) => {
                format!("the number of sessions that wait for {}", self.class_name(class))
            }
            Measure::WaitingBeside(class) => {
                format!("the number of jobs that wait beside {}", self.class_name(class))
            }
            Measure::QueueAge(queue) => {
                format!("the latency of {}, in seconds,", self.queue_name(queue))
            }
        }
    }

    /// Returns whether jobs wait that more threads could run.
    pub(super) fn is_backlogged(&self) -> bool {
        let mut queues = self.sample.queues.iter().zip(&self.state.roster.queues);
        queues.any(|(queue, info)| {
            info.is_managed
                && queue.waiting > 0
                && queue.oldest_age_seconds > 0.2 * info.target_seconds
        })
    }

    /// Returns whether a queue has a job that is past its target.
    pub(super) fn is_late(&self, queue: usize) -> bool {
        let target =
            self.state.roster.queues.get(queue).map_or(f64::INFINITY, |it| it.target_seconds);
        self.sample.queues.get(queue).is_some_and(|it| it.oldest_age_seconds > target)
    }
}

/// Converts a positive number of threads.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "limited to the numbers of 32 bits, and not negative"
)]
pub(super) fn threads(number: f64) -> u32 {
    number.round().clamp(0.0, f64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Roster;

    #[test]
    fn threads_change_in_the_steps_that_can_be_carried_out() {
        let (roster, controls) = (Roster::default(), Controls::default());
        let to = |from, to, thread_steps: &[u32]| {
            let state = State {
                now_seconds: 0.0,
                roster: &roster,
                controls: &controls,
                static_threads: 20,
                thread_steps,
            };
            state.step_to(from, to)
        };
        let steps = [4, 8, 12, 16, 20];
        for (from, wanted, expected) in
            [(20, 12, 12), (20, 11, 8), (20, 1, 4), (8, 9, 12), (16, 17, 20), (4, 8, 8)]
        {
            assert_eq!(to(from, wanted, &steps), expected, "{from} to {wanted}");
        }
        assert_eq!(to(20, 11, &[]), 11);
    }
}
