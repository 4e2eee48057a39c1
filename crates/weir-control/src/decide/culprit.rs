//! The class that alone slows the others down: it is limited, and let go again.

use super::context::{Context, threads};
use crate::change::{Change, Decision, Forecast, Measure};

/// Fewer sessions that wait are no pressure.
const WAITING_LEAST: f64 = 2.0;
/// The limit of a class that fills its queue grows by steps of this factor at least.
const FLOOD_MORE: f64 = 1.2;
/// Share of a queue's waiting jobs from which a class fills it.
const FLOOD_SHARE: f64 = 0.6;

/// A limit under which a class made others wait for locks is not reached again for so long.
const LOCK_LIMIT_SECONDS: f64 = 600.0;

/// Pauses of a class count for two hours ..
const TRIALS_WITHIN_SECONDS: f64 = 7_200.0;
/// .. and lengthen the next one up to 16 minutes.
const TRIALS_MAX: usize = 4;

/// Why a class is the culprit.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cause {
    /// It holds a lock that this many sessions wait for.
    Lock(f64),
    /// Its jobs take this many times their normal time, and others' jobs this many times.
    Cost(f64, f64),
    /// It holds so many sessions more than normal while others wait for a connection.
    Pool(f64),
    /// It fills a queue that other classes need.
    Flood(u64),
}

/// Limits the culprit, if there is one and its sessions are known with sufficient certainty.
pub(super) fn limit(context: &Context<'_>) -> Option<Decision> {
    let (class, cause) = certain(context).filter(|(class, _)| context.can_be_limited(*class))?;
    limit_of(context, class, cause)
}

/// Returns the limit of a culprit that would be decided if it could be carried out.
pub(super) fn blame(context: &Context<'_>) -> Option<Decision> {
    let (class, cause) = certain(context).filter(|(class, _)| !context.can_be_limited(*class))?;
    limit_of(context, class, cause)
}

/// Finds the culprit, unless the sessions of the classes are too uncertain.
fn certain(context: &Context<'_>) -> Option<(usize, Cause)> {
    let database = context.sample.database?;
    (database.confidence >= context.settings.confidence_least).then(|| find(context))?
}

fn limit_of(context: &Context<'_>, class: usize, cause: Cause) -> Option<Decision> {
    let database = context.sample.database?;
    let load = context.sample.classes.get(class)?;
    let from = context.state.controls.caps.get(&class).copied();
    let to = size(context, class, cause);
    // A limit that cuts nothing is none; but a class that holds locks is limited before it runs again.
    let is_cut = load.in_flight > to || matches!(cause, Cause::Lock(_));
    if from.is_some_and(|from| to >= from) || !is_cut {
        return None;
    }
    let name = context.class_name(class);
    let sessions = context.history.classes.get(class)?.recent.sessions();
    let because = match cause {
        Cause::Lock(blocked) => format!("{blocked:.0} sessions wait for locks that it holds"),
        Cause::Cost(own, others) => format!(
            "its jobs take {own:.1} times their normal time in the database and hold {sessions:.0} of {:.0} sessions; \
             others' jobs take {others:.1} times theirs",
            context.history.sessions()
        ),
        Cause::Pool(excess) => format!(
            "{:.0} jobs wait for a connection, and it holds {excess:.0} more than normal",
            database.waiting_for_connection
        ),
        Cause::Flood(waiting) => {
            format!("{waiting} of its jobs wait in a queue that other classes need")
        }
    };
    let reason = format!("limited {name} to {to} at once, {} before: {because}", load.in_flight);
    let measure = match cause {
        Cause::Lock(_) => Measure::BlockedBy(class),
        Cause::Cost(..) | Cause::Pool(_) => Measure::SlowdownWithout(class),
        Cause::Flood(_) => Measure::WaitingBeside(class),
    };
    let expected = match cause {
        Cause::Lock(_) | Cause::Flood(_) => 0.0,
        Cause::Cost(..) | Cause::Pool(_) => 1.0,
    };
    // Two samples: a limit that is too high does harm until the next cut.
    let within_seconds = 2.0 * context.settings.interval_seconds;
    let before = context.history.value(measure);
    let forecast = Some(Forecast { measure, before, expected, within_seconds });
    Some(context.decision(Change::Cap { class, from, to: Some(to) }, reason, forecast))
}

fn find(context: &Context<'_>) -> Option<(usize, Cause)> {
    blocker(context)
        .or_else(|| costly(context).filter(|(class, _)| !is_refused(context, *class)))
        .or_else(|| pool_holder(context).filter(|(class, _)| !is_refused(context, *class)))
        .or_else(|| flood(context))
}

/// Returns whether a lower limit of this class did not help recently. Locks are another matter: they are waited for as
/// long as jobs from before the limit run.
fn is_refused(context: &Context<'_>, class: usize) -> bool {
    let is_lower = |change: &Change| match change {
        Change::Cap { class: of, from, to: Some(to) } => {
            *of == class && from.is_none_or(|from| *to < from)
        }
        _ => false,
    };
    context.history.is_refused(context.state.now_seconds, context.settings, is_lower)
}

/// The class that holds the locks which others wait for.
fn blocker(context: &Context<'_>) -> Option<(usize, Cause)> {
    let waits = context.sample.database?.lock_waits;
    if waits < WAITING_LEAST.max(context.settings.lock_share * context.history.sessions()) {
        return None;
    }
    let blocked = context.sample.classes.iter().map(|class| class.blocks).enumerate();
    let (class, blocked) = blocked.max_by(|a, b| a.1.total_cmp(&b.1))?;
    // The locks of several classes wait for each other: none of them is the cause alone.
    (blocked >= 0.5 * waits).then_some((class, Cause::Lock(blocked)))
}

/// The class whose jobs have become expensive, while they slow others down.
fn costly(context: &Context<'_>) -> Option<(usize, Cause)> {
    let history = context.history;
    let all = history.sessions();
    let costs =
        history.classes.iter().enumerate().filter_map(|(class, it)| Some((class, it, it.cost()?)));
    // What has become expensive is not known without calm times.
    let costs = costs.filter(|(_, it, _)| it.is_normal_known);
    let culprits = costs.filter_map(|(class, it, own)| {
        let others = history.slowdown(Some(class));
        // More of them than normal, too: a class that always holds most sessions is not the cause.
        let excess = it.recent.sessions() - 2.0 * it.normal.sessions();
        let is_large = excess >= context.settings.culprit_share * all;
        let is_culprit = own >= context.settings.culprit_cost * others;
        let is_harmful = history.is_slow(Some(class), context.settings);
        (is_large && is_culprit && is_harmful).then_some((class, own, others, it.recent.sessions()))
    });
    let (class, own, others, _) = culprits.max_by(|a, b| a.3.total_cmp(&b.3))?;
    Some((class, Cause::Cost(own, others)))
}

/// The class that holds connections while others wait for one.
fn pool_holder(context: &Context<'_>) -> Option<(usize, Cause)> {
    if context.sample.database?.waiting_for_connection < WAITING_LEAST {
        return None;
    }
    // Sessions that are held for long; those of more jobs than usual are a matter of the number of threads.
    let excess = context.history.classes.iter().map(|class| {
        let held = class.recent.held_sessions();
        let is_costly = |normal: f64| {
            held / class.recent.finish_rate().max(1e-9) >= context.settings.culprit_cost * normal
        };
        match class.base_seconds {
            Some(base) if is_costly(base) => held - 1.5 * class.normal.held_sessions(),
            _ => 0.0,
        }
    });
    let positive: f64 = excess.clone().filter(|it| *it > 0.0).sum();
    let (class, largest) = excess.enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let is_large = largest >= context.settings.culprit_share * context.history.held_sessions();
    (is_large && largest >= 0.5 * positive).then_some((class, Cause::Pool(largest)))
}

/// The class whose jobs fill a late queue that others share.
fn flood(context: &Context<'_>) -> Option<(usize, Cause)> {
    let is_limited = |class: usize| {
        let cap = context.state.controls.caps.get(&class);
        cap.is_some_and(|cap| f64::from(flood_limit(context, class)) * FLOOD_MORE > f64::from(*cap))
    };
    let is_late = |class: usize| {
        let queue = context.state.roster.classes.get(class).map(|it| it.queue);
        queue.is_some_and(|queue| context.is_late(queue))
    };
    let classes = context.sample.classes.iter().enumerate();
    let mut floods = classes.filter(|(class, _)| {
        !is_limited(*class) && is_late(*class) && fills_its_queue(context, *class)
    });
    floods.next().map(|(class, load)| (class, Cause::Flood(load.waiting)))
}

/// Returns whether most jobs that wait in a queue are of one class, while others need the queue as well.
fn fills_its_queue(context: &Context<'_>, class: usize) -> bool {
    let roster = &context.state.roster.classes;
    let (Some(load), Some(info)) = (context.sample.classes.get(class), roster.get(class)) else {
        return false;
    };
    let Some(queue) = context.sample.queues.get(info.queue) else { return false };
    let is_shared =
        roster.iter().enumerate().any(|(index, it)| index != class && it.queue == info.queue);
    is_shared && load.waiting as f64 >= FLOOD_SHARE * queue.waiting as f64 && load.waiting > 0
}

/// Returns the limit: what is in flight now, less the sessions that are too many.
fn size(context: &Context<'_>, class: usize, cause: Cause) -> u32 {
    let in_flight = f64::from(context.sample.classes[class].in_flight);
    let half = context.settings.cap_cut * in_flight;
    match cause {
        // One holder at a time still keeps the lock busy without a break: then the class pauses.
        Cause::Lock(_) if context.state.controls.caps.get(&class) == Some(&1) => 0,
        Cause::Lock(_) => 1,
        Cause::Cost(..) => {
            let history = context.history;
            let sessions = history.classes[class].recent.sessions();
            let enough = history.goodput() * context.settings.sessions_reserve;
            let left = (sessions - (history.sessions() - enough)) / sessions.max(1e-9);
            threads((in_flight * left.clamp(0.1, 1.0)).min(half)).max(1)
        }
        Cause::Pool(_) => threads(half).max(1),
        Cause::Flood(_) => flood_limit(context, class),
    }
}

/// Returns the limit of a class that fills a queue: the threads that the queue can get, without those that its other
/// classes need.
fn flood_limit(context: &Context<'_>, class: usize) -> u32 {
    let queue = context.state.roster.classes[class].queue;
    let allocation = context.state.controls.allocation.as_ref();
    let elsewhere = (0..context.sample.queues.len()).filter(|index| *index != queue);
    let elsewhere: f64 = elsewhere
        .map(|index| {
            let reserved = allocation.and_then(|it| it.guarantees.get(index)).copied();
            normal_busy(context, index, None).max(f64::from(reserved.unwrap_or_default()))
        })
        .sum();
    let limit = context.state.controls.threads.unwrap_or(context.state.static_threads);
    let left = f64::from(limit) - elsewhere;
    threads(left - need_of_others(context, class, queue)).max(1)
}

/// Returns the threads that the other classes of a queue need.
fn need_of_others(context: &Context<'_>, class: usize, queue: usize) -> f64 {
    context.settings.guarantee_factor * normal_busy(context, queue, Some(class)) + 1.0
}

/// Returns the threads that the classes of a queue keep busy in calm times, without one class.
fn normal_busy(context: &Context<'_>, queue: usize, without: Option<usize>) -> f64 {
    let classes = context.history.classes.iter().zip(&context.state.roster.classes).enumerate();
    let of_queue =
        classes.filter(|(index, (_, info))| Some(*index) != without && info.queue == queue);
    of_queue.map(|(_, (it, _))| it.normal.run_seconds / it.normal.span_seconds.max(1e-9)).sum()
}

/// Ends a limit whose cause is over, and raises others step by step.
pub(super) fn let_go(context: &Context<'_>) -> Option<Decision> {
    context.state.controls.caps.iter().find_map(|(class, cap)| let_go_of(context, *class, *cap))
}

fn let_go_of(context: &Context<'_>, class: usize, cap: u32) -> Option<Decision> {
    let (history, settings) = (context.history, context.settings);
    let load = context.sample.classes.get(class)?;
    let name = context.class_name(class);
    let since = history.cap_changed_seconds(class).unwrap_or(f64::NEG_INFINITY);
    let age = context.state.now_seconds - since;
    let is_unused = load.waiting == 0 && load.in_flight < cap.max(1);
    let cost = history.classes.get(class)?.cost();
    let is_cheap = cost.is_some_and(|it| it < history.slowdown_low(settings))
        && !history.is_slow(None, settings);
    let settled_after = 2.0 * settings.recent_seconds;
    let is_over = is_cheap
        && is_quiet(context)
        && !fills_its_queue(context, class)
        && age >= settled_after * lock_patience(context, class);
    if age >= settled_after && (is_unused || is_over) {
        let because =
            if is_unused { "none of its jobs waits" } else { "its jobs take their normal time" };
        let reason = format!("ended the limit of {name}: {because}");
        return Some(context.decision(
            Change::Cap { class, from: Some(cap), to: None },
            reason,
            None,
        ));
    }
    let (least, _) = settings.judged_after_seconds;
    if history.is_flood_limit(class) {
        let to = flood_limit(context, class);
        let is_more = f64::from(to) >= FLOOD_MORE * f64::from(cap);
        let reason = format!(
            "raised the limit of {name} from {cap} to {to}: its queue can get more threads"
        );
        let change = Change::Cap { class, from: Some(cap), to: Some(to) };
        return (age >= least && !history.is_slow(None, settings) && is_quiet(context) && is_more)
            .then(|| context.decision(change, reason, None));
    }
    if age >= least
        && is_cheap
        && is_quiet(context)
        && load.in_flight >= cap
        && cap < context.sample.threads.max
    {
        let to = threads((f64::from(cap) * settings.growth).ceil()).max(cap + 1);
        let to = to.min(below_locks(context, class));
        if to <= cap {
            return None;
        }
        let reason = format!(
            "raised the limit of {name} from {cap} to {to}: its jobs take their normal time, and only fill their queue"
        );
        return Some(context.decision(
            Change::Cap { class, from: Some(cap), to: Some(to) },
            reason,
            None,
        ));
    }
    if age < growth_seconds(context, class, cap) { None } else { grow(context, class, cap) }
}

/// Raises a limit by a step while the others are fast.
fn grow(context: &Context<'_>, class: usize, cap: u32) -> Option<Decision> {
    let (history, settings) = (context.history, context.settings);
    let others = history.slowdown(Some(class));
    if others >= history.slowdown_low(settings) || !is_quiet(context) {
        return None;
    }
    let name = context.class_name(class);
    let to = (cap + 1).max(threads((f64::from(cap) * settings.cap_growth).floor()));
    if to > below_locks(context, class) {
        return None;
    }
    // A limit above all threads limits nothing.
    let to = (to < context.sample.threads.max).then_some(to);
    let shown = to.map_or_else(|| "none".to_owned(), |to| to.to_string());
    let reason = format!(
        "raised the limit of {name} from {cap} to {shown}: others' queries take {others:.1} times their normal time"
    );
    let forecast =
        context.forecast(Measure::SlowdownWithout(class), history.slowdown_high(settings));
    Some(context.decision(Change::Cap { class, from: Some(cap), to }, reason, forecast))
}

/// Returns how many times longer than at first a class that holds locks stays limited: its locks are quiet because of the
/// limit.
fn lock_patience(context: &Context<'_>, class: usize) -> f64 {
    let since_seconds = context.state.now_seconds - TRIALS_WITHIN_SECONDS;
    let again = context.history.lock_limits(class, since_seconds).saturating_sub(1);
    2_f64.powi(i32::try_from(again.min(TRIALS_MAX)).unwrap_or_default())
}

/// Returns the highest limit of a class under which nobody has waited for its locks recently. One is always tried again: it
/// ends a pause.
fn below_locks(context: &Context<'_>, class: usize) -> u32 {
    let now_seconds = context.state.now_seconds;
    let known = context.history.lock_limit(class, now_seconds, LOCK_LIMIT_SECONDS);
    known.map_or(u32::MAX, |limit| limit.saturating_sub(1).max(1))
}

/// Returns how long a limit stays before it grows. A class that was paused is tried less and less often: each trial blocks
/// others again while the cause lasts.
fn growth_seconds(context: &Context<'_>, class: usize, cap: u32) -> f64 {
    let once = context.settings.cap_growth_seconds;
    if cap > 0 {
        return once;
    }
    let pauses = context.history.pauses(class, context.state.now_seconds - TRIALS_WITHIN_SECONDS);
    once * 2_f64.powi(i32::try_from(pauses.min(TRIALS_MAX)).unwrap_or_default())
}

/// Returns whether neither locks nor connections are waited for.
fn is_quiet(context: &Context<'_>) -> bool {
    let database = context.sample.database.unwrap_or_default();
    database.lock_waits < WAITING_LEAST && database.waiting_for_connection < WAITING_LEAST
}
