//! Which processes, with which queues, threads and pools.
//!
//! - Mail and the scheduler have a process each, with nothing else in it: nobody's long job holds
//!   their threads.
//! - Each other queue is first in a process of its own, and behind in those of others, so that
//!   threads help elsewhere when their own queue is empty; where memory is short, queues with the
//!   least to do share one process, in turns by chance.
//! - A queue is guaranteed 1.3 x what it needs and half a thread, and what its target takes; what is
//!   left of the budget goes to where most is to do, up to 1.6 x the need of all and six threads, for
//!   more would only slow the database down.
//! - A queue of which nobody knows what it needs keeps the threads that it has now.

use std::collections::BTreeSet;

use crate::observation::{Ordering, SET_ASIDE_SUFFIX, is_set_aside};

use super::cores;
use super::layout::{ProcessLayout, ServiceLayout, WorkerLayout};
use super::targets;
use super::web::threads_enough;
use super::{DemandSource, PlanInput, QueueDemand, ceiling};

/// Over what a queue needs on average: what comes in bursts.
const GUARANTEE: f64 = 1.3;
const GUARANTEE_SLOTS: f64 = 0.5;
/// Threads of all processes without a backlog.
const TOTAL: f64 = 1.6;
const TOTAL_SLOTS: f64 = 6.0;
/// Threads that one Ruby process can keep busy.
pub(super) const CONCURRENCY_MAX: u32 = 25;
/// A deploy or crash of one must not end the service.
const WEB_PROCESSES_MIN: u32 = 2;
/// Queues with a process for themselves alone.
const ALONE: [&str; 2] = [SCHEDULER, "mailers"];
pub(super) const SCHEDULER: &str = "scheduler";
pub(super) const WEB: &str = "web";
const NAME_PREFIX: &str = "sidekiq-";
/// More threads than any machine has, by far; sums of them are still exact.
const BUSY_MAX: f64 = 1e12;
/// What names a group of workers in `weir.toml`.
const NAME_LETTERS_MAX: usize = 32;

/// The best layout; whether it keeps the rules is judged elsewhere.
pub(super) fn layout(wanted: &PlanInput) -> ProcessLayout {
    let services = services(wanted);
    let mut layout = ProcessLayout {
        services,
        workers: Vec::new(),
        max_connections: wanted.max_connections,
        reserve: wanted.reserve,
        reserved_connections: wanted.reserved_connections,
        // One that opens none is none.
        pooler_connections: wanted.pooler_connections.filter(|connections| *connections > 0),
        memory_bytes_max: Some(processes_memory(wanted)),
    };
    let most = wanted.queues.iter().filter(|it| !is_alone(it) && !is_set_aside(&it.name)).count();
    // As many processes as memory allows; with one there is nothing left to save. Where memory is short the
    // many that can't fit need not be tried, whatever the number of queues.
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
    is_alone_by_name(&queue.name)
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
    let processes = threads_enough(&wanted.web).div_ceil(threads).max(WEB_PROCESSES_MIN);
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
        // It answers many clients with few statements.
        threads: 1,
        pool,
        memory_bytes: wanted.process_memory.streaming_bytes,
        gaps: Vec::new(),
    };
    vec![web, streaming]
}

/// Threads that a queue needs on average. One that is held up keeps those that it has, whatever comes: of how
/// long its jobs take nothing is known, and more threads would only wait as well.
pub(super) fn need(queue: &QueueDemand) -> f64 {
    if queue.known == DemandSource::HeldUp && queue.threads_now > 0 {
        return 0.0;
    }
    busy(queue.arrivals_per_second, queue.service_seconds)
}

/// Threads that are busy on average (Little's law), finite whatever it is made of: what is beyond
/// [`BUSY_MAX`] fits nowhere.
pub(super) fn busy(per_second: f64, seconds: f64) -> f64 {
    let busy = per_second * seconds;
    if busy.is_nan() { 0.0 } else { busy.clamp(0.0, BUSY_MAX) }
}

/// Without a target.
fn guarantee(queue: &QueueDemand) -> u32 {
    ceiling(GUARANTEE * need(queue) + GUARANTEE_SLOTS).max(1)
}

/// What is not known to be too much.
fn threads_now(group: &[&QueueDemand]) -> u32 {
    group.iter().map(|queue| queue.threads_now).fold(0, u32::saturating_add)
}

/// Threads of a process whose queues are `group`, when one of them may be busy for `longest`.
fn guarantee_of_group(group: &[&QueueDemand], longest: f64) -> u32 {
    let sum = group.iter().map(|queue| guarantee(queue)).fold(0, u32::saturating_add);
    let targets = group.iter().filter_map(|queue| targets::threads(queue, longest));
    // Those who share a process get equal shares of the threads that come free.
    let shares = u32::try_from(group.len()).unwrap_or(u32::MAX);
    targets.map(|threads| threads.saturating_mul(shares)).fold(sum, u32::max)
}

/// Groups of queues that share a process, with the threads of each.
fn workers(wanted: &PlanInput, layout: &ProcessLayout, processes: usize) -> Vec<WorkerLayout> {
    let (aside, queues): (Vec<&QueueDemand>, Vec<_>) =
        wanted.queues.iter().partition(|it| is_set_aside(&it.name));
    let (alone, mut others): (Vec<_>, Vec<_>) = queues.into_iter().partition(|it| is_alone(it));
    // Stable: of queues with as much to do the more important comes first.
    others.sort_by(|one, other| need(other).total_cmp(&need(one)));
    let groups = groups(&others, processes);
    // Threads whose own queue is empty help the most important one that has jobs.
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
    // Clients of a pooler wait at it, and not for the database.
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

/// What was set aside waits until nothing else is to do: last in every process with its own queue that
/// has an order, and in no other.
fn add_last(wanted: &PlanInput, workers: &mut Vec<WorkerLayout>, backlog: &str) {
    let own = backlog.strip_suffix(SET_ASIDE_SUFFIX).unwrap_or(backlog);
    let has_order = |it: &WorkerLayout| it.ordering == Ordering::Strict;
    let is_own = |it: &WorkerLayout| has_order(it) && it.serves(own);
    let is_common = |it: &WorkerLayout| has_order(it) && !ALONE.contains(&it.queues[0].as_str());
    if workers.iter().any(is_own) {
        workers
            .iter_mut()
            .filter(|it| is_own(it))
            .for_each(|it| it.queues.push(backlog.to_owned()));
    } else if let Some(any) = workers.iter_mut().find(|it| is_common(it)) {
        // Its queue is gone, or has turns by chance.
        any.queues.push(backlog.to_owned());
    } else {
        // It must not hold up mail, and where turns are by chance it would not be last.
        workers.push(of_one_queue(wanted, backlog, 1, 1));
    }
}

/// Names for units, services of compose and groups of Weir's: small letters, digits, - and _, not too
/// long, each another.
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

/// Those with most to do for themselves, the rest together in the last.
fn groups<'a>(queues: &[&'a QueueDemand], processes: usize) -> Vec<Vec<&'a QueueDemand>> {
    let own = processes.saturating_sub(1).min(queues.len());
    let (own, rest) = queues.split_at(own);
    let mut groups: Vec<_> = own.iter().map(|queue| vec![*queue]).collect();
    if !rest.is_empty() {
        groups.push(rest.to_vec());
    }
    groups
}

/// What is guaranteed to each group, and the rest of `total` by need.
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
    // Two processes would enqueue twice what runs by the clock.
    let processes = if queue.name == SCHEDULER { 1 } else { threads.div_ceil(CONCURRENCY_MAX) };
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

/// With so many threads, of which so many are `guaranteed`.
fn worker(
    wanted: &PlanInput,
    group: &[&QueueDemand],
    all: &[&str],
    (guaranteed, threads): (u32, u32),
) -> WorkerLayout {
    let own: Vec<&str> = group.iter().map(|queue| queue.name.as_str()).collect();
    let processes = threads.div_ceil(CONCURRENCY_MAX).max(1);
    // Rounded down: a connection more may be over the budget, a thread less is no harm unless it is
    // guaranteed.
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
