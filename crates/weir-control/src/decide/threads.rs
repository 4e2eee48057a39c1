//! The number of threads: the fewest with which the database does all the work that it can.

use super::context::{Context, threads};
use crate::change::{Change, Decision, Forecast, Measure};
use crate::estimate::Sign;

/// Share of the sessions that were served at full speed up to which more need no proof.
const PROVEN: f64 = 0.9;

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
    let slowdown = context.history.slowdown(None);
    if context.is_backlogged() && context.history.is_slow(None, context.settings) {
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
    let managed = context.sample.classes.iter().zip(&history.is_managed);
    let sessions: f64 = managed.filter(|(_, is)| **is).map(|(class, _)| class.sessions).sum();
    // As many sessions as do the same work at full speed, and some so that the database never runs dry by chance: their
    // number varies by its root. Others than the managed classes have their part in them.
    let enough = goodput * context.settings.sessions_reserve + goodput.sqrt();
    let others = history.normal_sessions_of(false);
    // What was served at full speed before cannot be too many.
    let enough = (enough - others).max(history.fast_sessions);
    let share = (enough / sessions.max(1e-9)).clamp(context.settings.shrink_least, 1.0);
    let least = fewest(context, slowdown);
    // Threads that are idle because they are left to others use no sessions.
    let idle = unused_reservations(context).max(left_to_others(context));
    let idle = idle.min(limit.saturating_sub(busy));
    let to = threads((f64::from(busy) * share).max(least) + f64::from(idle)).max(1);
    let to = context.state.step_to(limit, to);
    if f64::from(to) > 0.9 * f64::from(limit) {
        return None;
    }
    let reason = format!(
        "reduced threads from {limit} to {to}: queries take {slowdown:.1} times their normal time, and {sessions:.0} \
         sessions do the work of {goodput:.0}"
    );
    // Several small losses are a large one: the work is compared with that before the first of them.
    let since = context.state.now_seconds - context.settings.careful_for_seconds;
    let before = history.work_before_reductions(limit, since).max(history.value(Measure::Goodput));
    let forecast = context.forecast(Measure::Goodput, before);
    let forecast = forecast.map(|it| Forecast { before, expected: before, ..it });
    Some(context.decision(Change::Threads { from: limit, to }, reason, forecast))
}

/// Returns the threads below which nothing is reduced: an estimate can be wrong for long, and the plan was made for more
/// than the normal load. What is normal may be unknown, because there was no calm time yet.
fn fewest(context: &Context<'_>, slowdown: f64) -> f64 {
    let settings = context.settings;
    let (most, least) = settings.threads_least;
    let plan = f64::from(context.state.static_threads);
    if slowdown >= settings.slowdown_certain {
        return least * plan;
    }
    let normal = context.history.normal_busy();
    (most * plan).min(normal.max(least * plan))
}

/// More threads, while jobs wait and the database has room.
fn grow(context: &Context<'_>, limit: u32, slowdown: f64) -> Option<Decision> {
    let settings = context.settings;
    let most = context.sample.threads.max;
    let used = context.sample.threads.busy + unused_reservations(context) + left_to_others(context);
    let is_used = f64::from(used) >= 0.9 * f64::from(limit);
    // While a class is limited, the threads of the plan are enough: the cause of its limit may return.
    let is_harmful = |class: &usize| !context.history.is_flood_limit(*class);
    let is_limited =
        limit >= context.state.static_threads && context.state.controls.caps.keys().any(is_harmful);
    let is_known = context.history.classes.iter().any(|class| class.cost().is_some());
    if !is_used || !is_known || limit >= most || is_limited || is_waiting_in_database(context) {
        return None;
    }
    // As many sessions as the database has served at full speed are not too many, whatever chance says now.
    let is_proven = context.history.sessions_of(true) < PROVEN * context.history.fast_sessions;
    let has_room = slowdown <= context.history.slowdown_low(settings)
        && !is_refused(context, true)
        && context.history.covariance_sign() != Sign::Negative;
    if !is_proven && !has_room {
        return None;
    }
    let factor = growth(context, limit, slowdown);
    let to = threads(f64::from(limit) * factor).max(limit + 1).min(most);
    let to = context.state.step_to(limit, to);
    let reason = format!(
        "raised threads from {limit} to {to}: jobs wait, and queries take {slowdown:.1} times their normal time"
    );
    let goodput = context.history.value(Measure::Goodput);
    let expected = goodput * f64::from(to) / f64::from(limit.max(1));
    let forecast = context.forecast(Measure::Goodput, expected);
    Some(context.decision(Change::Threads { from: limit, to }, reason, forecast))
}

/// Full steps at full speed, half steps when queries become slower, and small ones close to a number of threads that was
/// too many before.
fn growth(context: &Context<'_>, limit: u32, slowdown: f64) -> f64 {
    let settings = context.settings;
    let now = context.state.now_seconds;
    let full = if slowdown < f64::midpoint(1.0, context.history.slowdown_low(settings)) {
        settings.growth
    } else {
        f64::midpoint(1.0, settings.growth)
    };
    let too_many = context.history.too_many_threads(now, settings.careful_for_seconds);
    let is_close = |too_many: u32| f64::from(limit) * full > 0.9 * f64::from(too_many);
    if too_many.is_some_and(is_close) { settings.careful_growth } else { full }
}

/// Returns whether jobs wait for locks or connections: more threads would only wait as well.
fn is_waiting_in_database(context: &Context<'_>) -> bool {
    let database = context.sample.database.unwrap_or_default();
    let locked = context.settings.lock_share * context.history.sessions();
    database.waiting_for_connection >= 1.0 || database.lock_waits >= locked.max(1.0)
}

/// Returns the threads that are reserved for queues without enough jobs: they are idle, and limit nothing.
fn unused_reservations(context: &Context<'_>) -> u32 {
    let guarantees = context.state.controls.allocation.iter().flat_map(|it| &it.guarantees);
    let queues = guarantees.zip(&context.sample.queues);
    queues.map(|(guarantee, queue)| guarantee.saturating_sub(queue.in_flight)).sum()
}

/// Returns the threads that limits of classes which fill a queue leave to others that do not need them now.
fn left_to_others(context: &Context<'_>) -> u32 {
    let caps = context.state.controls.caps.iter();
    let is_at_limit = |class: &usize, cap: u32| {
        context.history.is_flood_limit(*class)
            && context
                .sample
                .classes
                .get(*class)
                .is_some_and(|load| load.waiting > 0 && load.in_flight >= cap)
    };
    if !caps.into_iter().any(|(class, cap)| is_at_limit(class, *cap)) {
        return 0;
    }
    let limit = context.state.controls.threads.unwrap_or(context.state.static_threads);
    limit.saturating_sub(context.sample.threads.busy).min(limit / 2)
}

/// Without a backlog the number of threads limits nothing, and the static plan is in force again.
fn restore(context: &Context<'_>, limit: u32, slowdown: f64) -> Option<Decision> {
    let plan = context.state.static_threads;
    let calm = context.history.calm_since_seconds?;
    let is_calm = context.state.now_seconds - calm >= 2.0 * context.settings.recent_seconds;
    // Threads beyond the plan that are busy are needed, although no job has waited for long.
    let is_used = limit > plan && context.sample.threads.busy > plan;
    if limit == plan || !is_calm || is_used {
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
