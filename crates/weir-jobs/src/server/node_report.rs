//! What this node reports about itself to those who share its store.

use weir_base::node::NodeProcess;

use super::JobService;
use crate::node::{NodeFigures, NodeReport};
use crate::store::{Store, WorkerReport};

/// Returns the report of a node with these workers.
pub(super) async fn of<S: Store>(service: &JobService<S>, workers: &[WorkerReport]) -> NodeReport {
    let now = service.clock.now();
    let counts = service.store.counts().await;
    let rates = service.rates.borrow();
    let processed = counts.queues.iter().map(|queue| rates.rate(now, queue).processed);
    let uptime = now.since(service.started);
    NodeReport {
        process: NodeProcess::this(env!("CARGO_PKG_VERSION"), uptime, &service.console),
        figures: NodeFigures {
            // The sum of nothing would be -0.
            jobs_per_second: processed.fold(0.0, |sum, rate| sum + rate),
            busy: workers.iter().map(|worker| worker.busy).sum(),
            workers: workers.len() as u64,
            connections: service.connections.len() as u64,
        },
    }
}
