//! Limits of queues and of shared resources: how many jobs run at once, and how often they start.
//!
//! Redis decides: the script that reserves jobs counts the reservations of all nodes and the starts. What a node
//! reads before that ([`LimitReadings`]) says which queues are worth the attempt. Jobs that use a resource are
//! counted by the reservations of its queues, so none can be forgotten or counted twice.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use weir_base::token_bucket::Rate;
use weir_jobs::allocation::{Allocation, ResourceLimits};
use weir_jobs::lanes::BlockedJobs;
use weir_jobs::model::QueueName;
use weir_jobs::resources::ResourceCounts;

use super::rate_reading::{RateReading, Starts};
use super::replies::QueueReading;

/// The limits of some queues, in the order of these.
#[derive(Debug)]
pub(super) struct QueueLimits {
    queues: Vec<QueueRules>,
    resources: Vec<ResourceRules>,
}

#[derive(Debug)]
struct QueueRules {
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
}

impl QueueLimits {
    pub(super) fn of(allocation: &Allocation, queues: &[QueueName]) -> Self {
        let used = allocation.resources.of.iter();
        let used = used.filter(|(_, limits)| queues.iter().any(|it| limits.queues.contains(it)));
        let resources: Vec<ResourceRules> = used
            .map(|(name, limits)| ResourceRules { name: name.clone(), limits: limits.clone() })
            .collect();
        let rules = |queue: &QueueName| {
            let rules = allocation.of(queue);
            let uses = resources.iter().enumerate();
            let uses = uses.filter(|(_, it)| it.limits.queues.contains(queue));
            QueueRules {
                concurrency: rules.concurrency,
                rate: rules.rate,
                uses: uses.map(|(place, _)| place).collect(),
            }
        };
        Self { queues: queues.iter().map(rules).collect(), resources }
    }

    pub(super) const fn has_resources(&self) -> bool {
        !self.resources.is_empty()
    }

    /// Returns the limits of the queues alone.
    pub(super) fn without_resources(mut self) -> Self {
        self.resources.clear();
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
    /// from the place `first_key` on.
    pub(super) fn json(&self, first_key: usize) -> String {
        let queues: Vec<_> = self.queues.iter().map(QueueRules::json).collect();
        let mut key = first_key;
        let resource = |resource: &ResourceRules| {
            let keys: Vec<usize> = (key..key + resource.limits.queues.len()).collect();
            key += keys.len();
            let mut limits = rate_json(resource.rate());
            limits["name"] = json!(resource.name);
            limits["concurrency"] = optional(resource.limits.concurrency);
            limits["keys"] = json!(keys);
            without_nulls(limits)
        };
        let resources: Vec<_> = self.resources.iter().map(resource).collect();
        json!({ "queues": queues, "resources": resources }).to_string()
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
            ResourceRoom {
                running: resource.limits.queues.iter().map(|queue| u64::from(running(queue))).sum(),
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
        without_nulls(limits)
    }
}

impl ResourceRules {
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
