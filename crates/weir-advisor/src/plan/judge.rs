//! Whether a layout keeps the rules, with the figures that show it.

use serde::Serialize;

use crate::observation::is_set_aside;
use crate::wording::{bytes, list};

use super::layout::{Layout, WorkerLayout};

const SCHEDULER: &str = "scheduler";
/// Queues that a person or the clock waits for: behind others they come an hour late.
const GUARANTEED: [&str; 2] = ["mailers", SCHEDULER];

/// A rule that a layout must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// The sum of pools leaves the reserve.
    ConnectionsFit,
    /// Each queue stands first in some process.
    EveryQueueFirst,
    /// Mail and the scheduler are behind nobody.
    GuaranteedSlots,
    /// One process serves the scheduler.
    SchedulerOnce,
    /// No thread waits for a connection of its own process.
    PoolsCoverThreads,
    /// All processes have their memory.
    MemoryFits,
    /// No queue grows without end.
    KeepsUp,
    /// Jobs wait no longer than they may.
    TargetsKept,
}

impl Claim {
    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::ConnectionsFit => "pools fit the database",
            Self::EveryQueueFirst => "each queue stands first somewhere",
            Self::GuaranteedSlots => "mail and the clock have threads of their own",
            Self::SchedulerOnce => "one process serves the scheduler",
            Self::PoolsCoverThreads => "no thread waits for a connection of its own process",
            Self::MemoryFits => "memory is enough",
            Self::KeepsUp => "each queue keeps up with what comes",
            Self::TargetsKept => "of 20 jobs 19 wait no longer than they may",
        }
    }
}

/// A rule, and whether it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Proof {
    /// The rule.
    pub claim: Claim,
    /// Whether it is kept.
    pub holds: bool,
    /// What shows it: "185 of 185 connections, 15 in reserve".
    pub figures: String,
}

/// Each rule, for a layout that has to serve `queues`.
#[must_use]
pub fn judge(layout: &Layout, queues: &[&str]) -> Vec<Proof> {
    let mut proofs = vec![
        connections(layout),
        every_queue_first(layout, queues),
        guaranteed(layout, queues),
        scheduler_once(layout, queues),
        pools(layout),
    ];
    proofs.extend(memory(layout));
    proofs
}

fn proof(claim: Claim, holds: bool, figures: String) -> Proof {
    Proof { claim, holds, figures }
}

fn connections(layout: &Layout) -> Proof {
    let sum = layout.connections();
    let budget = layout.max_connections.saturating_sub(layout.reserve);
    let Layout { max_connections, reserve, .. } = layout;
    let figures =
        format!("{sum} of {budget} connections ({max_connections} less {reserve} in reserve)");
    proof(Claim::ConnectionsFit, sum <= budget, figures)
}

fn every_queue_first(layout: &Layout, queues: &[&str]) -> Proof {
    let first = |queue: &&&str| layout.workers.iter().any(|worker| worker.is_first(queue));
    let behind: Vec<_> = queues.iter().filter(|queue| !first(queue)).copied().collect();
    let (never, behind): (Vec<_>, Vec<_>) =
        behind.into_iter().partition(|queue| !layout.workers.iter().any(|it| it.serves(queue)));
    let mut figures = Vec::new();
    if !never.is_empty() {
        figures.push(format!("no process serves {}", list(never.iter().copied())));
    }
    // What was set aside is behind on purpose.
    let behind: Vec<_> = behind.into_iter().filter(|queue| !is_set_aside(queue)).collect();
    if !behind.is_empty() {
        figures.push(format!("no process looks at {} first", list(behind.iter().copied())));
    }
    let holds = figures.is_empty();
    if holds {
        figures.push(format!("each of {} queues has turns of its own", queues.len()));
    }
    proof(Claim::EveryQueueFirst, holds, figures.join("; "))
}

fn guaranteed(layout: &Layout, queues: &[&str]) -> Proof {
    let wanted = GUARANTEED.into_iter().filter(|queue| queues.contains(queue));
    let (mut kept, mut broken) = (Vec::new(), Vec::new());
    for queue in wanted {
        let first = layout.workers.iter().filter(|worker| worker.is_first(queue));
        match first.map(|worker| worker.processes.saturating_mul(worker.concurrency)).sum::<u32>() {
            0 => broken.push(format!("{queue} has no thread of its own{}", behind(layout, queue))),
            threads => kept.push(format!("{queue} {threads} threads")),
        }
    }
    let figures = if broken.is_empty() { kept.join(", ") } else { broken.join("; ") };
    proof(Claim::GuaranteedSlots, broken.is_empty(), figures)
}

/// " (only behind push)".
fn behind(layout: &Layout, queue: &str) -> String {
    let serving = layout.workers.iter().filter(|worker| worker.serves(queue));
    let mut before: Vec<_> =
        serving.filter_map(|worker| worker.queues.first()).map(String::as_str).collect();
    before.sort_unstable();
    before.dedup();
    if before.is_empty() { String::new() } else { format!(" (only behind {})", list(before)) }
}

fn scheduler_once(layout: &Layout, queues: &[&str]) -> Proof {
    let serving = layout.workers.iter().filter(|worker| worker.serves(SCHEDULER));
    let count: u32 = serving.map(|worker| worker.processes).fold(0, u32::saturating_add);
    let holds = if queues.contains(&SCHEDULER) { count == 1 } else { count <= 1 };
    let who = match count {
        0 => format!("no process serves the queue {SCHEDULER}"),
        1 => format!("1 process serves the queue {SCHEDULER}"),
        _ => format!("{count} processes serve the queue {SCHEDULER}"),
    };
    proof(Claim::SchedulerOnce, holds, who)
}

fn pools(layout: &Layout) -> Proof {
    let short = |name: &str, threads: u32, pool: u32| {
        (pool < threads).then(|| format!("{name} has {threads} threads and a pool of {pool}"))
    };
    let services = layout.services.iter().filter_map(|it| short(&it.name, it.threads, it.pool));
    let worker = |it: &WorkerLayout| short(&it.name, it.concurrency, it.pool);
    let broken: Vec<_> = services.chain(layout.workers.iter().filter_map(worker)).collect();
    let holds = broken.is_empty();
    let figures = if holds { "each pool covers its threads".to_owned() } else { broken.join("; ") };
    proof(Claim::PoolsCoverThreads, holds, figures)
}

/// None where nobody said how much there is: what is not known is not judged.
fn memory(layout: &Layout) -> Option<Proof> {
    let (needed, most) = (layout.memory_bytes(), layout.memory_bytes_max?);
    let figures = format!("processes need {} of {}", bytes(needed), bytes(most));
    Some(proof(Claim::MemoryFits, needed <= most, figures))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Ordering;
    use crate::plan::layout::ServiceLayout;

    const QUEUES: [&str; 5] = ["default", "push", "pull", "mailers", "scheduler"];

    fn worker(concurrency: u32, queues: &[&str]) -> WorkerLayout {
        WorkerLayout {
            name: format!("sidekiq-{}", queues.join("-")),
            processes: 1,
            concurrency,
            pool: concurrency,
            ordering: Ordering::Strict,
            queues: queues.iter().map(ToString::to_string).collect(),
            memory_bytes: 400 << 20,
        }
    }

    fn service(name: &str, processes: u32, pool: u32) -> ServiceLayout {
        ServiceLayout {
            name: name.to_owned(),
            processes,
            threads: pool,
            pool,
            memory_bytes: 300 << 20,
        }
    }

    /// The split that guides give: 185 of 200, mail and scheduler behind push.
    fn guides() -> Layout {
        Layout {
            services: vec![service("web", 3, 10), service("streaming", 3, 15)],
            workers: vec![
                worker(25, &["default", "push", "pull"]),
                worker(25, &["default", "pull", "push"]),
                worker(25, &["pull", "default", "push"]),
                worker(25, &["push", "default", "pull"]),
                worker(5, &["push", "scheduler"]),
                worker(5, &["push", "mailers"]),
            ],
            max_connections: 200,
            reserve: 15,
            memory_bytes_max: None,
        }
    }

    fn broken(layout: &Layout, queues: &[&str]) -> Vec<(Claim, String)> {
        let proofs = judge(layout, queues).into_iter().filter(|proof| !proof.holds);
        proofs.map(|proof| (proof.claim, proof.figures)).collect()
    }

    #[test]
    fn the_guides_split_sums_to_185_and_breaks_its_own_rule() {
        assert_eq!(guides().connections(), 185);
        let proofs = judge(&guides(), &QUEUES);
        assert!(proofs[0].holds);
        assert_eq!(proofs[0].figures, "185 of 185 connections (200 less 15 in reserve)");
        let expected = [
            (Claim::EveryQueueFirst, "no process looks at mailers and scheduler first".to_owned()),
            (
                Claim::GuaranteedSlots,
                "mailers has no thread of its own (only behind push); \
                 scheduler has no thread of its own (only behind push)"
                    .to_owned(),
            ),
        ];
        assert_eq!(broken(&guides(), &QUEUES), expected);
    }

    #[test]
    fn todays_queues_are_stranded_by_it() {
        let queues: Vec<_> = QUEUES.into_iter().chain(["ingress", "fasp"]).collect();
        let figures = &broken(&guides(), &queues)[0].1;
        assert!(figures.starts_with("no process serves ingress and fasp;"), "{figures}");
    }

    #[test]
    fn with_the_two_turned_round_it_holds() {
        let mut layout = guides();
        layout.workers[4].queues.reverse();
        layout.workers[5].queues.reverse();
        assert_eq!(broken(&layout, &QUEUES), []);
        layout.workers[4].processes = 2;
        assert_eq!(broken(&layout, &QUEUES)[1].0, Claim::SchedulerOnce);
    }

    #[test]
    fn what_was_set_aside_is_served_and_need_not_be_first() {
        let mut layout = guides();
        let queues = ["default", "pull", "pull_backlog"];
        let never = broken(&layout, &queues).remove(0).1;
        assert_eq!(never, "no process serves pull_backlog");
        layout.workers[2].queues.push("pull_backlog".to_owned());
        assert_eq!(broken(&layout, &queues), []);
    }

    #[test]
    fn memory_that_nobody_told_is_not_judged() {
        let proofs = judge(&guides(), &QUEUES);
        assert!(proofs.iter().all(|proof| proof.claim != Claim::MemoryFits), "{proofs:?}");
    }

    #[test]
    fn turns_by_chance_are_turns() {
        let mut layout = guides();
        layout.workers[4].ordering = Ordering::Weighted;
        layout.workers[5].ordering = Ordering::Random;
        assert_eq!(broken(&layout, &QUEUES), []);
    }

    #[test]
    fn small_pools_and_small_machines_are_found() {
        let mut layout = guides();
        layout.workers[0].pool = 24;
        layout.memory_bytes_max = Some(1 << 30);
        let claims: Vec<_> =
            broken(&layout, &["push"]).into_iter().map(|(claim, _)| claim).collect();
        assert_eq!(claims, [Claim::PoolsCoverThreads, Claim::MemoryFits]);
    }
}
