//! Workers with a request that is too old: they get no new requests, and are evicted once none of
//! their other requests may still finish. One that finishes that request after all gets requests
//! again.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Workers;

impl Workers {
    /// Returns the workers to evict: those with a request that is too old and no other that may
    /// still finish, for which they get the same time again. From the first check on they get no
    /// new requests.
    pub(super) fn find_stuck(&mut self) -> Vec<(u64, String)> {
        let aged = self.processes.iter().filter_map(|(app, it)| Some((app, it.evict_after?)));
        let aged: Vec<(String, Duration)> = aged.map(|(app, age)| (app.clone(), age)).collect();
        aged.iter().flat_map(|(app, age)| self.find_stuck_in_app(app, *age)).collect()
    }

    fn find_stuck_in_app(&mut self, app: &str, age: Duration) -> Vec<(u64, String)> {
        let (mut to_evict, mut overdue_now) = (Vec::new(), BTreeSet::new());
        for overdue in self.apps.overdue(app, age) {
            let is_overdue_worker = |worker: &super::Worker| {
                worker.app == app && worker.address() == Some(&overdue.address)
            };
            let worker = self.known.iter().find(|(_, worker)| is_overdue_worker(worker));
            let Some((&generation, _)) = worker else { continue };
            overdue_now.insert(generation);
            if self.stuck.insert(generation) {
                self.set_held_back(generation, true);
            }
            let is_over = overdue.bystanders == 0 || overdue.oldest >= 2 * age;
            if is_over && !self.evicted.contains(&generation) {
                let seconds = overdue.oldest.as_secs_f64();
                to_evict
                    .push((generation, format!("a request has been running for {seconds:.1} s")));
            }
        }
        for generation in self.find_recovered(app, &overdue_now) {
            tracing::info!(generation, "its slow request has ended; it receives requests again");
            self.stuck.remove(&generation);
            self.set_held_back(generation, false);
        }
        to_evict
    }

    /// Returns the stuck workers that have recovered.
    fn find_recovered(&self, app: &str, overdue: &BTreeSet<u64>) -> Vec<u64> {
        let has_recovered = |generation: &&u64| {
            let is_of_app = self.known.get(generation).is_some_and(|worker| worker.app == app);
            is_of_app && !overdue.contains(generation) && !self.evicted.contains(generation)
        };
        self.stuck.iter().filter(has_recovered).copied().collect()
    }

    fn set_held_back(&self, generation: u64, is_held: bool) {
        let Some(worker) = self.known.get(&generation) else { return };
        if let Some(address) = worker.address()
            && let Err(error) = self.apps.hold_back(&worker.app, address, is_held)
        {
            tracing::warn!(%error, "a worker of an app that is not served here is stuck");
        }
    }
}
