//! Workers that share sockets: which may leave, which are stuck, whose record is repaired.

use weir_supervisor::control::WorkerPhase;
use weir_supervisor::selection::busy::BusyState;

use super::{Way, Worker, Workers};
use crate::sockets::Seat;

impl Workers {
    /// Returns the workers of an app that share its sockets and are in this phase.
    fn seats(&self, app: &str, phase: &WorkerPhase) -> Vec<(u64, Seat)> {
        let its = self.known.iter().filter(|(_, it)| it.app == app && it.phase == *phase);
        its.filter_map(|(generation, worker)| match worker.way {
            Way::Shared(seat) => Some((*generation, seat)),
            Way::Own(_) | Way::None => None,
        })
        .collect()
    }

    /// Returns whether no connection waits for a leaving worker alone.
    pub(super) fn may_leave(&self, worker: &Worker, seat: &Seat) -> bool {
        let ready = self.seats(&worker.app, &WorkerPhase::Ready);
        let others: Vec<Seat> = ready.into_iter().map(|(_, seat)| seat).collect();
        self.sockets.get(&worker.app).is_none_or(|app| app.may_leave(seat, &others))
    }

    /// Repairs records, and returns the workers to evict: those whose record has a request that is
    /// too old.
    pub(super) fn check_words(&self) -> Vec<(u64, String)> {
        let mut found = Vec::new();
        for (name, app) in self.sockets.iter() {
            let ready = self.seats(name, &WorkerPhase::Ready);
            let seats: Vec<Seat> = ready.iter().map(|(_, seat)| *seat).collect();
            app.look(&seats, self.clock.now());
            let limit = self.processes.get(name).and_then(|processes| processes.evict_after);
            let Some(limit) = limit.filter(|_| !self.draining.is_cancelled()) else { continue };
            for (generation, seat) in ready {
                let BusyState::Busy(age) = app.state(&seat) else { continue };
                if age >= limit && !self.evicted.contains(&generation) {
                    let seconds = age.as_secs_f64();
                    found.push((
                        generation,
                        format!("a request has been running for {seconds:.1} s"),
                    ));
                }
            }
        }
        found
    }
}
