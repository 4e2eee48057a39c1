//! The queues, which have numbers in the log and names elsewhere.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use weir_base::clock::Timestamp;
use weir_base::token_bucket::Rate;

use super::fair_queue::{FairQueue, LaneRules};
use super::snapshot::QueueFacts;
use super::waiting_list::WaitingList;
use crate::allocation::{Allocation, FairRules};
use crate::metrics::{JobsMetrics, QueueMetrics};
use crate::model::QueueName;
use crate::resources::{ResourceSet, ResourceTable, TypeClasses};
use crate::start_rate::QueueRate;
use crate::store::{InTimeStarts, QueueArrivals};

/// One queue.
#[derive(Debug)]
pub(crate) struct EngineQueue {
    pub(crate) name: QueueName,
    pub(crate) lane: WaitingList,
    /// Its lanes, if it has `fair_by` or if job types use shared resources. The jobs in them are those in `lane`.
    pub(crate) fair: Option<Box<FairQueue>>,
    pub(crate) paused: bool,
    /// How often its jobs start.
    pub(crate) rate: QueueRate,
    /// The shared resources that all its jobs use.
    pub(crate) uses: ResourceSet,
    /// Its time in [`super::state::EngineState::sleeping`].
    pub(crate) wakes_at: Option<Timestamp>,
    /// Bytes of its jobs that wait. `None`: they are not counted.
    pub(crate) bytes: Option<u64>,
    /// Number of its reserved jobs.
    pub(crate) reserved: u32,
    /// Number of its live jobs in any state. While there are any, the number can't be reused.
    pub(crate) jobs: u32,
    /// Removed by an operator, but jobs of it remain (reserved, in a set, or not yet forgotten). A
    /// push, or a job that returns to it, makes it visible again.
    pub(crate) hidden: bool,
    pub(crate) pushed_total: u64,
    pub(crate) processed_total: u64,
    pub(crate) failed_total: u64,
    pub(crate) arrivals: QueueArrivals,
    pub(crate) in_time: InTimeStarts,
    pub(crate) metrics: QueueMetrics,
}

impl EngineQueue {
    /// Wakes the tenants whose next job may start, and lets the queue owe no more starts than its rate allows to owe.
    pub(crate) fn wake(&mut self, now: Timestamp) {
        self.rate.limit_debt(now);
        if let Some(fair) = &mut self.fair {
            fair.wake(now);
        }
    }

    /// Marks a queue as removed while it still has jobs.
    pub(crate) fn hide(&mut self) {
        self.hidden = true;
        self.paused = false;
        self.pushed_total = 0;
        self.processed_total = 0;
        self.failed_total = 0;
        self.arrivals = QueueArrivals::default();
    }
}

/// All queues, by number and by name.
#[derive(Debug)]
pub(crate) struct Queues {
    by_number: Vec<Option<EngineQueue>>,
    by_name: HashMap<QueueName, u16, foldhash::fast::RandomState>,
    /// Every number below this is in use.
    vacant_from: usize,
    fair_rules: FairQueueRules,
    metrics: JobsMetrics,
}

/// The rules of queues: who shares their workers, and their limits.
#[derive(Clone, Debug, Default)]
pub(crate) struct FairQueueRules {
    rules: BTreeMap<QueueName, FairRules>,
    rates: BTreeMap<QueueName, Rate>,
    concurrency: BTreeMap<QueueName, u32>,
    /// The queues with a fresh lane.
    fresh: BTreeSet<QueueName>,
    /// Of job types.
    classes: Arc<TypeClasses>,
    /// The shared resources of queues.
    uses: BTreeMap<QueueName, ResourceSet>,
    /// Queues whose bytes are counted.
    sized: BTreeSet<QueueName>,
    /// Whether a queue or a tenant has a rate.
    has_rates: bool,
    seed: u64,
    /// Of the lanes that were made last.
    generation: u32,
}

impl Queues {
    pub(crate) fn new(metrics: JobsMetrics) -> Self {
        Self {
            by_number: Vec::new(),
            by_name: HashMap::default(),
            vacant_from: 0,
            fair_rules: FairQueueRules::default(),
            metrics,
        }
    }

    /// Returns the rules of queues, for [`Queues::restore_fair_rules`].
    pub(crate) fn fair_rules(&self) -> FairQueueRules {
        self.fair_rules.clone()
    }

    /// Continues with the rules of queues that were deleted.
    pub(crate) fn restore_fair_rules(&mut self, rules: FairQueueRules) {
        self.fair_rules = rules;
    }

    /// Applies changed rules. Returns the queues that got other lanes, whose jobs are to be added to them.
    pub(crate) fn allocate(
        &mut self,
        allocation: &Allocation,
        resources: &ResourceTable<u16>,
        random: &mut fastrand::Rng,
    ) -> Vec<u16> {
        let queues = || allocation.queues.iter();
        let fair = queues().filter_map(|(name, rules)| Some((name.clone(), rules.fair.clone()?)));
        self.fair_rules.rules = fair.collect();
        let rates = queues().filter_map(|(name, rules)| Some((name.clone(), rules.rate?)));
        self.fair_rules.rates = rates.collect();
        let most = queues().filter_map(|(name, rules)| Some((name.clone(), rules.concurrency?)));
        self.fair_rules.concurrency = most.collect();
        let sized = queues().filter(|(_, rules)| rules.counts_bytes).map(|(name, _)| name.clone());
        self.fair_rules.sized = sized.collect();
        let fresh = queues().filter(|(_, rules)| rules.has_fresh_lane());
        self.fair_rules.fresh = fresh.map(|(name, _)| name.clone()).collect();
        self.fair_rules.classes = Arc::clone(&resources.classes);
        self.fair_rules.uses = resources.of_queues().collect();
        let mut tenants = self.fair_rules.rules.values();
        self.fair_rules.has_rates =
            !self.fair_rules.rates.is_empty() || tenants.any(|fair| fair.limits.has_rates());
        if self.fair_rules.seed == 0 {
            self.fair_rules.seed = random.u64(1..);
        }
        let numbers: Vec<u16> = self.iter().map(|(number, _)| number).collect();
        numbers.into_iter().filter(|number| self.allocate_queue(*number)).collect()
    }

    /// Gives a queue the lanes of its rules. Returns whether they are others than before.
    fn allocate_queue(&mut self, number: u16) -> bool {
        let metrics = self.metrics.clone();
        let Self { by_number, fair_rules, .. } = self;
        let Some(queue) = by_number.get_mut(usize::from(number)).and_then(Option::as_mut) else {
            return false;
        };
        queue.rate.set(fair_rules.rates.get(&queue.name).copied());
        queue.uses = fair_rules.uses.get(&queue.name).copied().unwrap_or_default();
        let rules = LaneRules {
            fair: fair_rules.rules.get(&queue.name),
            classes: &fair_rules.classes,
            concurrency: fair_rules.concurrency.get(&queue.name).copied(),
            is_fresh: fair_rules.fresh.contains(&queue.name),
        };
        if rules.fair.is_none() && rules.classes.is_empty() {
            queue.fair = None;
            return false;
        }
        let is_new = !queue.fair.as_ref().is_some_and(|fair| fair.has_lanes_of(rules));
        if is_new {
            fair_rules.generation = fair_rules.generation.wrapping_add(1);
            let fair = FairQueue::new(rules, fair_rules.generation, fair_rules.seed, metrics);
            queue.fair = Some(Box::new(fair));
        }
        if let Some(fair) = &mut queue.fair {
            fair.apply(rules);
        }
        is_new
    }

    /// Returns whether the bytes of a queue are counted.
    pub(crate) fn is_sized(&self, number: u16) -> bool {
        self.fair_rules.sized.contains(&self.get(number).name)
    }

    /// Returns whether a queue or a tenant has a rate.
    pub(crate) const fn have_rates(&self) -> bool {
        self.fair_rules.has_rates
    }

    /// Wakes the tenants of all queues whose next job may start by `now`.
    pub(crate) fn wake_all(&mut self, now: Timestamp) {
        for queue in self.by_number.iter_mut().flatten() {
            queue.wake(now);
        }
    }

    /// Returns the number of queues, hidden ones included.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(crate) fn number(&self, name: &str) -> Option<u16> {
        self.by_name.get(name).copied()
    }

    /// Returns the lowest free number, or `None` if all are in use. Checks each number in use once,
    /// not once for each new queue.
    pub(crate) fn free_number(&mut self) -> Option<u16> {
        let is_given = |number: &usize| self.by_number.get(*number).is_some_and(Option::is_some);
        self.vacant_from = (self.vacant_from..).find(|number| !is_given(number)).unwrap_or(0);
        u16::try_from(self.vacant_from).ok()
    }

    /// Creates the queue `name` with this `number`.
    pub(crate) fn define(&mut self, number: u16, name: QueueName) {
        self.forget(number);
        let place = usize::from(number);
        if place >= self.by_number.len() {
            self.by_number.resize_with(place + 1, || None);
        }
        self.by_name.insert(name.clone(), number);
        self.by_number[place] = Some(EngineQueue {
            metrics: self.metrics.queue(name.as_str()),
            name,
            lane: WaitingList::default(),
            fair: None,
            paused: false,
            rate: QueueRate::default(),
            uses: ResourceSet::NONE,
            wakes_at: None,
            bytes: None,
            reserved: 0,
            jobs: 0,
            hidden: false,
            pushed_total: 0,
            processed_total: 0,
            failed_total: 0,
            arrivals: QueueArrivals::default(),
            in_time: InTimeStarts::default(),
        });
        self.allocate_queue(number);
        if self.is_sized(number) {
            // It has no jobs yet.
            self.get_mut(number).bytes = Some(0);
        }
        if let Some(fair) = &mut self.get_mut(number).fair {
            // It has no jobs yet.
            fair.laned_up_to = None;
        }
    }

    /// Removes a queue.
    pub(crate) fn forget(&mut self, number: u16) {
        let slot = self.by_number.get_mut(usize::from(number));
        if let Some(queue) = slot.and_then(Option::take) {
            self.by_name.remove(queue.name.as_str());
            self.vacant_from = self.vacant_from.min(number.into());
        }
    }

    /// Removes the hidden queues without jobs, which a crash leaves when it prevents the record of
    /// their removal.
    pub(crate) fn forget_removed(&mut self) {
        let over = self.iter().filter(|(_, queue)| queue.hidden && queue.jobs == 0);
        let over: Vec<u16> = over.map(|(number, _)| number).collect();
        for number in over {
            self.forget(number);
        }
    }

    /// Returns an existing queue.
    pub(crate) fn get(&self, number: u16) -> &EngineQueue {
        self.find(number).expect("a job's queue is there")
    }

    /// Returns a queue, if it exists.
    pub(crate) fn find(&self, number: u16) -> Option<&EngineQueue> {
        self.by_number.get(usize::from(number)).and_then(Option::as_ref)
    }

    /// Returns a queue for changes, if it exists.
    pub(crate) fn find_mut(&mut self, number: u16) -> Option<&mut EngineQueue> {
        self.by_number.get_mut(usize::from(number)).and_then(Option::as_mut)
    }

    /// Returns an existing queue for changes.
    pub(crate) fn get_mut(&mut self, number: u16) -> &mut EngineQueue {
        self.find_mut(number).expect("a job's queue is there")
    }

    /// Returns the name of a queue, if it exists.
    pub(crate) fn name(&self, number: u16) -> Option<QueueName> {
        self.by_number.get(usize::from(number))?.as_ref().map(|queue| queue.name.clone())
    }

    pub(crate) fn contains(&self, number: u16) -> bool {
        self.by_number.get(usize::from(number)).is_some_and(Option::is_some)
    }

    /// Iterates over all queues with their numbers, hidden ones included.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, &EngineQueue)> {
        // A closed range: an open one would overflow after the last number.
        let numbered = self.by_number.iter().zip(0..=u16::MAX);
        numbered.filter_map(|(queue, number)| Some((number, queue.as_ref()?)))
    }

    /// Returns the state of the queues for a snapshot.
    pub(crate) fn facts(&self) -> Vec<QueueFacts> {
        let facts = |(number, queue): (u16, &EngineQueue)| QueueFacts {
            number,
            name: queue.name.as_str().to_owned(),
            paused: queue.paused,
            hidden: queue.hidden,
        };
        self.iter().map(facts).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::JobServerLimits;

    #[test]
    fn as_many_queues_as_there_are_numbers_are_listed() {
        let mut queues = Queues::new(JobsMetrics::detached());
        for number in 0..=u16::MAX {
            let name =
                QueueName::parse(&format!("q{number}"), &JobServerLimits::default()).unwrap();
            queues.define(number, name);
        }
        assert_eq!((queues.iter().count(), queues.len()), (65_536, 65_536));
        assert_eq!(queues.iter().last().map(|(number, _)| number), Some(u16::MAX));
        assert_eq!(queues.free_number(), None, "a queue more is refused");
        queues.forget(u16::MAX);
        assert_eq!(queues.free_number(), Some(u16::MAX));
    }

    #[test]
    fn the_lowest_free_number_is_found_without_a_look_at_the_others() {
        let name =
            |number: u16| QueueName::parse(&format!("q{number}"), &JobServerLimits::default());
        let mut queues = Queues::new(JobsMetrics::detached());
        for expected in 0..1_000 {
            assert_eq!(queues.free_number(), Some(expected));
            queues.define(expected, name(expected).unwrap());
        }
        for gone in [700, 3, 500] {
            queues.forget(gone);
        }
        for expected in [3, 500, 700, 1_000] {
            assert_eq!(queues.free_number(), Some(expected));
            queues.define(expected, name(expected).unwrap());
        }
        // Free a number without `forget`, to show that `free_number` does not check lower ones
        // again.
        queues.by_number[0] = None;
        assert_eq!(queues.free_number(), Some(1_001));
    }
}
