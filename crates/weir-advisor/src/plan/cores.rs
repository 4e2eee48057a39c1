//! Checks whether a machine has enough cores for all threads.
//!
//! Ruby runs one thread of a process at a time, and threads spend most of their time waiting for
//! the database and the network. A core keeps up with 25 threads, which is also the limit per
//! process; more threads would only wait for each other.

use super::PlanInput;
use super::claim::{Claim, ClaimOutcome, Proof};
use super::layout::ProcessLayout;
use super::split::CONCURRENCY_MAX;
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
    let figures = format!(
        "{threads} of {} that {} can keep busy",
        number(most, "thread", "threads"),
        number(wanted.cores, "core", "cores")
    );
    Proof {
        claim: Claim::CoresEnough,
        outcome: ClaimOutcome::of(threads <= u64::from(most)),
        figures,
    }
}

/// Returns the number of cores that the layout's threads need.
pub(super) fn remedy(layout: &ProcessLayout) -> String {
    let cores = threads(layout).div_ceil(u64::from(CONCURRENCY_MAX));
    format!("{} (--cores {cores}), on this machine or on others", number(cores, "core", "cores"))
}
