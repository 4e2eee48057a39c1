//! Which queues the threads are reserved for, and the order of a queue that is past its target.

use super::context::Context;
use crate::allocation::guarantees;
use crate::change::{Change, Decision, Measure};
use crate::controls::Allocation;

/// Reserves threads for each queue by its arrival rate and its run time.
pub(super) fn reserve(context: &Context<'_>) -> Option<Decision> {
    if context.state.roster.shares_threads_itself {
        return None;
    }
    let (state, settings) = (context.state, context.settings);
    // The plan's order stays until it has failed.
    let mut late = (0..context.sample.queues.len()).filter(|queue| is_tight(context, *queue));
    if state.controls.allocation.is_none() && !late.any(|queue| context.is_late(queue)) {
        return None;
    }
    let threads = state.controls.threads.unwrap_or(state.static_threads);
    let managed: Vec<usize> =
        (0..context.sample.queues.len()).filter(|queue| is_managed(context, *queue)).collect();
    let wanted: Vec<f64> = managed.iter().map(|queue| wanted(context, *queue)).collect();
    let given = guarantees(&wanted, threads);
    let mut to = vec![0; context.sample.queues.len()];
    managed.iter().zip(given).for_each(|(queue, given)| to[*queue] = given);
    let current = state.controls.allocation.as_ref();
    let from: Vec<u32> = current.map_or_else(|| vec![0; to.len()], |it| it.guarantees.clone());
    let (queue, change) = largest_change(&from, &to)?;
    let is_off = change.unsigned_abs() as f64
        > (settings.guarantee_hysteresis * f64::from(from[queue].max(to[queue]))).max(1.0);
    if current.is_some() && !is_off {
        return None;
    }
    let fresh = current.map_or_else(|| vec![false; to.len()], |it| it.fresh.clone());
    let reason = explain(context, &from, &to, queue, change);
    let age = context.sample.queues[queue].oldest_age_seconds;
    let target = state.roster.queues.get(queue).map_or(age, |it| it.target_seconds);
    let change = Change::Allocation {
        from: current.cloned(),
        to: Some(Allocation { guarantees: to, fresh }),
    };
    let forecast = context.forecast(Measure::QueueAge(queue), age.min(target));
    Some(context.decision(change, reason, forecast))
}

fn is_managed(context: &Context<'_>, queue: usize) -> bool {
    context.state.roster.queues.get(queue).is_some_and(|it| it.is_managed)
}

/// Returns the jobs per second of a queue, and the seconds that each keeps a thread busy.
fn need(context: &Context<'_>, queue: usize) -> (f64, f64) {
    let rate = context.history.queues.get(queue).map_or(0.0, |it| it.arrival_rate());
    (rate, context.history.queue_run_seconds(context.state.roster, queue))
}

/// Returns the threads that a queue wants for itself.
fn wanted(context: &Context<'_>, queue: usize) -> f64 {
    let settings = context.settings;
    let (rate, run_seconds) = need(context, queue);
    if is_tight(context, queue) {
        settings.guarantee_factor * rate * run_seconds + settings.guarantee_extra
    } else {
        0.5 * rate * run_seconds
    }
}

/// Returns whether a queue cannot wait until threads become free. By the normal run time: a queue does not become urgent
/// because its jobs have become slow.
fn is_tight(context: &Context<'_>, queue: usize) -> bool {
    let target = context.state.roster.queues.get(queue).map_or(0.0, |it| it.target_seconds);
    target < context.settings.guarantee_tight * context.history.normal_run_seconds()
}

/// Returns the queue whose guarantee changes most, and by how much.
fn largest_change(from: &[u32], to: &[u32]) -> Option<(usize, i64)> {
    let changes = from.iter().zip(to).map(|(from, to)| i64::from(*to) - i64::from(*from));
    changes.enumerate().max_by_key(|(_, change)| change.abs()).filter(|(_, change)| *change != 0)
}

fn explain(context: &Context<'_>, from: &[u32], to: &[u32], queue: usize, change: i64) -> String {
    let name = context.queue_name(queue);
    let (rate, run_seconds) = need(context, queue);
    let load = format!("{rate:.1} jobs/s of {run_seconds:.2} s");
    let opposite =
        from.iter().zip(to).map(|(from, to)| i64::from(*to) - i64::from(*from)).enumerate();
    let opposite = opposite.filter(|(_, other)| other.signum() == -change.signum());
    let other = opposite.max_by_key(|(_, other)| other.abs());
    match other {
        Some((other, _)) if change > 0 => {
            let moved = change.min(i64::from(from[other]) - i64::from(to[other]));
            format!(
                "moved {moved} threads from {} to {name}: {name} has {load}",
                context.queue_name(other)
            )
        }
        _ => format!(
            "reserved {} threads for {name}, {} before: it has {load}",
            to[queue], from[queue]
        ),
    }
}

/// Serves the newest jobs of a queue first while it is past its target, if its settings permit it.
pub(super) fn fresh_lane(context: &Context<'_>) -> Option<Decision> {
    let allocation = context.state.controls.allocation.as_ref()?;
    let queues = context.state.roster.queues.iter().enumerate().zip(&context.sample.queues);
    for ((queue, info), load) in queues {
        let is_on = allocation.fresh.get(queue).copied().unwrap_or(false);
        let (age, name) = (load.oldest_age_seconds, &info.name);
        if info.fresh_lane && !is_on && context.is_late(queue) {
            let reason = format!(
                "serves the newest jobs of {name} first: its oldest has waited for {age:.0} s"
            );
            return Some(context.decision(Change::FreshLane { queue, on: true }, reason, None));
        }
        // Half of the target, so that it does not come and go.
        if is_on && age < 0.5 * info.target_seconds {
            let reason =
                format!("serves the oldest jobs of {name} first again: none waits for long");
            return Some(context.decision(Change::FreshLane { queue, on: false }, reason, None));
        }
    }
    None
}
