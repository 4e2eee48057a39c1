//! Without fresh data, or without the right to decide: nothing changes for some time, then the static plan returns step by
//! step.

use super::context::{Context, State, threads};
use crate::change::{Change, Decision};
use crate::controls::OverrideTarget;

pub(super) fn decide(context: &Context<'_>) -> Option<Decision> {
    let age = context.history.age_seconds(context.state.now_seconds);
    if age < context.settings.hold_for_seconds {
        return None;
    }
    step_back(context.state, &format!("no data for {age:.0} s"))
}

/// Returns the next step back to the static plan, which needs no data: `because` says why. `None`: there is nothing left
/// but what operators have set.
#[must_use]
pub fn step_back(state: &State<'_>, because: &str) -> Option<Decision> {
    let reason = format!("returned a step towards the static plan: {because}");
    let at_seconds = state.now_seconds;
    Some(Decision { at_seconds, change: step(state)?, reason, forecast: None })
}

/// Limits of classes grow twofold and then end, the number of threads moves by half of the difference, and the
/// reservations end last.
fn step(state: &State<'_>) -> Option<Change> {
    let (controls, plan) = (state.controls, state.static_threads);
    let is_free = |target| !controls.is_overridden(target, state.now_seconds);
    let mut caps = controls.caps.iter();
    if let Some((class, cap)) = caps.find(|(class, _)| is_free(OverrideTarget::Class(**class))) {
        let to = (*cap < plan).then(|| cap.saturating_mul(2).max(1));
        return Some(Change::Cap { class: *class, from: Some(*cap), to });
    }
    let from = controls.threads.unwrap_or(plan);
    if from != plan && is_free(OverrideTarget::Threads) {
        let middle = threads(f64::midpoint(f64::from(from), f64::from(plan)));
        let to = if middle.abs_diff(plan) <= 1 || middle == from { plan } else { middle };
        let to = state.step_to(from, to);
        return Some(Change::Threads { from, to });
    }
    let from = controls.allocation.clone().filter(|_| is_free(OverrideTarget::Allocation))?;
    Some(Change::Allocation { from: Some(from), to: None })
}
