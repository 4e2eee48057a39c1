//! The rules, in their order. Each returns at most one change; the first that does is the decision.
//!
//! 1. Without fresh data, hold, then return to the static plan step by step.
//! 2. Wait for the outcome of the last change. Take it back if it did not help.
//! 3. Limit the class that alone slows the others down ([`culprit`]).
//! 4. Fit the number of threads to what the database serves ([`threads`]).
//! 5. Reserve threads for queues, and serve the newest jobs first where that is permitted ([`queues`]).
//! 6. Let go of limits when their cause is over.
//!
//! A culprit comes before the number of threads: fewer threads for all would punish the classes that it slows down.
//! Only a change of the same kind waits for an outcome where waiting would do harm: a limit is never postponed for the
//! outcome of a reservation.

mod context;
mod culprit;
mod hold;
mod queues;
mod threads;

use self::context::Context;
pub use self::context::State;
pub use self::hold::step_back;
use crate::change::{Decision, Forecast};
use crate::history::History;
use crate::settings::Settings;

/// Returns the change to make now, if any.
#[must_use]
pub fn decide(state: &State<'_>, settings: &Settings, history: &History) -> Option<Decision> {
    let sample = history.last.as_ref()?;
    let context = Context { state, settings, history, sample };
    // Two samples may be late without an effect.
    let is_fresh = history.age_seconds(state.now_seconds) <= 2.0 * settings.interval_seconds;
    if !is_fresh {
        return hold::decide(&context).filter(|it| context.is_permitted(it));
    }
    let rules: [fn(&Context<'_>) -> Option<Decision>; 6] = [
        take_back,
        culprit::limit,
        threads::fit,
        queues::reserve,
        queues::fresh_lane,
        culprit::let_go,
    ];
    let mut decisions = rules.iter().filter_map(|rule| rule(&context));
    decisions.find(|decision| context.is_permitted(decision) && context.is_next(decision))
}

/// Returns the limit of the class that alone slows the others down, where the system cannot limit it: for an operator, who
/// may have other means.
#[must_use]
pub fn blame(state: &State<'_>, settings: &Settings, history: &History) -> Option<Decision> {
    let sample = history.last.as_ref()?;
    let context = Context { state, settings, history, sample };
    let is_fresh = history.age_seconds(state.now_seconds) <= 2.0 * settings.interval_seconds;
    is_fresh.then(|| culprit::blame(&context))?
}

/// Takes back a change that did not help.
fn take_back(context: &Context<'_>) -> Option<Decision> {
    let failed = context.history.failed.as_ref()?;
    let Forecast { measure, before, expected, within_seconds } = failed.forecast?;
    let now = context.history.value(measure);
    let name = context.measure_name(measure);
    let reason = format!(
        "took the last change back: {name} was to go from {before:.1} to {expected:.1} within {within_seconds:.0} s and is \
         {now:.1}"
    );
    Some(context.decision(failed.change.reversed(), reason, None))
}
