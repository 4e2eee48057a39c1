//! Groups threads by the queues that they serve.

use std::collections::BTreeMap;

use super::fluid::{self, FluidOrder, FluidQueue, Team};
use crate::flow::{Drain, Flow};
use crate::observation::{Capsule, ObservedQueue, Ordering, SidekiqObservation};

/// If strict order explains all but this share of the completions, a capsule with unknown order
/// (Sidekiq 6) is taken to be strict.
const MISFIT_MAX: f64 = 0.2;

/// Queues linked by common processes, by name, with the capsules that serve them.
pub(super) struct LinkedQueues<'a> {
    queues: BTreeMap<&'a str, &'a ObservedQueue>,
    capsules: Vec<&'a Capsule>,
}

/// Returns the groups of all queues that are served and not paused.
pub(super) fn groups(jobs: &SidekiqObservation) -> Vec<LinkedQueues<'_>> {
    let served: BTreeMap<&str, &ObservedQueue> = jobs
        .queues
        .iter()
        .filter(|queue| !queue.paused)
        .map(|queue| (queue.name.as_str(), queue))
        .collect();
    let mut groups: Vec<LinkedQueues<'_>> = Vec::new();
    for capsule in jobs.serving().flat_map(|process| &process.capsules) {
        let own = capsule.queues.iter().filter_map(|it| served.get_key_value(it.name.as_str()));
        let own = own.map(|(name, queue)| (*name, *queue));
        let mut joined = LinkedQueues { queues: own.collect(), capsules: vec![capsule] };
        if joined.queues.is_empty() {
            continue;
        }
        let is_linked = |group: &mut LinkedQueues<'_>| {
            group.queues.keys().any(|name| joined.queues.contains_key(name))
        };
        for linked in groups.extract_if(.., is_linked).collect::<Vec<_>>() {
            joined.queues.extend(linked.queues);
            joined.capsules.extend(linked.capsules);
        }
        groups.push(joined);
    }
    groups
}

impl<'a> LinkedQueues<'a> {
    pub(super) fn queues(&self) -> impl Iterator<Item = &'a ObservedQueue> {
        self.queues.values().copied()
    }

    /// Returns the sum of the queues' flows, or `None` if one was not sampled twice.
    pub(super) fn flow(&self) -> Option<Flow> {
        let flows: Option<Vec<&Flow>> = self.queues().map(|it| it.flow.known()).collect();
        Flow::total(flows?)
    }

    fn threads(&self) -> u32 {
        self.capsules.iter().map(|capsule| capsule.concurrency).sum()
    }

    /// Returns one simulated queue per queue.
    pub(super) fn lines(&self) -> Vec<FluidQueue> {
        let threads = f64::from(self.threads());
        self.queues().map(|queue| line(queue, threads)).collect()
    }

    /// Returns the seconds until each queue is empty.
    pub(super) fn run(&self, lines: &[FluidQueue]) -> Vec<Option<f64>> {
        let strict = self.teams(lines, FluidOrder::Strict);
        if !self.capsules.iter().any(|capsule| capsule.ordering == Ordering::Unknown) {
            return fluid::run(lines, &strict);
        }
        let shared = self.teams(lines, FluidOrder::Shared);
        let misfits = [&strict, &shared].map(|teams| fluid::misfit(lines, teams));
        let is_strict = misfits[0] <= MISFIT_MAX || misfits[0] <= misfits[1];
        fluid::run(lines, if is_strict { &strict } else { &shared })
    }

    /// Merges capsules that serve the same queues in the same order. Capsules whose order is
    /// unknown get the order `unknown`.
    fn teams(&self, lines: &[FluidQueue], unknown: FluidOrder) -> Vec<Team> {
        let mut teams: Vec<Team> = Vec::new();
        for capsule in &self.capsules {
            let team = self.team(capsule, lines, unknown);
            let same = |it: &&mut Team| (it.order, &it.queues) == (team.order, &team.queues);
            match teams.iter_mut().find(same) {
                Some(known) => known.threads += team.threads,
                None => teams.push(team),
            }
        }
        teams
    }

    fn team(&self, capsule: &Capsule, lines: &[FluidQueue], unknown: FluidOrder) -> Team {
        let order = match capsule.ordering {
            Ordering::Strict => FluidOrder::Strict,
            Ordering::Random | Ordering::Weighted => FluidOrder::Shared,
            Ordering::Unknown => unknown,
        };
        let queues = capsule.queues.iter().filter_map(|served| {
            let place = self.queues.keys().position(|name| *name == served.name)?;
            let weight = match capsule.ordering {
                // Without a known order, the observed rate serves as weight.
                Ordering::Unknown => lines[place].served,
                _ => f64::from(served.weight.max(1)),
            };
            Some((place, weight))
        });
        Team { threads: f64::from(capsule.concurrency), order, queues: queues.collect() }
    }
}

/// Returns the simulated queue. Jobs that the threads complete within a second are not a backlog.
fn line(queue: &ObservedQueue, threads: f64) -> FluidQueue {
    let flow = queue.flow.known().copied().unwrap_or_default();
    let (length, served) = (queue.length as f64, flow.served_per_second());
    let change = match flow.drain() {
        Drain::After(_) | Drain::Grows => flow.net_per_second(),
        Drain::Stands | Drain::Empty => 0.0,
    };
    let waits = length > threads.max(served);
    FluidQueue { length, arrivals: flow.arrivals_per_second, served, change, waits }
}
