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
        aged.iter().flat_map(|(app, age)| self.find_stuck_of(app, *age)).collect()
    }

    fn find_stuck_of(&mut self, app: &str, age: Duration) -> Vec<(u64, String)> {
        let (mut found, mut overdue_now) = (Vec::new(), BTreeSet::new());
        for overdue in self.apps.overdue(app, age) {
            let is_it = |worker: &super::Worker| {
                worker.app == app && worker.address() == Some(&overdue.address)
            };
            let known = self.known.iter().find(|(_, worker)| is_it(worker));
            let Some((&generation, _)) = known else { continue };
            overdue_now.insert(generation);
            if self.stuck.insert(generation) {
                self.hold_back(generation, true);
            }
            let is_over = overdue.bystanders == 0 || overdue.oldest >= 2 * age;
            if is_over && !self.evicted.contains(&generation) {
                let seconds = overdue.oldest.as_secs_f64();
                found.push((generation, format!("a request has been running for {seconds:.1} s")));
            }
        }
        for generation in self.recovered(app, &overdue_now) {
            tracing::info!(generation, "its slow request has ended; it receives requests again");
            self.stuck.remove(&generation);
            self.hold_back(generation, false);
        }
        found
    }

    /// Returns the stuck workers that have recovered.
    fn recovered(&self, app: &str, overdue: &BTreeSet<u64>) -> Vec<u64> {
        let is_so_no_more = |generation: &&u64| {
            let is_of_app = self.known.get(generation).is_some_and(|worker| worker.app == app);
            is_of_app && !overdue.contains(generation) && !self.evicted.contains(generation)
        };
        self.stuck.iter().filter(is_so_no_more).copied().collect()
    }

    fn hold_back(&self, generation: u64, is_held: bool) {
        let Some(worker) = self.known.get(&generation) else { return };
        if let Some(address) = worker.address()
            && let Err(error) = self.apps.hold_back(&worker.app, address, is_held)
        {
            tracing::warn!(%error, "a worker of an app that is not served here is stuck");
        }
    }
}
