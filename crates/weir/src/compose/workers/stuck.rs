//! Workers of which a request is too old: they get nothing new, and are evicted once nothing of theirs
//! may still finish. One that finishes that request after all gets requests again.

use std::collections::BTreeSet;
use std::time::Duration;

use weir_front::view::AppView;

use super::Workers;

impl Workers {
    /// Those to evict: with a request that is too old and no other that may still finish, for which
    /// there is the same time once more. From the first look on they get nothing new.
    pub(super) fn find_stuck(&mut self) -> Vec<(u64, String)> {
        let aged = self.processes.iter().filter_map(|(app, it)| Some((app, it.evict_after?)));
        let aged: Vec<(String, Duration)> = aged.map(|(app, age)| (app.clone(), age)).collect();
        aged.iter().flat_map(|(app, age)| self.find_stuck_of(app, *age)).collect()
    }

    fn find_stuck_of(&mut self, app: &str, age: Duration) -> Vec<(u64, String)> {
        let (mut found, mut overdue_now, mut is_new) = (Vec::new(), BTreeSet::new(), false);
        for overdue in self.apps.overdue(app, age) {
            let is_it = |worker: &super::Worker| {
                worker.app == app && worker.address() == Some(&overdue.address)
            };
            let known = self.known.iter().find(|(_, worker)| is_it(worker));
            let Some((&generation, _)) = known else { continue };
            overdue_now.insert(generation);
            is_new |= self.stuck.insert(generation);
            let is_over = overdue.bystanders == 0 || overdue.oldest >= 2 * age;
            if is_over && !self.evicted.contains(&generation) {
                let seconds = overdue.oldest.as_secs_f64();
                found.push((generation, format!("a request has been running for {seconds:.1} s")));
            }
        }
        let recovered = self.recovered(app, &overdue_now);
        for generation in &recovered {
            tracing::info!(generation, "its old request has ended: it gets requests again");
            self.stuck.remove(generation);
        }
        if is_new || !recovered.is_empty() {
            self.give(app);
        }
        found
    }

    /// Those of the stuck that are so no more. Only without any request: what they have of before
    /// counts apart, and would come on top of their concurrency.
    fn recovered(&self, app: &str, overdue: &BTreeSet<u64>) -> Vec<u64> {
        let may_be = |generation: &&u64| {
            let is_of_app = self.known.get(generation).is_some_and(|worker| worker.app == app);
            is_of_app && !overdue.contains(generation) && !self.evicted.contains(generation)
        };
        let candidates: Vec<u64> = self.stuck.iter().filter(may_be).copied().collect();
        if candidates.is_empty() {
            return candidates;
        }
        let view = self.apps.view().into_iter().find(|view| view.name == app);
        let is_free = |generation: &u64| {
            let address = self.known.get(generation).and_then(|worker| worker.address());
            let address = address.map(ToString::to_string);
            view.as_ref().zip(address).is_none_or(|(view, address)| !has_requests(view, &address))
        };
        candidates.into_iter().filter(is_free).collect()
    }
}

fn has_requests(app: &AppView, address: &str) -> bool {
    app.workers.iter().any(|worker| worker.address == address && worker.requests > 0)
}
