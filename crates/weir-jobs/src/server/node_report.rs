//! What this node reports about itself to those who share its store.

use std::thread;

use super::JobService;
use crate::node::NodeReport;
use crate::store::{Store, WorkerReport};

/// Returns the report of a node with these workers.
pub(super) async fn of<S: Store>(service: &JobService<S>, workers: &[WorkerReport]) -> NodeReport {
    let now = service.clock.now();
    let counts = service.store.counts().await;
    let rates = service.rates.borrow();
    let processed = counts.queues.iter().map(|queue| rates.rate(now, queue).processed);
    let cores = thread::available_parallelism().map_or(0, std::num::NonZero::get);
    NodeReport {
        hostname: hostname(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        cores: u32::try_from(cores).unwrap_or(u32::MAX),
        uptime_seconds: now.since(service.started).as_secs_f64(),
        // The sum of nothing would be -0.
        jobs_per_second: processed.fold(0.0, |sum, rate| sum + rate),
        busy: workers.iter().map(|worker| worker.busy).sum(),
        workers: workers.len() as u64,
        connections: service.connections.len() as u64,
        stopped: false,
    }
}

/// Returns the name of this machine, or nothing if it is unknown.
fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
