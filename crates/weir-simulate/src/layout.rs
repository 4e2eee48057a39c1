//! Other fixed layouts for the threads of a scenario.

use weir_control::Allocation;
use weir_control::allocation::guarantees;

use crate::plant::Plant;
use crate::policy::Static;
use crate::scenario::{Order, Scenario, Workers};

/// A guarantee by hand: somewhat more than the queue keeps busy.
const SPLIT_FACTOR: f64 = 1.3;
const SPLIT_EXTRA: f64 = 0.5;
/// Weight of urgent queues.
const URGENT_WEIGHT: u32 = 8;

/// All managed groups serve all their queues in one order, that of the targets.
#[must_use]
pub fn strict(scenario: &Scenario) -> Scenario {
    with_queues(scenario, Order::Strict, |_, name| name.to_owned())
}

/// All managed groups choose among all their queues by weight.
#[must_use]
pub fn weighted(scenario: &Scenario) -> Scenario {
    let weight = |is_urgent: bool| if is_urgent { URGENT_WEIGHT } else { 1 };
    with_queues(scenario, Order::Weighted, |is_urgent, name| {
        format!("{name},{}", weight(is_urgent))
    })
}

fn with_queues(
    scenario: &Scenario,
    order: Order,
    entry: impl Fn(bool, &str) -> String,
) -> Scenario {
    let plant = Plant::new(scenario);
    let mut queues: Vec<usize> =
        plant.managed().flat_map(|(_, group)| group.queues.iter().map(|it| it.0)).collect();
    let target = |queue: usize| scenario.queues[queue].target_seconds;
    queues.sort_by(|a, b| target(*a).total_cmp(&target(*b)).then(a.cmp(b)));
    queues.dedup();
    let entries: Vec<String> = queues
        .iter()
        .map(|at| entry(scenario.queues[*at].urgent, &scenario.queues[*at].name))
        .collect();
    let workers = scenario.workers.iter().map(|workers| match workers.managed {
        true => Workers { queues: entries.clone(), order, ..workers.clone() },
        false => workers.clone(),
    });
    Scenario { workers: workers.collect(), ..scenario.clone() }
}

/// Reserves threads for each queue by its load before any event, of so many threads.
#[must_use]
pub fn split(scenario: &Scenario, threads: Option<u32>) -> Static {
    let wanted = scenario.queues.iter().map(|queue| {
        let classes = scenario.classes.iter().filter(|class| class.queue == queue.name);
        let busy: f64 = classes.map(|class| class.per_second * class.seconds).sum();
        SPLIT_FACTOR * busy + SPLIT_EXTRA
    });
    let wanted: Vec<f64> = wanted.collect();
    let plan = Plant::new(scenario).static_threads();
    let guarantees = guarantees(&wanted, threads.unwrap_or(plan));
    let fresh = vec![false; guarantees.len()];
    Static { threads, allocation: Some(Allocation { guarantees, fresh }) }
}

/// Numbers of threads of the fixed layouts that are compared, in those of the static plan.
const LEVELS: [f64; 7] = [0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0];

/// Returns fixed layouts to compare with: each number of threads, in the order of the scenario and split by load.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a small multiple of a number of threads"
)]
pub fn fixed(scenario: &Scenario) -> Vec<Static> {
    let plant = Plant::new(scenario);
    let most = plant.threads_max();
    let levels = LEVELS.map(|level| (f64::from(plant.static_threads()) * level).round() as u32);
    let mut levels: Vec<u32> = levels.iter().map(|level| (*level).clamp(1, most)).collect();
    levels.dedup();
    let layouts = levels.into_iter().flat_map(|threads| {
        [Static { threads: Some(threads), allocation: None }, split(scenario, Some(threads))]
    });
    layouts.collect()
}
