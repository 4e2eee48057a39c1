//! The number of threads: the fewest with which the database does all the work that it can.

use super::context::{Context, threads};
use crate::change::{Change, Decision, Measure};
use crate::estimate::Sign;

pub(super) fn fit(context: &Context<'_>) -> Option<Decision> {
    let sample = context.sample;
    let limit = context.state.controls.threads.unwrap_or(context.state.static_threads);
    if limit > sample.threads.max {
        let reason = format!(
            "reduced threads from {limit} to {}: connections and memory permit no more",
            sample.threads.max
        );
        let change = Change::Threads { from: limit, to: sample.threads.max };
        return Some(context.decision(change, reason, None));
    }
    let slowdown = context.history.shared_slowdown();
    if slowdown >= context.settings.slowdown_high {
        return shrink(context, limit, slowdown);
    }
    if context.is_backlogged() {
        return grow(context, limit, slowdown);
    }
    restore(context, limit, slowdown)
}

/// Fewer threads, if more of them in progress do not get more work done.
fn shrink(context: &Context<'_>, limit: u32, slowdown: f64) -> Option<Decision> {
    let history = context.history;
    let busy = context.sample.threads.busy;
    // Jobs that are too many from the last reduction are still running: its effect is not known yet.
    let is_settled = busy <= limit;
    if !is_settled || history.covariance_sign() == Sign::Positive || is_refused(context, false) {
        return None;
    }
    let goodput = history.goodput();
    let sessions: f64 = context.sample.classes.iter().map(|class| class.sessions).sum();
    // As many sessions as do the same work at full speed, and some so that the database never runs dry by chance: the
    // number of sessions varies by its root.
    let enough = goodput * context.settings.sessions_reserve + goodput.sqrt();
    let share = (enough / sessions.max(1e-9)).clamp(context.settings.shrink_least, 1.0);
    let queues = u32::try_from(context.sample.queues.len()).unwrap_or(u32::MAX);
    let to = threads(f64::from(busy) * share).max(queues).max(2);
    if f64::from(to) > 0.9 * f64::from(limit) {
        return None;
    }
    let reason = format!(
        "reduced threads from {limit} to {to}: queries take {slowdown:.1} times their normal time, and {sessions:.0} \
         sessions do the work of {goodput:.0}"
    );
    let forecast = context.forecast(Measure::Goodput, goodput);
    Some(context.decision(Change::Threads { from: limit, to }, reason, forecast))
}

/// More threads, while jobs wait and the database has room.
fn grow(context: &Context<'_>, limit: u32, slowdown: f64) -> Option<Decision> {
    let settings = context.settings;
    let most = context.sample.threads.max;
    let is_used = f64::from(context.sample.threads.busy) >= 0.8 * f64::from(limit);
    if slowdown > settings.slowdown_low || !is_used || limit >= most || is_refused(context, true) {
        return None;
    }
    if context.history.covariance_sign() == Sign::Negative {
        return None;
    }
    let factor = 1.0 + (settings.growth - 1.0) * growth_share(slowdown, settings.slowdown_low);
    let to = threads(f64::from(limit) * factor).max(limit + 1).min(most);
    let reason = format!(
        "raised threads from {limit} to {to}: jobs wait, and queries take {slowdown:.1} times their normal time"
    );
    let goodput = context.history.goodput();
    let expected = goodput * f64::from(to) / f64::from(limit.max(1));
    let forecast = context.forecast(Measure::Goodput, expected);
    Some(context.decision(Change::Threads { from: limit, to }, reason, forecast))
}

/// Full steps at full speed, half steps close to the limit.
fn growth_share(slowdown: f64, low: f64) -> f64 {
    if slowdown < 1.0 + (low - 1.0) / 2.0 { 1.0 } else { 0.5 }
}

/// Without a backlog the number of threads limits nothing, and the static plan is in force again.
fn restore(context: &Context<'_>, limit: u32, slowdown: f64) -> Option<Decision> {
    let plan = context.state.static_threads;
    let calm = context.history.calm_since_seconds?;
    let is_calm = context.state.now_seconds - calm >= 2.0 * context.settings.recent_seconds;
    if limit == plan || !is_calm {
        return None;
    }
    let reason = format!(
        "returned threads from {limit} to the static plan's {plan}: no jobs wait, and queries take {slowdown:.1} times their \
         normal time"
    );
    Some(context.decision(Change::Threads { from: limit, to: plan }, reason, None))
}

fn is_refused(context: &Context<'_>, grows: bool) -> bool {
    context.history.is_refused(
        context.state.now_seconds,
        context.settings,
        |change| matches!(change, Change::Threads { from, to } if (to > from) == grows),
    )
}
