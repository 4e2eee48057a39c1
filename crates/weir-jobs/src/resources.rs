//! Shared resources: limits that jobs of several types and queues have together.
//!
//! A job uses the resources that name its type, and those that name its queue. It starts only if all of them have
//! room. Which jobs of a queue may start therefore depends on their types only: jobs whose types use the same
//! resources are one class ([`TypeClasses`]), and a store keeps the jobs of a class together, so that no fetch
//! examines those that may not start.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use weir_base::clock::Timestamp;

use crate::allocation::ResourceRules;
use crate::key_path::KeyPath;
use crate::model::QueueName;
use crate::settings::RESOURCES_MAX;
use crate::start_rate::QueueRate;

/// The state of one shared resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceCounts {
    pub name: String,
    /// The most jobs at once.
    pub concurrency: Option<u32>,
    /// How often jobs may start, as in the settings.
    pub rate: Option<String>,
    /// Jobs in progress.
    pub used: u64,
    /// Jobs that wait because the resource has no room.
    pub blocked: u64,
}

/// A set of resources, by their numbers in the order of their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ResourceSet(u64);

impl ResourceSet {
    pub(crate) const NONE: Self = Self(0);

    fn of_one(number: usize) -> Self {
        Self(1 << number)
    }

    pub(crate) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns whether it has none of `blocked`.
    pub(crate) const fn is_open(self, blocked: Self) -> bool {
        self.0 & blocked.0 == 0
    }

    fn numbers(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let number = left.trailing_zeros() as usize;
            // Clears the lowest bit.
            left &= left.checked_sub(1)?;
            Some(number)
        })
    }
}

/// A job type, by a hash of its name. A type with the hash of another one would use its resources, so nobody gains by
/// finding one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TypeKey(u64);

impl TypeKey {
    pub(crate) fn of(jobtype: &str) -> Self {
        Self(xxhash_rust::xxh3::xxh3_64(jobtype.as_bytes()))
    }
}

/// The job types whose jobs use the same resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TypeClass(pub(crate) u16);

impl TypeClass {
    /// All types that use no resource.
    pub(crate) const NONE: Self = Self(0);
}

/// The classes of job types.
#[derive(Clone, Debug)]
pub(crate) struct TypeClasses {
    of: HashMap<TypeKey, TypeClass, foldhash::fast::RandomState>,
    /// The resources of each class, by its number.
    uses: Vec<ResourceSet>,
    jobtype: Option<KeyPath>,
}

impl Default for TypeClasses {
    fn default() -> Self {
        Self {
            of: HashMap::default(),
            uses: vec![ResourceSet::NONE],
            jobtype: "/jobtype".parse().ok(),
        }
    }
}

impl TypeClasses {
    fn new(rules: &ResourceRules) -> Self {
        let mut by_type = BTreeMap::<&str, ResourceSet>::new();
        for (number, resource) in rules.of.values().take(RESOURCES_MAX).enumerate() {
            for jobtype in &resource.types {
                let uses = by_type.entry(jobtype).or_default();
                *uses = uses.union(ResourceSet::of_one(number));
            }
        }
        let mut classes = Self::default();
        // In the order of types, so that a class keeps its number if a resource without types is added.
        for (jobtype, uses) in by_type {
            let class = classes.class_with(uses);
            classes.of.insert(TypeKey::of(jobtype), class);
        }
        classes
    }

    fn class_with(&mut self, uses: ResourceSet) -> TypeClass {
        let known = self.uses.iter().position(|known| *known == uses);
        let number = known.unwrap_or_else(|| {
            self.uses.push(uses);
            self.uses.len() - 1
        });
        // Settings of 65,536 types would be needed for more.
        TypeClass(u16::try_from(number).unwrap_or(0))
    }

    /// Returns whether jobs of all types are of one class.
    pub(crate) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Returns whether all types are of the same classes.
    pub(crate) fn has_classes_of(&self, other: &Self) -> bool {
        self.of == other.of
    }

    pub(crate) fn of_type(&self, jobtype: TypeKey) -> TypeClass {
        self.of.get(&jobtype).copied().unwrap_or(TypeClass::NONE)
    }

    /// Returns the class of a job with this text.
    pub(crate) fn of_job(&self, json: &[u8]) -> TypeClass {
        if self.is_empty() {
            return TypeClass::NONE;
        }
        let jobtype = self.jobtype.as_ref().and_then(|path| path.find(json));
        jobtype.map_or(TypeClass::NONE, |jobtype| self.of_type(TypeKey::of(&jobtype)))
    }

    pub(crate) fn uses(&self, class: TypeClass) -> ResourceSet {
        self.uses.get(usize::from(class.0)).copied().unwrap_or_default()
    }
}

/// The pairs of classes that keep lanes blocked, with a number for each: the class of a lane's oldest job, and in a queue
/// with a fresh lane that of its newest.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockedEnds(Vec<(TypeClass, TypeClass)>);

impl BlockedEnds {
    pub(crate) fn number(&mut self, oldest: TypeClass, newest: TypeClass) -> u16 {
        let known = self.0.iter().position(|known| *known == (oldest, newest));
        let number = known.unwrap_or_else(|| {
            self.0.push((oldest, newest));
            self.0.len() - 1
        });
        // Settings with 256 sets of resources would be needed for more.
        u16::try_from(number).unwrap_or(0)
    }

    pub(crate) fn oldest(&self, number: u16) -> TypeClass {
        self.0.get(usize::from(number)).map_or(TypeClass::NONE, |ends| ends.0)
    }

    pub(crate) fn newest(&self, number: u16) -> TypeClass {
        self.0.get(usize::from(number)).map_or(TypeClass::NONE, |ends| ends.1)
    }

    /// Returns whether one of both jobs may start.
    pub(crate) fn is_open(&self, number: u16, classes: &TypeClasses, blocked: ResourceSet) -> bool {
        let ends = [self.oldest(number), self.newest(number)];
        ends.into_iter().any(|class| classes.uses(class).is_open(blocked))
    }
}

/// The jobs in progress of each resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResourceUse {
    running: Vec<u32>,
    /// Resources that may have room again since the last [`ResourceUse::take_freed`].
    freed: ResourceSet,
}

impl ResourceUse {
    pub(crate) fn add(&mut self, uses: ResourceSet) {
        for number in uses.numbers() {
            if number >= self.running.len() {
                self.running.resize(number + 1, 0);
            }
            self.running[number] += 1;
        }
    }

    pub(crate) fn remove(&mut self, uses: ResourceSet) {
        for number in uses.numbers() {
            self.running[number] -= 1;
        }
        self.free(uses);
    }

    /// Notes that jobs of these resources may start again.
    pub(crate) const fn free(&mut self, uses: ResourceSet) {
        self.freed = self.freed.union(uses);
    }

    /// Begins to count anew, because the resources have changed.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns what [`ResourceUse::take_freed`] will return.
    pub(crate) const fn freed(&self) -> ResourceSet {
        self.freed
    }

    pub(crate) fn take_freed(&mut self) -> ResourceSet {
        std::mem::take(&mut self.freed)
    }

    fn running(&self, number: usize) -> u32 {
        self.running.get(number).copied().unwrap_or(0)
    }
}

/// One resource.
#[derive(Debug)]
struct Resource<Q> {
    name: String,
    concurrency: Option<u32>,
    is_temporary: bool,
    rate: QueueRate,
    rate_text: Option<String>,
    /// Queues that fetches wait for, whose jobs wait for this resource; longest waiting first.
    waiting: VecDeque<Q>,
}

impl<Q> Resource<Q> {
    fn is_full(&self, running: u32) -> bool {
        self.concurrency.is_some_and(|most| running >= most)
    }
}

/// All resources. `Q` identifies a queue.
#[derive(Debug)]
pub(crate) struct ResourceTable<Q> {
    resources: Vec<Resource<Q>>,
    pub(crate) classes: Arc<TypeClasses>,
    by_queue: HashMap<QueueName, ResourceSet, foldhash::fast::RandomState>,
    /// Those with a limit of jobs at once that holds after a crash as well.
    counted: ResourceSet,
}

impl<Q> Default for ResourceTable<Q> {
    fn default() -> Self {
        Self {
            resources: Vec::new(),
            classes: Arc::default(),
            by_queue: HashMap::default(),
            counted: ResourceSet::NONE,
        }
    }
}

impl<Q: Clone + PartialEq> ResourceTable<Q> {
    /// Applies changed rules. Starts count for the rates of resources that remain.
    pub(crate) fn apply(&mut self, rules: &ResourceRules) {
        let mut old: HashMap<String, QueueRate> = std::mem::take(&mut self.resources)
            .into_iter()
            .map(|resource| (resource.name, resource.rate))
            .collect();
        let mut by_queue = HashMap::<QueueName, ResourceSet, _>::default();
        for (number, (name, limits)) in rules.of.iter().take(RESOURCES_MAX).enumerate() {
            let mut rate = old.remove(name).unwrap_or_default();
            rate.set(limits.rate.map(crate::start_rate::StartRate::rate));
            for queue in &limits.queues {
                let uses = by_queue.entry(queue.clone()).or_default();
                *uses = uses.union(ResourceSet::of_one(number));
            }
            self.resources.push(Resource {
                name: name.clone(),
                concurrency: limits.concurrency,
                is_temporary: limits.is_temporary,
                rate,
                rate_text: limits.rate.map(|rate| rate.to_string()),
                waiting: VecDeque::new(),
            });
        }
        self.by_queue = by_queue;
        self.classes = Arc::new(TypeClasses::new(rules));
        self.counted =
            self.with(|resource| resource.concurrency.is_some() && !resource.is_temporary);
    }

    /// Forgets which queues wait and which jobs have started, because all jobs were deleted.
    pub(crate) fn forget_jobs(&mut self) {
        for resource in &mut self.resources {
            resource.waiting.clear();
            resource.rate.begin_anew();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    fn with(&self, is_meant: impl Fn(&Resource<Q>) -> bool) -> ResourceSet {
        let meant = self.resources.iter().enumerate().filter(|(_, resource)| is_meant(resource));
        meant.fold(ResourceSet::NONE, |set, (number, _)| set.union(ResourceSet::of_one(number)))
    }

    /// Returns the resources that all jobs of a queue use.
    pub(crate) fn of_queue(&self, queue: &str) -> ResourceSet {
        self.by_queue.get(queue).copied().unwrap_or_default()
    }

    /// Returns the queues whose jobs all use resources, with these.
    pub(crate) fn of_queues(&self) -> impl Iterator<Item = (QueueName, ResourceSet)> {
        self.by_queue.iter().map(|(queue, uses)| (queue.clone(), *uses))
    }

    /// Returns the resources that a job uses.
    pub(crate) fn of_job(&self, queue: &str, jobtype: TypeKey) -> ResourceSet {
        if self.is_empty() {
            return ResourceSet::NONE;
        }
        self.of_queue(queue).union(self.classes.uses(self.classes.of_type(jobtype)))
    }

    /// Returns whether one of these resources limits the jobs at once, also after a crash.
    pub(crate) const fn is_counted(&self, uses: ResourceSet) -> bool {
        !uses.is_open(self.counted)
    }

    /// Lets no resource owe more starts than its rate allows to owe. Needed if the clock was set back since the last start.
    pub(crate) fn limit_debt(&mut self, now: Timestamp) {
        for resource in &mut self.resources {
            resource.rate.limit_debt(now);
        }
    }

    /// Returns the resources of which no job may start now.
    pub(crate) fn blocked(&self, used: &ResourceUse, now: Timestamp) -> ResourceSet {
        let mut blocked = ResourceSet::NONE;
        for (number, resource) in self.resources.iter().enumerate() {
            let is_full = resource.is_full(used.running(number));
            if is_full || resource.rate.blocked_until(now).is_some() {
                blocked = blocked.union(ResourceSet::of_one(number));
            }
        }
        blocked
    }

    /// Returns the resources that queues wait for although a job may start.
    pub(crate) fn open_again(&self, used: &ResourceUse, now: Timestamp) -> ResourceSet {
        let blocked = self.blocked(used, now);
        self.with(|resource| !resource.waiting.is_empty()).without(blocked)
    }

    /// Counts a job that starts for the rates of its resources.
    pub(crate) fn start(&mut self, uses: ResourceSet, now: Timestamp) {
        for number in uses.numbers() {
            self.resources[number].rate.start(now);
        }
    }

    /// Returns when the next job may start by their rates, for those of which none may now.
    pub(crate) fn next_starts(&self, now: Timestamp) -> Vec<(String, Timestamp)> {
        let next = |resource: &Resource<Q>| {
            Some((resource.name.clone(), resource.rate.blocked_until(now)?))
        };
        self.resources.iter().filter_map(next).collect()
    }

    /// Remembers that a fetch waits for jobs of `queue`, which wait for these resources. Returns when they may start
    /// by their rates, if nothing else prevents that.
    pub(crate) fn wait(
        &mut self,
        queue: &Q,
        blocked: ResourceSet,
        used: &ResourceUse,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let mut latest = None;
        let mut is_full = false;
        for number in blocked.numbers() {
            let resource = &mut self.resources[number];
            if !resource.waiting.contains(queue) {
                resource.waiting.push_back(queue.clone());
            }
            is_full |= resource.is_full(used.running(number));
            latest = latest.max(resource.rate.blocked_until(now));
        }
        latest.filter(|_| !is_full)
    }

    /// Returns whether a queue waits for one of these resources.
    pub(crate) fn are_awaited(&self, freed: ResourceSet) -> bool {
        let mut resources = freed.numbers().filter_map(|number| self.resources.get(number));
        resources.any(|resource| !resource.waiting.is_empty())
    }

    /// Returns the queues that wait for one of these resources, longest waiting first.
    pub(crate) fn take_waiting(&mut self, freed: ResourceSet) -> Vec<Q> {
        let mut queues = Vec::new();
        for number in freed.numbers() {
            let Some(resource) = self.resources.get_mut(number) else { continue };
            for queue in resource.waiting.drain(..) {
                if !queues.contains(&queue) {
                    queues.push(queue);
                }
            }
        }
        queues
    }

    /// Returns the state of all resources, without the jobs that wait for them.
    pub(crate) fn counts(&self, used: &ResourceUse) -> Vec<ResourceCounts> {
        let counts = |(number, resource): (usize, &Resource<Q>)| ResourceCounts {
            name: resource.name.clone(),
            concurrency: resource.concurrency,
            rate: resource.rate_text.clone(),
            used: u64::from(used.running(number)),
            blocked: 0,
        };
        self.resources.iter().enumerate().map(counts).collect()
    }

    /// Adds jobs that wait because these resources are blocked. Returns the numbers of jobs by the names of resources.
    pub(crate) fn name_blocked(
        &self,
        waiting: &[(ResourceSet, u64)],
        blocked: ResourceSet,
        counts: &mut [ResourceCounts],
    ) -> Vec<(String, u64)> {
        let mut by_name = Vec::new();
        for (number, counted) in counts.iter_mut().enumerate() {
            let this = ResourceSet::of_one(number).intersection(blocked);
            let jobs = waiting.iter().filter(|(uses, _)| !uses.is_open(this));
            let jobs: u64 = jobs.map(|(_, jobs)| jobs).sum();
            if jobs > 0 {
                counted.blocked += jobs;
                by_name.push((counted.name.clone(), jobs));
            }
        }
        by_name
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::allocation::ResourceLimits;

    fn rules(resources: &[(&str, u32, &str)]) -> ResourceRules {
        let limits = |most: u32, types: &str| ResourceLimits {
            concurrency: Some(most),
            types: types.split_whitespace().map(str::to_owned).collect(),
            ..ResourceLimits::default()
        };
        let of =
            resources.iter().map(|(name, most, types)| ((*name).to_owned(), limits(*most, types)));
        ResourceRules { of: of.collect() }
    }

    fn set(numbers: &[usize]) -> ResourceSet {
        numbers
            .iter()
            .fold(ResourceSet::NONE, |set, number| set.union(ResourceSet::of_one(*number)))
    }

    #[test]
    fn types_with_the_same_resources_are_one_class() {
        let classes = TypeClasses::new(&rules(&[("a", 1, "X Y Z"), ("b", 1, "Z X W")]));
        let class = |jobtype: &str| classes.of_type(TypeKey::of(jobtype));
        assert_eq!(class("X"), class("Z"));
        assert_eq!(classes.uses(class("X")), set(&[0, 1]));
        assert_eq!(classes.uses(class("Y")), set(&[0]));
        assert_eq!(classes.uses(class("W")), set(&[1]));
        assert_eq!(class("other"), TypeClass::NONE);
        let json = br#"{"jid":"1","jobtype":"\u0058","args":[]}"#;
        assert_eq!(classes.of_job(json), class("X"));
        // A resource without types, and one more limit, change no class.
        let more = TypeClasses::new(&rules(&[("0", 1, ""), ("a", 5, "X Y Z"), ("b", 1, "Z X W")]));
        assert!(more.has_classes_of(&classes));
        assert!(!TypeClasses::new(&rules(&[("a", 1, "X Y Z W")])).has_classes_of(&classes));
    }

    #[test]
    fn a_resource_is_blocked_while_it_is_full_or_its_rate_is_used_up() {
        let mut all = rules(&[("a", 2, "X"), ("b", 1, "X")]);
        all.of.get_mut("b").unwrap().concurrency = None;
        all.of.get_mut("b").unwrap().rate = Some("1/s".parse().unwrap());
        let (mut table, mut used) = (ResourceTable::<u16>::default(), ResourceUse::default());
        table.apply(&all);
        let now = Timestamp::from_millis(5_000);
        let uses = table.of_job("q", TypeKey::of("X"));
        assert_eq!((uses, table.blocked(&used, now)), (set(&[0, 1]), ResourceSet::NONE));
        used.add(uses);
        table.start(uses, now);
        let second = now + Duration::from_secs(1);
        assert_eq!(table.blocked(&used, now), set(&[1]));
        assert_eq!(table.wait(&7, set(&[1]), &used, now), Some(second));
        assert_eq!(table.blocked(&used, second), ResourceSet::NONE);
        used.add(uses);
        table.start(uses, second);
        assert_eq!(table.blocked(&used, second), set(&[0, 1]));
        assert_eq!(table.wait(&8, set(&[0, 1]), &used, second), None, "the end of a job wakes it");
        used.remove(uses);
        assert_eq!(used.take_freed(), uses);
        assert_eq!(table.take_waiting(uses), [8, 7]);
        assert_eq!(table.take_waiting(uses), Vec::<u16>::new());
        assert_eq!(table.blocked(&used, second + Duration::from_secs(1)), ResourceSet::NONE);
        assert!(table.is_counted(uses) && !table.is_counted(set(&[1])));
    }
}
