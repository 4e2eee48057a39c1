//! Limits of queues and of shared resources: how many jobs run at once, and how often they start.
//!
//! Redis decides: the script that reserves jobs counts the reservations of all nodes and the starts. What a node
//! reads before that ([`LimitReadings`]) says which queues are worth the attempt. Jobs that use a resource by their
//! queue are counted by the reservations of its queues, so none can be forgotten or counted twice. Jobs that use it
//! by their type are members of a set, which is compared with the reservations (`take.lua`).

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use weir_base::token_bucket::Rate;
use weir_jobs::allocation::{Allocation, ResourceLimits};
use weir_jobs::lanes::BlockedJobs;
use weir_jobs::model::QueueName;
use weir_jobs::resources::ResourceCounts;

use super::blocked_names;
use super::keys::StoreKeys;
use super::rate_reading::{RateReading, Starts};
use super::replies::QueueReading;
use super::type_classes::TypeClasses;

/// The limits of some queues, in the order of these.
#[derive(Debug)]
pub(super) struct QueueLimits {
    queues: Vec<QueueRules>,
    resources: Vec<ResourceRules>,
    classes: TypeClasses,
}

#[derive(Debug)]
struct QueueRules {
    /// Whether it is a list of blocked jobs of another queue.
    is_blocked_list: bool,
    concurrency: Option<u32>,
    rate: Option<Rate>,
    /// Places in the resources.
    uses: Vec<usize>,
}

#[derive(Debug)]
struct ResourceRules {
    name: String,
    limits: ResourceLimits,
}

/// What was read of the limits.
#[derive(Debug, Default)]
pub(super) struct LimitReadings {
    /// Jobs in progress of each queue.
    pub(super) reserved: BTreeMap<QueueName, u32>,
    /// What the rate of each resource owes.
    pub(super) rates: Vec<Option<RateReading>>,
    /// Jobs in progress that use each resource by their type, or nothing.
    pub(super) by_type: Vec<u64>,
}

impl QueueLimits {
    pub(super) fn of(allocation: &Allocation, queues: &[QueueName]) -> Self {
        let used = allocation.resources.of.iter();
        let used = used.filter(|(_, limits)| {
            !limits.types.is_empty() || queues.iter().any(|it| limits.queues.contains(it))
        });
        let resources: Vec<ResourceRules> = used
            .map(|(name, limits)| ResourceRules { name: name.clone(), limits: limits.clone() })
            .collect();
        let named = resources.iter().map(|resource| (&*resource.name, &resource.limits.types));
        let classes = TypeClasses::of(named);
        let rules = |queue: &QueueName| {
            let rules = allocation.of(queue);
            let uses = resources.iter().enumerate();
            let uses = uses.filter(|(_, it)| it.limits.queues.contains(queue));
            QueueRules {
                is_blocked_list: blocked_names::split_name(queue.as_str())
                    .is_some_and(|(_, class)| classes.place(class).is_some()),
                concurrency: rules.concurrency,
                rate: rules.rate,
                uses: uses.map(|(place, _)| place).collect(),
            }
        };
        Self { queues: queues.iter().map(rules).collect(), resources, classes }
    }

    pub(super) const fn classes(&self) -> &TypeClasses {
        &self.classes
    }

    /// Returns the keys of the jobs in progress of the resources that have types.
    pub(super) fn running_keys(&self, keys: &StoreKeys) -> Vec<String> {
        self.typed().map(|(_, resource)| resource.running_key(keys)).collect()
    }

    /// Returns the resources that have types, with their places.
    fn typed(&self) -> impl Iterator<Item = (usize, &ResourceRules)> {
        let all = self.resources.iter().enumerate();
        all.filter(|(_, resource)| !resource.limits.types.is_empty())
    }

    /// Returns whether a queue uses a resource that has types as well.
    pub(super) fn have_queues_and_types(&self) -> bool {
        let mut used = self.queues.iter().flat_map(|queue| &queue.uses);
        used.any(|place| !self.resources[*place].limits.types.is_empty())
    }

    /// Returns the numbers of jobs, which are those of the resources that have types, for each resource.
    pub(super) fn of_each_resource(&self, running: &[u64]) -> Vec<u64> {
        let mut of_each = vec![0; self.resources.len()];
        for ((place, _), running) in self.typed().zip(running) {
            of_each[place] = *running;
        }
        of_each
    }

    pub(super) const fn has_resources(&self) -> bool {
        !self.resources.is_empty()
    }

    /// Returns the limits of the queues alone.
    pub(super) fn without_resources(mut self) -> Self {
        self.resources.clear();
        self.classes = TypeClasses::default();
        self.queues.iter_mut().for_each(|queue| queue.uses.clear());
        self
    }

    /// Returns the names of the resources, in the order of their places.
    pub(super) fn resource_names(&self) -> impl Iterator<Item = &str> {
        self.resources.iter().map(|resource| resource.name.as_str())
    }

    /// Returns the queues of all resources, once for each resource.
    pub(super) fn resource_queues(&self) -> impl Iterator<Item = &QueueName> {
        self.resources.iter().flat_map(|resource| &resource.limits.queues)
    }

    /// Returns what the script that reserves jobs reads. The reservations of [`Self::resource_queues`] are in KEYS
    /// from the place `first_key` on, and [`Self::running_keys`] from `first_running` on; then follow the names of all
    /// queues.
    pub(super) fn json(&self, first_key: usize, first_running: usize) -> String {
        let queues: Vec<_> = self.queues.iter().map(QueueRules::json).collect();
        let (mut key, mut running) = (first_key, first_running..);
        let resource = |resource: &ResourceRules| {
            let keys: Vec<usize> = (key..key + resource.limits.queues.len()).collect();
            key += keys.len();
            let mut limits = rate_json(resource.rate());
            limits["name"] = json!(resource.name);
            limits["concurrency"] = optional(resource.limits.concurrency);
            limits["keys"] = json!(keys);
            if !resource.limits.types.is_empty() {
                limits["running"] = json!(running.next());
            }
            without_nulls(limits)
        };
        let resources: Vec<_> = self.resources.iter().map(resource).collect();
        let names = running.next();
        let (classes, types) = self.classes.json();
        json!({
            "queues": queues, "resources": resources, "classes": classes, "types": types, "names": names
        })
        .to_string()
    }

    /// Returns what the limits allow now. `readings` are of the same queues.
    pub(super) fn room(&self, queues: &[QueueReading], readings: &LimitReadings) -> Room<'_> {
        let starts = |rate: Option<Rate>, reading| {
            rate.map_or(Starts::Now(u64::MAX), |rate| Starts::of(rate, reading))
        };
        let of_queue = |(rules, reading): (&QueueRules, &QueueReading)| QueueRoom {
            running: u64::from(reading.reserved),
            starts: starts(rules.rate, reading.rate),
        };
        let of_resource = |(place, resource): (usize, &ResourceRules)| {
            let running = |queue: &QueueName| readings.reserved.get(queue).copied().unwrap_or(0);
            let of_queues: u64 =
                resource.limits.queues.iter().map(|queue| u64::from(running(queue))).sum();
            let by_type = readings.by_type.get(place).copied().unwrap_or_default();
            ResourceRoom {
                running: of_queues + by_type,
                starts: starts(resource.rate(), readings.rates.get(place).copied().flatten()),
            }
        };
        Room {
            limits: self,
            queues: self.queues.iter().zip(queues).map(of_queue).collect(),
            resources: self.resources.iter().enumerate().map(of_resource).collect(),
        }
    }
}

impl QueueRules {
    fn json(&self) -> serde_json::Value {
        let places: Vec<usize> = self.uses.iter().map(|place| place + 1).collect();
        let mut limits = rate_json(self.rate);
        limits["concurrency"] = optional(self.concurrency);
        limits["resources"] = json!(places);
        limits["is_blocked_list"] = json!(self.is_blocked_list);
        without_nulls(limits)
    }
}

impl ResourceRules {
    /// Names what is counted as well: other types or queues are counted anew, under another name.
    fn running_key(&self, keys: &StoreKeys) -> String {
        let names = (&self.name, &self.limits.types, &self.limits.queues);
        let counted = format!("{names:?}");
        keys.running(super::stored::derived_hash(counted.as_bytes()))
    }

    fn rate(&self) -> Option<Rate> {
        self.limits.rate.map(weir_jobs::start_rate::StartRate::rate)
    }
}

fn optional(limit: Option<u32>) -> serde_json::Value {
    limit.map_or(serde_json::Value::Null, |limit| json!(limit))
}

/// In microseconds.
fn rate_json(rate: Option<Rate>) -> serde_json::Value {
    let micros = |duration: Duration| duration.as_secs_f64() * 1e6;
    rate.map_or_else(|| json!({}), |rate| {
        json!({ "interval": micros(rate.interval()), "capacity": micros(rate.filled_after()) })
    })
}

/// Lua has a value of its own for null.
fn without_nulls(mut object: serde_json::Value) -> serde_json::Value {
    if let Some(members) = object.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    object
}

/// What the limits allow, less what was planned.
#[derive(Debug)]
pub(super) struct Room<'a> {
    limits: &'a QueueLimits,
    queues: Vec<QueueRoom>,
    resources: Vec<ResourceRoom>,
}

#[derive(Debug)]
struct QueueRoom {
    running: u64,
    starts: Starts,
}

#[derive(Debug)]
struct ResourceRoom {
    running: u64,
    starts: Starts,
}

impl Room<'_> {
    /// Returns whether a job of the queue may start.
    pub(super) fn is_open(&self, place: usize) -> bool {
        !self.is_full(place) && self.starts(place).all(|starts| matches!(starts, Starts::Now(1..)))
    }

    /// Counts a job that is to start.
    pub(super) fn start(&mut self, place: usize) {
        let one_less = |starts: &mut Starts| {
            if let Starts::Now(left) = starts {
                *left = left.saturating_sub(1);
            }
        };
        self.queues[place].running += 1;
        one_less(&mut self.queues[place].starts);
        for used in &self.limits.queues[place].uses {
            self.resources[*used].running += 1;
            one_less(&mut self.resources[*used].starts);
        }
    }

    /// Returns how long the next job of the queue has to wait by rates, if no other limit prevents its start.
    pub(super) fn sleep(&self, place: usize) -> Option<Duration> {
        let waits = self.starts(place).filter_map(Starts::wait).max();
        waits.filter(|_| !self.is_full(place))
    }

    /// Returns why the jobs of the queue wait: so many, if it is because of a limit.
    pub(super) fn blocked(&self, place: usize, jobs: u64) -> BlockedJobs {
        let none = BlockedJobs::default();
        let room = &self.queues[place];
        if is_full(self.limits.queues[place].concurrency, room.running) {
            BlockedJobs { concurrency: jobs, ..none }
        } else if room.starts.wait().is_some() {
            BlockedJobs { rate: jobs, ..none }
        } else if self.blocking(place).next().is_some() {
            BlockedJobs { resource: jobs, ..none }
        } else {
            none
        }
    }

    /// Returns the names of the resources that have no room for jobs of the queue.
    pub(super) fn blocking(&self, place: usize) -> impl Iterator<Item = &str> {
        let uses = self.limits.queues[place].uses.iter().copied();
        let blocking = uses.filter(|used| self.is_blocked(*used));
        blocking.map(|used| self.limits.resources[used].name.as_str())
    }

    /// Returns the names of the resources that have no room for jobs of a class.
    pub(super) fn blocking_class(&self, class: usize) -> impl Iterator<Item = &str> {
        let uses = self.limits.classes.uses(class).iter().copied();
        let blocking = uses.filter(|used| self.is_blocked(*used));
        blocking.map(|used| self.limits.resources[used].name.as_str())
    }

    /// Returns the state of the resources, without the jobs that wait for them.
    pub(super) fn counts(&self) -> Vec<ResourceCounts> {
        let counts = |(rules, room): (&ResourceRules, &ResourceRoom)| ResourceCounts {
            name: rules.name.clone(),
            concurrency: rules.limits.concurrency,
            rate: rules.limits.rate.map(|rate| rate.to_string()),
            used: room.running,
            blocked: 0,
        };
        self.limits.resources.iter().zip(&self.resources).map(counts).collect()
    }

    fn is_full(&self, place: usize) -> bool {
        let rules = &self.limits.queues[place];
        is_full(rules.concurrency, self.queues[place].running)
            || rules.uses.iter().any(|used| self.is_resource_full(*used))
    }

    fn is_resource_full(&self, used: usize) -> bool {
        is_full(self.limits.resources[used].limits.concurrency, self.resources[used].running)
    }

    fn is_blocked(&self, used: usize) -> bool {
        self.is_resource_full(used) || self.resources[used].starts.wait().is_some()
    }

    fn starts(&self, place: usize) -> impl Iterator<Item = Starts> {
        let uses = self.limits.queues[place].uses.iter();
        let of_resources = uses.map(|used| self.resources[*used].starts);
        of_resources.chain([self.queues[place].starts])
    }
}

fn is_full(concurrency: Option<u32>, running: u64) -> bool {
    concurrency.is_some_and(|most| running >= u64::from(most))
}
