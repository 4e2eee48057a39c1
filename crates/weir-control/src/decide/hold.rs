//! Without fresh data: nothing changes for some time, then the static plan returns step by step.

use super::context::{Context, threads};
use crate::change::{Change, Decision};

pub(super) fn decide(context: &Context<'_>) -> Option<Decision> {
    let age = context.history.age_seconds(context.state.now_seconds);
    if age < context.settings.hold_for_seconds {
        return None;
    }
    let change = step(context)?;
    let reason = format!("returned a step towards the static plan: no data for {age:.0} s");
    Some(context.decision(change, reason, None))
}

/// Limits of classes grow twofold and then end, the number of threads moves by half of the difference, and the
/// reservations end last.
fn step(context: &Context<'_>) -> Option<Change> {
    let controls = context.state.controls;
    let plan = context.state.static_threads;
    if let Some((class, cap)) = controls.caps.iter().next() {
        let to = (*cap < plan).then(|| cap.saturating_mul(2).max(1));
        return Some(Change::Cap { class: *class, from: Some(*cap), to });
    }
    let from = controls.threads.unwrap_or(plan);
    if from != plan {
        let middle = threads(f64::midpoint(f64::from(from), f64::from(plan)));
        let to = if middle.abs_diff(plan) <= 1 || middle == from { plan } else { middle };
        return Some(Change::Threads { from, to });
    }
    let from = controls.allocation.clone()?;
    Some(Change::Allocation { from: Some(from), to: None })
}
