//! Compares running processes and present settings with the plan.

use std::collections::BTreeMap;

use crate::observation::{JobProcess, Observation, Ordering, PostgresSettings};

use super::postgres::size as postgres_size;
use super::{Plan, WorkerLayout, unseen_processes};

/// Returns lines that begin with `-` (removed by the plan) or `+` (added by the plan). Leaves out processes
/// while some of the running ones are not seen: the plan cannot say what is to be started beside them.
#[must_use]
pub fn difference(observation: &Observation, plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    let are_all_seen = unseen_processes::found(observation).is_none();
    if let Some(jobs) = observation.jobs.known().filter(|_| are_all_seen) {
        let running = |process| running(process, &plan.layout.workers);
        // Heartbeats of processes that have ended are kept for a minute.
        let alive = jobs.processes.iter().filter(|process| process.is_alive());
        let now = counted(alive.map(|process| (running(process), 1)));
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

/// Describes a running process. Sidekiq 6 does not report weights, so a process with the queues of
/// a planned one in the same order counts as equal.
fn running(process: &JobProcess, planned_ones: &[WorkerLayout]) -> String {
    if process.capsules.iter().all(|capsule| capsule.ordering == Ordering::Unknown) {
        let same = |it: &&WorkerLayout| {
            it.concurrency == process.concurrency() && process.served().eq(it.queues.iter())
        };
        if let Some(same) = planned_ones.iter().find(same) {
            return planned(same);
        }
    }
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

/// Returns the queues in the syntax of Sidekiq's `-q`. Random order is written as weight 1 for
/// each.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;
    use crate::observation::{ProcessPlace, ProcessPresence};
    use crate::plan::ProcessLayout;

    #[test]
    fn a_process_that_tells_no_weights_is_the_planned_one_with_its_queues() {
        let worker = WorkerLayout {
            processes: 1,
            concurrency: 3,
            ordering: Ordering::Random,
            queues: ["pull", "fasp"].map(str::to_owned).into(),
            ..WorkerLayout::default()
        };
        let layout = ProcessLayout { workers: vec![worker], ..ProcessLayout::default() };
        let plan = Plan { layout, postgres: Vec::new(), redis: Vec::new(), proofs: Vec::new() };
        let mut observation = healthy::observation();
        let mut with = |ordering, queues: &[(&str, u32)]| {
            observation.jobs.known_mut().processes = vec![healthy::process(1, 3, ordering, queues)];
            difference(&observation, &plan)
        };
        assert_eq!(with(Ordering::Unknown, &[("pull", 0), ("fasp", 0)]), [""; 0]);
        assert_eq!(with(Ordering::Random, &[("pull", 1), ("fasp", 1)]), [""; 0]);
        let strict = with(Ordering::Strict, &[("pull", 0), ("fasp", 0)]);
        let expected =
            ["- 1 x sidekiq -c 3 -q pull -q fasp", "+ 1 x sidekiq -c 3 -q pull,1 -q fasp,1"];
        assert_eq!(strict, expected);
        assert_eq!(with(Ordering::Unknown, &[("fasp", 0), ("pull", 0)]).len(), 2);
    }

    #[test]
    fn processes_that_have_ended_are_not_counted() {
        let layout = ProcessLayout::default();
        let plan = Plan { layout, postgres: Vec::new(), redis: Vec::new(), proofs: Vec::new() };
        let mut observation = healthy::observation();
        let process = healthy::process(1, 3, Ordering::Strict, &[("pull", 0)]);
        let is = |presence| JobProcess { presence, ..process.clone() };
        let gone = is(ProcessPresence::Gone);
        // Whether one of another host runs is not known.
        let place = ProcessPlace::Elsewhere;
        let silent = JobProcess { place, ..is(ProcessPresence::Silent) };
        observation.jobs.known_mut().processes = vec![process.clone(), gone, silent];
        assert_eq!(difference(&observation, &plan), ["- 1 x sidekiq -c 3 -q pull"]);
    }
}
