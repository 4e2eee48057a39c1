//! Workers that share sockets: which may leave, which are stuck, whose record is repaired.

use weir_supervisor::control::WorkerPhase;
use weir_supervisor::selection::busy::BusyState;

use super::{Worker, WorkerRoute, Workers};
use crate::sockets::SocketWorker;

impl Workers {
    /// Returns the workers of an app that share its sockets and are in this phase.
    fn socket_workers(&self, app: &str, phase: &WorkerPhase) -> Vec<(u64, SocketWorker)> {
        let workers = self.known.iter().filter(|(_, it)| it.app == app && it.phase == *phase);
        workers
            .filter_map(|(generation, worker)| match worker.route {
                WorkerRoute::Shared(socket_worker) => Some((*generation, socket_worker)),
                WorkerRoute::Proxied(_) | WorkerRoute::None => None,
            })
            .collect()
    }

    /// Returns whether no connection waits for a leaving worker alone.
    pub(super) fn can_leave(&self, worker: &Worker, socket_worker: &SocketWorker) -> bool {
        let ready = self.socket_workers(&worker.app, &WorkerPhase::Ready);
        let others: Vec<SocketWorker> =
            ready.into_iter().map(|(_, socket_worker)| socket_worker).collect();
        self.sockets.get(&worker.app).is_none_or(|app| app.can_leave(socket_worker, &others))
    }

    /// Repairs records, and returns the workers to evict: those whose record has a request that is
    /// too old.
    pub(super) fn check_records(&self) -> Vec<(u64, String)> {
        let mut to_evict = Vec::new();
        for (name, app) in self.sockets.iter() {
            let ready = self.socket_workers(name, &WorkerPhase::Ready);
            let socket_workers: Vec<SocketWorker> =
                ready.iter().map(|(_, socket_worker)| *socket_worker).collect();
            app.repair_stale_claims(&socket_workers, self.clock.now());
            let limit = self.processes.get(name).and_then(|processes| processes.evict_after);
            let Some(limit) = limit.filter(|_| !self.draining.is_cancelled()) else { continue };
            for (generation, socket_worker) in ready {
                let BusyState::Busy(age) = app.state(&socket_worker) else { continue };
                if age >= limit && !self.evicted.contains(&generation) {
                    let seconds = age.as_secs_f64();
                    to_evict.push((
                        generation,
                        format!("a request has been running for {seconds:.1} s"),
                    ));
                }
            }
        }
        to_evict
    }
}
