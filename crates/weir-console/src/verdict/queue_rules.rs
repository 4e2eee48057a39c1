//! Rules about single queues. Each queue gets at most one finding: they are tried in the order
//! not served, grows, late.

use weir_jobs::view;

use super::{Facts, Finding, Level};
use crate::figures::{as_float, counted, duration, rate};
use crate::place::Place;

/// A queue that nobody takes from is worth a word once its next job has waited this long.
const UNSERVED_SECONDS: f64 = 30.0;
/// Without a target of its own a queue counts as late after this wait.
const LATE_SECONDS: f64 = 300.0;
/// Growth below this share of what comes in is the noise of a minute's rates.
const GROWTH_SHARE: f64 = 0.05;
/// Growth needs a backlog of at least this many seconds of pushes: a burst is no trend.
const GROWTH_BACKLOG_SECONDS: f64 = 10.0;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    NotServed,
    Grows,
    Late,
}

fn trouble(queue: &view::Queue) -> Trouble {
    if queue.paused || queue.depth == 0 {
        return Trouble::None;
    }
    let growth = queue.pushed_per_second - queue.processed_per_second;
    let is_served = queue.working > 0 || queue.processed_per_second > 0.0;
    let grows = growth > queue.pushed_per_second * GROWTH_SHARE
        && as_float(queue.depth) > queue.pushed_per_second * GROWTH_BACKLOG_SECONDS;
    if !is_served && queue.latency_seconds >= UNSERVED_SECONDS {
        Trouble::NotServed
    } else if grows && (is_late(queue) || queue.target_latency_seconds.is_none()) {
        Trouble::Grows
    } else if is_late(queue) {
        Trouble::Late
    } else {
        Trouble::None
    }
}

fn is_late(queue: &view::Queue) -> bool {
    queue.latency_seconds > queue.target_latency_seconds.unwrap_or(LATE_SECONDS)
}

fn each(
    facts: &Facts<'_>,
    wanted: Trouble,
    describe: impl Fn(&view::Queue) -> (Level, String, String),
) -> Vec<Finding> {
    let troubled = facts.queues.iter().filter(|queue| trouble(queue) == wanted);
    let finding = |queue: &view::Queue| {
        let (level, what, todo) = describe(queue);
        Finding { level, what, todo, link: link(queue), jobs: queue.depth }
    };
    troubled.map(finding).collect()
}

fn link(queue: &view::Queue) -> String {
    Place::Queue(queue.name.clone()).address(&[])
}

/// Workers are there, but none takes jobs from this queue.
pub(super) fn queue_is_not_served(facts: &Facts<'_>) -> Vec<Finding> {
    if facts.overview.workers == 0 && facts.overview.fetches_waiting == 0 {
        // `nobody_works` says it once for all queues.
        return Vec::new();
    }
    each(facts, Trouble::NotServed, |queue| {
        let name = &queue.name;
        let grows = match queue.pushed_per_second {
            pushed if pushed >= 0.01 => format!(" and grows by {}", rate(pushed)),
            _ => String::new(),
        };
        let what = format!(
            "Queue {name} is {} behind{grows}: no worker fetches it",
            counted(queue.depth, "job")
        );
        let todo = format!(
            "Check that a running worker lists {name} among its queues: a misspelt name or a queue \
             that no process was given are the usual reasons."
        );
        (Level::Critical, what, todo)
    })
}

/// More comes in than goes out.
pub(super) fn queue_grows(facts: &Facts<'_>) -> Vec<Finding> {
    each(facts, Trouble::Grows, |queue| {
        let growth = queue.pushed_per_second - queue.processed_per_second;
        let what = format!(
            "Queue {} is {} behind and grows by {}: {} come in, {} are done",
            queue.name,
            counted(queue.depth, "job"),
            rate(growth),
            rate(queue.pushed_per_second),
            rate(queue.processed_per_second),
        );
        let todo = format!(
            "Give it more workers ({} more jobs a second would hold the line), or pause what \
             pushes into it.",
            rate(growth).trim_end_matches("/s")
        );
        let level = if is_late(queue) { Level::Critical } else { Level::Warning };
        (level, what, todo)
    })
}

/// Late, but it shrinks or stands.
pub(super) fn queue_is_late(facts: &Facts<'_>) -> Vec<Finding> {
    each(facts, Trouble::Late, |queue| {
        let target = queue.target_latency_seconds;
        let target = target.map_or(String::new(), |it| format!(" (target {})", duration(it)));
        let over = match queue.drain_seconds {
            Some(seconds) => format!("over in {} at the present speed", duration(seconds)),
            None => "and stands still".to_owned(),
        };
        let what = format!(
            "Queue {} runs {} late{target}, {}: {over}",
            queue.name,
            duration(queue.latency_seconds),
            counted(queue.depth, "job"),
        );
        let todo = match queue.drain_seconds {
            Some(_) => "Nothing, if that is soon enough; more workers make it sooner.",
            None => "Look at what its workers are busy with.",
        };
        (Level::Warning, what, todo.to_owned())
    })
}

/// Paused, and jobs gather.
pub(super) fn queue_is_paused(facts: &Facts<'_>) -> Vec<Finding> {
    let paused = facts.queues.iter().filter(|queue| queue.paused && queue.depth > 0);
    let finding = |queue: &view::Queue| Finding {
        level: Level::Warning,
        what: format!("Queue {} is paused with {}", queue.name, counted(queue.depth, "job")),
        todo: "Resume it once the reason for the pause is gone.".to_owned(),
        link: link(queue),
        jobs: queue.depth,
    };
    paused.map(finding).collect()
}
