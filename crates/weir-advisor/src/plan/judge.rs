//! Checks a layout against the rules, with the figures behind each outcome.
//!
//! Missing data proves nothing: the outcome of a rule that depends on it is unknown, and the
//! figures name what is missing.

use crate::observation::{is_nearly_full, is_set_aside};
use crate::wording::{bytes, list};

use super::claim::{Claim, ClaimOutcome, Proof};
use super::layout::{Gap, ProcessLayout, WorkerLayout};

const SCHEDULER: &str = "scheduler";
/// Queues that a person or the scheduler waits for. Behind other queues they could be an hour late.
const GUARANTEED: [&str; 2] = ["mailers", SCHEDULER];

/// Checks every rule for a layout that is to serve `queues`.
#[must_use]
pub fn judge(layout: &ProcessLayout, queues: &[&str]) -> Vec<Proof> {
    let mut proofs = vec![
        connections(layout),
        every_queue_first(layout, queues),
        guaranteed(layout, queues),
        scheduler_once(layout, queues),
        pools(layout),
    ];
    proofs.extend(threads_there(layout));
    proofs.extend(set_aside_last(layout));
    proofs.extend(one_order(layout));
    proofs.extend(memory(layout));
    proofs
}

fn proof(claim: Claim, outcome: ClaimOutcome, figures: String) -> Proof {
    Proof { claim, outcome, figures }
}

/// Returns the names of the processes with this gap.
fn lacking<'a>(layout: &'a ProcessLayout, gap: &'a Gap) -> Vec<&'a str> {
    let services = layout.services.iter().map(|it| (it.name.as_str(), &it.gaps));
    let workers = layout.workers.iter().map(|it| (it.name.as_str(), &it.gaps));
    let all = services.chain(workers).filter(|(_, gaps)| gaps.contains(gap));
    all.map(|(name, _)| name).collect()
}

fn connections(layout: &ProcessLayout) -> Proof {
    let (sum, budget) = (layout.connections(), u64::from(layout.budget()));
    let ProcessLayout { max_connections, reserve, reserved_connections, .. } = layout;
    let less = if reserve >= reserved_connections {
        format!("{reserve} in reserve")
    } else {
        format!("{reserved_connections} that Postgres reserves for superusers")
    };
    // These processes may open more connections than are counted.
    let is_least =
        [Gap::Processes, Gap::Command].iter().any(|gap| !lacking(layout, gap).is_empty());
    let least = if is_least && layout.pooler_connections.is_none() { "at least " } else { "" };
    let mut figures =
        format!("{least}{sum} of {budget} connections ({max_connections} less {less})");
    if layout.pooler_connections.is_some() {
        let pools = layout.pools();
        figures.push_str(&format!(", opened by the pooler; pools of {pools} connect to it"));
        return proof(Claim::ConnectionsFit, ClaimOutcome::of(sum <= budget), figures);
    }
    let gaps = unknown_connections(layout);
    let outcome = ClaimOutcome::told(sum > budget, !gaps.is_empty());
    match outcome {
        ClaimOutcome::Unknown => figures.push_str(&gaps),
        ClaimOutcome::Holds if is_full(layout) => {
            figures.push_str(
                "; doctor warns when all are open: connections may be rejected during \
                              a deployment",
            );
        }
        ClaimOutcome::Holds | ClaimOutcome::Broken => {}
    }
    proof(Claim::ConnectionsFit, outcome, figures)
}

/// Describes which connections are unknown. Empty if all are known.
fn unknown_connections(layout: &ProcessLayout) -> String {
    let of = |gap: &Gap, what: &str| {
        let names = lacking(layout, gap);
        (!names.is_empty()).then(|| what.replace("{}", &list(names)))
    };
    let reasons: Vec<String> = [
        of(&Gap::Pool, "`pool` (DB_POOL) of {} is not given"),
        of(&Gap::Processes, "the number of processes of {} is not known"),
        unknown_commands(layout),
    ]
    .into_iter()
    .flatten()
    .collect();
    if reasons.is_empty() {
        return String::new();
    }
    // An unknown pool is assumed to be as large as the number of threads.
    let is_reckoned = !lacking(layout, &Gap::Pool).is_empty();
    let reckoned = if is_reckoned { " if pools are as large as their threads" } else { "" };
    format!("{reckoned}; unknown, because {}", list(reasons.iter().map(String::as_str)))
}

/// Names the processes with an unknown command, or returns `None` if there are none.
fn unknown_commands(layout: &ProcessLayout) -> Option<String> {
    match lacking(layout, &Gap::Command).as_slice() {
        [] => None,
        [name] => Some(format!("the command of {name} is not known")),
        names => Some(format!("the commands of {} are not known", list(names.iter().copied()))),
    }
}

fn is_full(layout: &ProcessLayout) -> bool {
    let open = u32::try_from(layout.connections());
    open.is_ok_and(|open| is_nearly_full(open, layout.usable_connections()))
}

fn every_queue_first(layout: &ProcessLayout, queues: &[&str]) -> Proof {
    let first = |queue: &&str| layout.workers.iter().any(|worker| worker.is_first(queue));
    let never = unserved(layout, queues);
    let is_behind = |queue: &&str| !first(queue) && !never.contains(queue);
    let behind: Vec<_> = queues.iter().copied().filter(is_behind).collect();
    let mut figures = Vec::new();
    if !never.is_empty() {
        figures.push(format!("no process serves {}", list(never.iter().copied())));
    }
    // Queues that were set aside are last on purpose.
    let behind: Vec<_> = behind.into_iter().filter(|queue| !is_set_aside(queue)).collect();
    if !behind.is_empty() {
        figures.push(format!("no process serves {} first", list(behind.iter().copied())));
    }
    let holds = figures.is_empty();
    let outcome = unless_unsaid(layout, holds, &mut figures);
    if holds {
        figures.push(match queues.len() {
            1 => "its only queue is first".to_owned(),
            all => format!("each of {all} queues is first in a process"),
        });
    }
    proof(Claim::EveryQueueFirst, outcome, figures.join("; "))
}

/// Returns the queues that no process of the layout serves.
pub(crate) fn unserved<'a>(layout: &ProcessLayout, queues: &[&'a str]) -> Vec<&'a str> {
    let is_served = |queue: &&str| layout.workers.iter().any(|it| it.serves(queue));
    queues.iter().copied().filter(|queue| !is_served(queue)).collect()
}

/// Returns the outcome: unknown rather than broken if a process with unknown queues may satisfy the
/// rule.
fn unless_unsaid(layout: &ProcessLayout, holds: bool, figures: &mut Vec<String>) -> ClaimOutcome {
    let unsaid = lacking(layout, &Gap::Queues);
    if holds || unsaid.is_empty() {
        return ClaimOutcome::of(holds);
    }
    figures.push(format!("unknown, because the queues of {} are not given", list(unsaid)));
    ClaimOutcome::Unknown
}

fn guaranteed(layout: &ProcessLayout, queues: &[&str]) -> Proof {
    let wanted = GUARANTEED.into_iter().filter(|queue| queues.contains(queue));
    let (mut kept, mut unknown, mut broken) = (Vec::new(), Vec::new(), Vec::new());
    for queue in wanted {
        let firsts: Vec<_> = layout.workers.iter().filter(|it| it.is_first(queue)).collect();
        let own = firsts.iter().filter(|worker| !worker.is_by_chance());
        match own.map(|it| it.threads()).fold(0, u32::saturating_add) {
            0 => match firsts.first() {
                Some(worker) => unknown.push(format!("{queue} {}", why_unknown(worker))),
                None => {
                    broken
                        .push(format!("{queue} has no thread of its own{}", behind(layout, queue)));
                }
            },
            1 => kept.push(format!("{queue} 1 thread")),
            threads => kept.push(format!("{queue} {threads} threads")),
        }
    }
    let is_served = unless_unsaid(layout, broken.is_empty(), &mut broken);
    let outcome = match is_served {
        ClaimOutcome::Holds => ClaimOutcome::told(false, !unknown.is_empty()),
        not => not,
    };
    let figures = match outcome {
        ClaimOutcome::Holds if kept.is_empty() => {
            format!("none of the queues is {}", list(GUARANTEED).replace(" and ", " or "))
        }
        ClaimOutcome::Holds => kept.join(", "),
        ClaimOutcome::Broken | ClaimOutcome::Unknown => {
            broken.into_iter().chain(unknown).collect::<Vec<_>>().join("; ")
        }
    };
    proof(Claim::GuaranteedSlots, outcome, figures)
}

/// Explains why it is unknown whether `worker` has a thread for a queue that it serves first or at
/// random.
fn why_unknown(worker: &WorkerLayout) -> String {
    let name = &worker.name;
    if worker.is_by_chance() {
        let others = worker.queues.len() - 1;
        format!(
            "is chosen by weight or at random, in {name} with {others} more: unknown, because long \
             jobs of others may occupy every thread"
        )
    } else {
        format!("is first in {name}: unknown, because its `concurrency` is not given")
    }
}

/// Describes the queues that precede one: " (only behind push)".
fn behind(layout: &ProcessLayout, queue: &str) -> String {
    let serving = layout.workers.iter().filter(|worker| worker.serves(queue));
    let mut before: Vec<_> =
        serving.filter_map(|worker| worker.queues.first()).map(String::as_str).collect();
    before.sort_unstable();
    before.dedup();
    if before.is_empty() { String::new() } else { format!(" (only behind {})", list(before)) }
}

fn scheduler_once(layout: &ProcessLayout, queues: &[&str]) -> Proof {
    let serving = layout.workers.iter().filter(|worker| worker.serves(SCHEDULER));
    let count: u32 = serving.map(|worker| worker.processes).fold(0, u32::saturating_add);
    let is_wanted = queues.contains(&SCHEDULER);
    let unsaid = lacking(layout, &Gap::Queues);
    let outcome = match count {
        0 | 1 if !unsaid.is_empty() => ClaimOutcome::Unknown,
        0 => ClaimOutcome::of(!is_wanted),
        count => ClaimOutcome::of(count == 1),
    };
    let mut figures = match count {
        0 if outcome == ClaimOutcome::Unknown => {
            format!("no process with known queues serves the queue {SCHEDULER}")
        }
        0 if !is_wanted => format!("there is no queue {SCHEDULER}"),
        0 => format!("no process serves the queue {SCHEDULER}"),
        1 => format!("1 process serves the queue {SCHEDULER}"),
        _ => format!("{count} processes serve the queue {SCHEDULER}"),
    };
    if outcome == ClaimOutcome::Unknown {
        figures
            .push_str(&format!("; unknown, because the queues of {} are not given", list(unsaid)));
    }
    proof(Claim::SchedulerOnce, outcome, figures)
}

fn pools(layout: &ProcessLayout) -> Proof {
    let short = |name: &str, threads: u32, pool: u32| {
        (pool < threads).then(|| format!("{name} has {threads} threads and a pool of {pool}"))
    };
    let services = layout.services.iter().filter_map(|it| short(&it.name, it.threads, it.pool));
    let worker = |it: &WorkerLayout| short(&it.name, it.concurrency, it.pool);
    let mut figures: Vec<_> = services.chain(layout.workers.iter().filter_map(worker)).collect();
    let is_broken = !figures.is_empty();
    let gaps = [(Gap::Pool, "`pool` (DB_POOL)"), (Gap::Threads, "the number of threads")];
    let unsaid = gaps.iter().filter_map(|(gap, what)| {
        let names = lacking(layout, gap);
        (!names.is_empty())
            .then(|| format!("unknown, because {what} of {} is not given", list(names)))
    });
    let unsaid = unsaid.chain(unknown_commands(layout).map(|it| format!("unknown, because {it}")));
    figures.extend(unsaid);
    let outcome = ClaimOutcome::told(is_broken, !figures.is_empty());
    if figures.is_empty() {
        figures.push("each pool covers its threads".to_owned());
    }
    proof(Claim::PoolsCoverThreads, outcome, figures.join("; "))
}

/// Returns `None` if all processes have threads.
fn threads_there(layout: &ProcessLayout) -> Option<Proof> {
    let none = |it: &&WorkerLayout| it.concurrency == 0 && !it.gaps.contains(&Gap::Threads);
    let mut figures: Vec<_> = layout
        .workers
        .iter()
        .filter(none)
        .map(|it| format!("{} has no thread (concurrency = 0): it runs no jobs", it.name))
        .collect();
    let is_idle = |it: &&WorkerLayout| it.queues.is_empty() && !it.gaps.contains(&Gap::Queues);
    let idle = layout.workers.iter().filter(is_idle);
    figures.extend(idle.map(|it| format!("{} serves no queue", it.name)));
    let is_broken = !figures.is_empty();
    let unsaid = layout.workers.iter().filter(|it| it.gaps.contains(&Gap::Threads));
    figures.extend(
        unsaid.map(|it| format!("{}: unknown, because its `concurrency` is not given", it.name)),
    );
    let outcome = ClaimOutcome::told(is_broken, true);
    (!figures.is_empty()).then(|| proof(Claim::ThreadsThere, outcome, figures.join("; ")))
}

/// Returns `None` if no queue was set aside. A process without other queues delays none.
fn set_aside_last(layout: &ProcessLayout) -> Option<Proof> {
    let (mut seen, mut unknown, mut broken) = (Vec::new(), Vec::new(), Vec::new());
    for worker in &layout.workers {
        let last = worker.queues.iter().rposition(|queue| !is_set_aside(queue));
        let aside = worker.queues.iter().enumerate().filter(|(_, queue)| is_set_aside(queue));
        for (at, queue) in aside {
            seen.push(queue.as_str());
            match last {
                Some(_) if worker.is_by_chance() => {
                    unknown.push(format!(
                        "{queue} is chosen by weight or at random in {}",
                        worker.name
                    ));
                }
                Some(last) if at < last => broken
                    .push(format!("{queue} is before {} in {}", worker.queues[last], worker.name)),
                _ => {}
            }
        }
    }
    seen.sort_unstable();
    seen.dedup();
    let outcome = ClaimOutcome::told(!broken.is_empty(), !unknown.is_empty());
    broken.extend(unknown);
    let figures = if broken.is_empty() { list(seen.iter().copied()) } else { broken.join("; ") };
    (!seen.is_empty()).then(|| proof(Claim::SetAsideLast, outcome, figures))
}

/// Returns `None` if the order is unambiguous for all processes.
fn one_order(layout: &ProcessLayout) -> Option<Proof> {
    let names = lacking(layout, &Gap::Order);
    (!names.is_empty()).then(|| {
        let figures = format!(
            "{}: only some queues have a weight, or `order` contradicts the weights; with any \
             weight, Sidekiq chooses all queues by weight (1 where none is given), and none is \
             first",
            list(names)
        );
        proof(Claim::OneOrder, ClaimOutcome::Broken, figures)
    })
}

/// Returns `None` if the available memory is unknown.
fn memory(layout: &ProcessLayout) -> Option<Proof> {
    let (needed, most) = (layout.memory_bytes(), layout.memory_bytes_max?);
    let mut figures = format!("processes need {} of {}", bytes(needed), bytes(most));
    let reckoned = lacking(layout, &Gap::Memory);
    if !reckoned.is_empty() {
        figures.push_str(&format!("; that of {} is an estimate", list(reckoned)));
    }
    Some(proof(Claim::MemoryFits, ClaimOutcome::of(needed <= most), figures))
}

#[cfg(test)]
mod tests;
