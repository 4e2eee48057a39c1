//! Decides on processes with their queues, threads and pools.
//!
//! - Mail and the scheduler get a process each without other queues, so that long jobs cannot
//!   occupy their threads. So do queues with long jobs, and queues that have a process of their own now
//!   unless their jobs are known to be quick ([`isolation`]).
//! - Each other queue is first in a process of its own and listed after it in the other processes,
//!   so that threads help elsewhere when their queue is empty. If memory is short, the queues with
//!   the lowest load share one process in random order.
//! - A queue is guaranteed 1.3 times its load plus half a thread, and what its target requires. The
//!   rest of the connection budget goes to the queues with the highest load, up to 1.6 times the
//!   total load plus six threads; more threads would only slow down the database.
//! - Jobs whose CPU time is known get a process for each 0.8 cores, because a Ruby process uses one.
//! - A queue with unknown load keeps its present threads.

use std::collections::BTreeSet;

use crate::observation::{Ordering, SET_ASIDE_SUFFIX, is_set_aside};

use super::cores;
use super::cpu;
use super::isolation;
use super::layout::{ProcessLayout, ServiceLayout, WorkerLayout};
use super::rounding::busy;
use super::targets;
use super::web::threads_enough;
use super::{DemandSource, PlanInput, QueueDemand, ceiling};

/// Factor over the average load of a queue, for bursts.
const GUARANTEE: f64 = 1.3;
const GUARANTEE_SLOTS: f64 = 0.5;
/// Factor over the total load for all threads, without a backlog.
const TOTAL: f64 = 1.6;
const TOTAL_SLOTS: f64 = 6.0;
/// Number of threads that one Ruby process can keep busy.
pub(super) const CONCURRENCY_MAX: u32 = 25;
/// With one process, a deploy or a crash would interrupt the service.
const WEB_PROCESSES_MIN: u32 = 2;
/// Queues that get a process without other queues.
const ALONE: [&str; 2] = [SCHEDULER, "mailers"];
pub(super) const SCHEDULER: &str = "scheduler";
pub(super) const WEB: &str = "web";
const NAME_PREFIX: &str = "sidekiq-";
/// Maximum length of the name of a worker group in `weir.toml`.
const NAME_LETTERS_MAX: usize = 32;

/// Computes the best layout. The caller checks it against the rules.
pub(super) fn layout(wanted: &PlanInput) -> ProcessLayout {
    let services = services(wanted);
    let mut layout = ProcessLayout {
        services,
        workers: Vec::new(),
        max_connections: wanted.max_connections,
        reserve: wanted.reserve,
        reserved_connections: wanted.reserved_connections,
        // A pooler without connections counts as none.
        pooler_connections: wanted.pooler_connections.filter(|connections| *connections > 0),
        memory_bytes_max: Some(processes_memory(wanted)),
    };
    let most = wanted.queues.iter().filter(|it| !is_alone(it) && !is_set_aside(&it.name)).count();
    // Tries as many processes as memory allows, then fewer. Counts that cannot fit are skipped, so
    // the number of queues does not matter.
    let room = processes_memory(wanted) / wanted.process_memory.ruby_bytes.max(1);
    let most = most.min(usize::try_from(room).unwrap_or(usize::MAX)).max(1);
    for processes in (1..=most).rev() {
        layout.workers = workers(wanted, &layout, processes);
        if layout.memory_bytes_max.is_none_or(|memory| layout.memory_bytes() <= memory) {
            break;
        }
    }
    layout
}

fn processes_memory(wanted: &PlanInput) -> u64 {
    let stores = wanted.postgres_memory_bytes.saturating_add(wanted.redis_memory_bytes);
    wanted.memory_bytes.saturating_sub(stores)
}

fn is_alone(queue: &QueueDemand) -> bool {
    is_alone_by_name(&queue.name) || isolation::is_isolated(queue)
}

pub(super) fn is_alone_by_name(queue: &str) -> bool {
    ALONE.contains(&queue)
}

fn ruby_bytes(wanted: &PlanInput, threads: u32) -> u64 {
    let memory = wanted.process_memory;
    memory.ruby_bytes.saturating_add(memory.thread_bytes.saturating_mul(u64::from(threads)))
}

fn services(wanted: &PlanInput) -> Vec<ServiceLayout> {
    let threads = wanted.web.threads.max(1);
    let processes = threads_enough(&wanted.web).div_ceil(threads);
    let processes = processes.max(WEB_PROCESSES_MIN).max(wanted.web.processes_now);
    let (streaming, pool) = wanted.streaming;
    let web = ServiceLayout {
        name: WEB.to_owned(),
        processes,
        threads,
        pool: threads,
        memory_bytes: ruby_bytes(wanted, threads),
        gaps: Vec::new(),
    };
    let streaming = ServiceLayout {
        name: "streaming".to_owned(),
        processes: streaming,
        // A streaming process serves many clients with few statements.
        threads: 1,
        pool,
        memory_bytes: wanted.process_memory.streaming_bytes,
        gaps: Vec::new(),
    };
    vec![web, streaming]
}

/// Returns the average number of threads that a queue needs. Delayed queues keep their present
/// threads: the duration of their jobs is unknown, and more threads would only wait as well.
pub(super) fn need(queue: &QueueDemand) -> f64 {
    if queue.known == DemandSource::HeldUp && queue.threads_now > 0 {
        return 0.0;
    }
    busy(queue.arrivals_per_second, queue.service_seconds)
}

/// Returns the guaranteed threads of a queue without a target.
fn guarantee(queue: &QueueDemand) -> u32 {
    ceiling(GUARANTEE * need(queue) + GUARANTEE_SLOTS).max(1)
}

/// Returns the present threads of a group.
fn threads_now(group: &[&QueueDemand]) -> u32 {
    group.iter().map(|queue| queue.threads_now).fold(0, u32::saturating_add)
}

/// Returns the guaranteed threads of a process with the queues of `group`, each thread of which may
/// be busy for `longest` seconds.
fn guarantee_of_group(group: &[&QueueDemand], longest: f64) -> u32 {
    let sum = group.iter().map(|queue| guarantee(queue)).fold(0, u32::saturating_add);
    let targets = group.iter().filter_map(|queue| targets::threads(queue, longest));
    // Queues that share a process get equal shares of the threads that become idle.
    let shares = u32::try_from(group.len()).unwrap_or(u32::MAX);
    targets.map(|threads| threads.saturating_mul(shares)).fold(sum, u32::max)
}

/// Returns at most `processes` groups of queues that share a process, with their threads.
fn workers(wanted: &PlanInput, layout: &ProcessLayout, processes: usize) -> Vec<WorkerLayout> {
    let (aside, queues): (Vec<&QueueDemand>, Vec<_>) =
        wanted.queues.iter().partition(|it| is_set_aside(&it.name));
    let (alone, mut others): (Vec<_>, Vec<_>) = queues.into_iter().partition(|it| is_alone(it));
    // The sort is stable: among equal loads, the more important queue comes first.
    others.sort_by(|one, other| need(other).total_cmp(&need(one)));
    let groups = groups(&others, processes);
    // The other queues by importance, for threads whose own queue is empty.
    let mut all = wanted
        .queues
        .iter()
        .filter(|it| !is_alone(it) && !is_set_aside(&it.name))
        .collect::<Vec<_>>();
    all.sort_by_key(|queue| queue.importance);
    let all: Vec<&str> = all.iter().map(|queue| queue.name.as_str()).collect();
    let mut workers: Vec<_> = alone.iter().map(|queue| alone_worker(wanted, queue)).collect();
    let alone = workers.iter().map(WorkerLayout::threads).fold(0, u32::saturating_add);
    let used = layout.pools().saturating_add(u64::from(alone));
    // With a pooler, the number of threads is not limited by the database's connections.
    let most = layout.pooler_connections.map_or_else(|| layout.budget(), |_| u32::MAX);
    let budget = most.saturating_sub(u32::try_from(used).unwrap_or(u32::MAX));
    let need_of_all: f64 = wanted.queues.iter().map(need).sum();
    let web = layout.services.iter().map(|it| it.processes.saturating_mul(it.threads));
    let of_cores = cores::threads_max(wanted).saturating_sub(web.fold(alone, u32::saturating_add));
    let enough = ceiling(TOTAL * need_of_all + TOTAL_SLOTS).saturating_sub(alone).min(of_cores);
    let longest = targets::longest(others.iter().copied());
    let guaranteed: Vec<_> = groups.iter().map(|it| guarantee_of_group(it, longest)).collect();
    let threads = threads(&groups, &guaranteed, enough.min(budget));
    for ((group, least), threads) in groups.iter().zip(guaranteed).zip(threads) {
        let now = threads_now(group);
        workers.push(worker(wanted, group, &all, (least.max(now), threads.max(now))));
    }
    aside.into_iter().for_each(|queue| add_last(wanted, &mut workers, &queue.name));
    name(&mut workers);
    workers
}

/// Adds a queue that was set aside at the end of every process that serves its original queue in
/// strict order. If there is none, adds it to a single other process.
fn add_last(wanted: &PlanInput, workers: &mut Vec<WorkerLayout>, backlog: &str) {
    let own = backlog.strip_suffix(SET_ASIDE_SUFFIX).unwrap_or(backlog);
    let has_order = |it: &WorkerLayout| it.ordering == Ordering::Strict;
    let is_own = |it: &WorkerLayout| has_order(it) && it.serves(own);
    let is_isolated = |name: &str| {
        is_alone_by_name(name) || wanted.queues.iter().any(|it| it.name == name && is_alone(it))
    };
    let is_common = |it: &WorkerLayout| has_order(it) && !is_isolated(&it.queues[0]);
    if workers.iter().any(is_own) {
        workers
            .iter_mut()
            .filter(|it| is_own(it))
            .for_each(|it| it.queues.push(backlog.to_owned()));
    } else if let Some(any) = workers.iter_mut().find(|it| is_common(it)) {
        // The original queue is gone or selected at random.
        any.queues.push(backlog.to_owned());
    } else {
        // A process of its own: it must not delay mail, and in random order it would not be last.
        workers.push(of_one_queue(wanted, backlog, 1, 1));
    }
}

/// Assigns unique names that are valid for systemd units, compose services and Weir's groups:
/// lower-case letters, digits, - and _, of limited length.
fn name(workers: &mut [WorkerLayout]) {
    let mut taken = BTreeSet::new();
    for worker in workers {
        let queue = worker.queues.first().map_or("all", String::as_str).to_ascii_lowercase();
        let plain = |letter: char| {
            letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-_".contains(letter)
        };
        let letters = queue.chars().map(|letter| if plain(letter) { letter } else { '_' });
        let base: String = NAME_PREFIX.chars().chain(letters).take(NAME_LETTERS_MAX).collect();
        let mut name = base.clone();
        for number in 2.. {
            if taken.insert(name.clone()) {
                break;
            }
            let number = format!("-{number}");
            name = base.chars().take(NAME_LETTERS_MAX - number.len()).collect::<String>() + &number;
        }
        worker.name = name;
    }
}

/// Splits the queues: those with the highest load get a process each, the rest share the last one.
fn groups<'a>(queues: &[&'a QueueDemand], processes: usize) -> Vec<Vec<&'a QueueDemand>> {
    let own = processes.saturating_sub(1).min(queues.len());
    let (own, rest) = queues.split_at(own);
    let mut groups: Vec<_> = own.iter().map(|queue| vec![*queue]).collect();
    if !rest.is_empty() {
        groups.push(rest.to_vec());
    }
    groups
}

/// Returns the threads of each group: its guarantee, plus a share of the rest of `total` by load.
fn threads(groups: &[Vec<&QueueDemand>], guaranteed: &[u32], total: u32) -> Vec<u32> {
    let group_need = |group: &Vec<&QueueDemand>| group.iter().map(|queue| need(queue)).sum::<f64>();
    let all = guaranteed.iter().copied().fold(0, u32::saturating_add);
    let spare = f64::from(total.saturating_sub(all));
    let needed: f64 = groups.iter().map(group_need).sum();
    let share = |(least, group): (&u32, &Vec<&QueueDemand>)| {
        let extra = if needed > 0.0 { spare * group_need(group) / needed } else { 0.0 };
        least.saturating_add(ceiling(extra.floor()))
    };
    guaranteed.iter().zip(groups).map(share).collect()
}

fn alone_worker(wanted: &PlanInput, queue: &QueueDemand) -> WorkerLayout {
    let threads = guarantee_of_group(&[queue], queue.service_seconds).max(queue.threads_now);
    // A second process would enqueue every scheduled job twice.
    let processes = match queue.name.as_str() {
        SCHEDULER => 1,
        _ => threads.div_ceil(CONCURRENCY_MAX).max(cpu::processes_min([queue])),
    };
    let concurrency = threads.div_ceil(processes).min(CONCURRENCY_MAX);
    of_one_queue(wanted, &queue.name, processes, concurrency)
}

fn of_one_queue(wanted: &PlanInput, name: &str, processes: u32, concurrency: u32) -> WorkerLayout {
    WorkerLayout {
        name: String::new(),
        processes,
        concurrency,
        pool: concurrency,
        ordering: Ordering::Strict,
        queues: vec![name.to_owned()],
        memory_bytes: ruby_bytes(wanted, concurrency),
        gaps: Vec::new(),
    }
}

/// Returns the worker for a group with `threads`, of which `guaranteed` must not be lost by
/// rounding.
fn worker(
    wanted: &PlanInput,
    group: &[&QueueDemand],
    all: &[&str],
    (guaranteed, threads): (u32, u32),
) -> WorkerLayout {
    let own: Vec<&str> = group.iter().map(|queue| queue.name.as_str()).collect();
    let of_cpu = cpu::processes_min(group.iter().copied());
    let processes = threads.div_ceil(CONCURRENCY_MAX).max(of_cpu).max(1);
    // Rounds down, because one more connection may exceed the budget. Guaranteed threads are
    // rounded up.
    let concurrency = (threads / processes).max(guaranteed.div_ceil(processes)).max(1);
    let (ordering, queues) = match own.as_slice() {
        [first] => {
            let behind = all.iter().filter(|name| *name != first);
            let queues = std::iter::once(first).chain(behind);
            (Ordering::Strict, queues.map(ToString::to_string).collect())
        }
        several => (Ordering::Random, several.iter().map(ToString::to_string).collect()),
    };
    WorkerLayout {
        name: String::new(),
        processes,
        concurrency,
        pool: concurrency,
        ordering,
        queues,
        memory_bytes: ruby_bytes(wanted, concurrency),
        gaps: Vec::new(),
    }
}
