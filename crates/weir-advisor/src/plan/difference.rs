//! What changes: processes and settings as they run, against the plan's.

use std::collections::BTreeMap;

use crate::observation::{JobProcess, Observation, Ordering, PostgresSettings};

use super::postgres::size as postgres_size;
use super::{Plan, WorkerLayout};

/// Lines that begin with `-` (runs now, no more then) and `+` (then).
#[must_use]
pub fn difference(observation: &Observation, plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(jobs) = observation.jobs.known() {
        let now = counted(jobs.processes.iter().map(|process| (running(process), 1)));
        let then = counted(plan.layout.workers.iter().map(|it| (planned(it), it.processes)));
        lines.extend(changes(&now, &then));
    }
    let settings = observation.postgres.known().and_then(|postgres| postgres.settings.known());
    if let Some(settings) = settings.filter(|_| !plan.postgres.is_empty()) {
        lines.extend(settings_changes(settings, plan));
    }
    lines
}

fn counted(processes: impl Iterator<Item = (String, u32)>) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for (process, count) in processes {
        *counts.entry(process).or_default() += count;
    }
    counts
}

fn changes(now: &BTreeMap<String, u32>, then: &BTreeMap<String, u32>) -> Vec<String> {
    let less = |counts: &BTreeMap<String, u32>, process: &str, count: u32| {
        count.saturating_sub(counts.get(process).copied().unwrap_or_default())
    };
    let line = |mark: &str, process: &str, count: u32| {
        (count > 0).then(|| format!("{mark} {count} x {process}"))
    };
    let gone = now.iter().filter_map(|(it, count)| line("-", it, less(then, it, *count)));
    let new = then.iter().filter_map(|(it, count)| line("+", it, less(now, it, *count)));
    gone.chain(new).collect()
}

fn running(process: &JobProcess) -> String {
    let queues: Vec<String> = process
        .capsules
        .iter()
        .flat_map(|capsule| {
            capsule.queues.iter().map(|queue| match capsule.ordering {
                Ordering::Random | Ordering::Weighted => format!("{},{}", queue.name, queue.weight),
                Ordering::Strict | Ordering::Unknown => queue.name.clone(),
            })
        })
        .collect();
    command(process.concurrency(), &queues)
}

fn planned(worker: &WorkerLayout) -> String {
    command(worker.concurrency, &queue_words(worker))
}

/// As Sidekiq takes them: of queues by chance each has the weight 1.
#[must_use]
pub fn queue_words(worker: &WorkerLayout) -> Vec<String> {
    let by_chance = matches!(worker.ordering, Ordering::Random | Ordering::Weighted);
    let word = |queue: &String| if by_chance { format!("{queue},1") } else { queue.clone() };
    worker.queues.iter().map(word).collect()
}

fn command(concurrency: u32, queues: &[String]) -> String {
    let queues: Vec<String> = queues.iter().map(|queue| format!("-q {queue}")).collect();
    format!("sidekiq -c {concurrency} {}", queues.join(" "))
}

fn settings_changes(settings: &PostgresSettings, plan: &Plan) -> Vec<String> {
    let now = [
        ("max_connections", settings.max_connections.to_string()),
        ("shared_buffers", postgres_size(settings.shared_buffers_bytes)),
        ("effective_cache_size", postgres_size(settings.effective_cache_size_bytes)),
        ("work_mem", postgres_size(settings.work_mem_bytes)),
        ("random_page_cost", settings.random_page_cost.to_string()),
    ];
    let mut lines = Vec::new();
    for (name, now) in now {
        let then = plan.postgres.iter().find(|setting| setting.name == name);
        if let Some(then) = then.filter(|then| then.value != now) {
            lines.push(format!("- {name} = {now}"));
            lines.push(format!("+ {name} = {}", then.value));
        }
    }
    lines
}
