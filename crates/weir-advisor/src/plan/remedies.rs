//! Says how large the machine or the database must be when no plan is possible.

use crate::wording::bytes;

use super::claim::{Claim, Proof};
use super::layout::ProcessLayout;
use super::split::{SCHEDULER, WEB};
use super::{PlanInput, cores, targets};

/// The largest value that Postgres accepts.
const MAX_CONNECTIONS_MAX: u64 = 262_143;

/// Returns a remedy for each rule that the best layout breaks.
pub(super) fn remedies(
    wanted: &PlanInput,
    layout: &ProcessLayout,
    broken: &[Proof],
) -> Vec<String> {
    broken.iter().filter_map(|proof| remedy(wanted, layout, proof.claim)).collect()
}

fn remedy(wanted: &PlanInput, layout: &ProcessLayout, claim: Claim) -> Option<String> {
    match claim {
        Claim::ConnectionsFit => Some(connections(layout)).filter(|way| !way.is_empty()),
        Claim::MemoryFits => Some(memory(wanted, layout)),
        Claim::CoresEnough => Some(cores::remedy(wanted, layout)),
        Claim::KeepsUp => keeping_up(wanted, layout),
        Claim::TargetsKept => {
            Some("more processes would not help: give those queues a longer --target".to_owned())
        }
        // Every computed layout satisfies these.
        Claim::EveryQueueFirst
        | Claim::GuaranteedSlots
        | Claim::LongJobsApart
        | Claim::SchedulerOnce
        | Claim::PoolsCoverThreads
        | Claim::ThreadsThere
        | Claim::SetAsideLast
        | Claim::OneOrder
        | Claim::NamesDiffer
        | Claim::QueuesRead => None,
    }
}

/// The layout already has the fewest threads that the rules allow.
fn connections(layout: &ProcessLayout) -> String {
    let kept = layout.reserve.max(layout.reserved_connections);
    let least = layout.connections().saturating_add(u64::from(kept));
    let raised = format!(
        "max_connections = {least} in Postgres, which then needs a restart (--max-connections {least})"
    );
    let raised = (least <= MAX_CONNECTIONS_MAX).then_some(raised);
    let pooler = match layout.pooler_connections {
        None => Some(
            "PgBouncer in between (--pgbouncer NUMBER, or --pgbouncer-url if there is one already)"
                .to_owned(),
        ),
        Some(_) if layout.budget() > 0 => {
            let budget = layout.budget();
            Some(format!("a pooler that opens {budget} at most (--pgbouncer {budget})"))
        }
        Some(_) => None,
    };
    raised.into_iter().chain(pooler).collect::<Vec<_>>().join(", or ")
}

/// Returns the remedy for the case that no more threads can be added.
fn keeping_up(wanted: &PlanInput, layout: &ProcessLayout) -> Option<String> {
    let is_behind =
        |name: &str| targets::loads(wanted, layout).any(|it| it.is_behind() && it.is(name));
    if is_behind(SCHEDULER) {
        let why = "the scheduler has one process with at most 25 threads: it needs fewer or \
                   shorter jobs";
        return Some(why.to_owned());
    }
    is_behind(WEB)
        .then(|| "more machines for the web: it gets at most 1,000 threads of one".to_owned())
}

fn memory(wanted: &PlanInput, layout: &ProcessLayout) -> String {
    let PlanInput { postgres_memory_bytes, redis_memory_bytes, .. } = *wanted;
    let stores = postgres_memory_bytes.saturating_add(redis_memory_bytes);
    let needed = layout.memory_bytes();
    let whole = bytes(needed.saturating_add(stores));
    let more = format!(
        "{whole} of memory ({} for these processes, {} for Postgres, {} for Redis)",
        bytes(needed),
        bytes(postgres_memory_bytes),
        bytes(redis_memory_bytes)
    );
    if needed <= wanted.memory_bytes && stores > 0 {
        format!("{more}, or Postgres and Redis elsewhere (--postgres-memory 0 --redis-memory 0)")
    } else {
        more
    }
}
