//! Checks whether a machine has enough cores for all threads.
//!
//! Ruby runs one thread of a process at a time, and threads spend most of their time waiting for
//! the database and the network. A core keeps up with 25 threads, which is also the limit per
//! process; more threads would only wait for each other. Jobs whose CPU time is known need that as
//! well.

use std::fmt::Write;

use super::claim::{Claim, ClaimOutcome, Proof};
use super::layout::ProcessLayout;
use super::split::CONCURRENCY_MAX;
use super::{PlanInput, ceiling, cpu};
use crate::wording::number;

/// Returns how many threads the machine's cores can keep busy.
pub(super) const fn threads_max(wanted: &PlanInput) -> u32 {
    wanted.cores.saturating_mul(CONCURRENCY_MAX)
}

/// Returns the number of threads of Sidekiq and of the web processes.
fn threads(layout: &ProcessLayout) -> u64 {
    let of = |processes: u32, threads: u32| u64::from(processes) * u64::from(threads);
    let services = layout.services.iter().map(|it| of(it.processes, it.threads));
    let workers = layout.workers.iter().map(|it| of(it.processes, it.concurrency));
    services.chain(workers).fold(0, u64::saturating_add)
}

pub(super) fn enough(wanted: &PlanInput, layout: &ProcessLayout) -> Proof {
    let (threads, most) = (threads(layout), threads_max(wanted));
    let computing = cpu::cores_of(&wanted.queues);
    let fits = computing <= f64::from(wanted.cores);
    let mut figures = format!(
        "{threads} of {} that {} can keep busy",
        number(most, "thread", "threads"),
        number(wanted.cores, "core", "cores")
    );
    if !fits {
        let _ = write!(figures, "; the CPU time of the jobs takes {computing:.1} cores");
    }
    Proof {
        claim: Claim::CoresEnough,
        outcome: ClaimOutcome::of(fits && threads <= u64::from(most)),
        figures,
    }
}

/// Returns the number of cores that the layout's threads and the CPU time of the jobs need.
pub(super) fn remedy(wanted: &PlanInput, layout: &ProcessLayout) -> String {
    let of_threads = threads(layout).div_ceil(u64::from(CONCURRENCY_MAX));
    let cores = of_threads.max(u64::from(ceiling(cpu::cores_of(&wanted.queues))));
    format!("{} (--cores {cores}), on this machine or on others", number(cores, "core", "cores"))
}
