//! How workers are shared among queues. The settings fix these rules today; an advisor may compute
//! them later.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use weir_base::token_bucket::Rate;

use crate::key_path::KeyPath;
pub use crate::lanes::LaneLimits;
use crate::model::QueueName;
use crate::settings::{
    Dispatch, JobServerLimits, JobServerSettings, QueueSettings, ResourceSettings, StoreKind,
};
use crate::start_rate::StartRate;

/// The part of a limit of jobs at once that runs without a record in the log.
const UNRECORDED_PART: u32 = 4;

/// Returns how many jobs under a limit run without a record in the log.
pub(crate) const fn unrecorded_max(limit: u32) -> u32 {
    limit / UNRECORDED_PART
}

/// How the queue is chosen that serves a FETCH.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DispatchPolicy {
    /// The first queue of the FETCH that has jobs.
    #[default]
    Strict,
    /// The queues of the FETCH in proportion to their weights.
    Weighted,
    /// So that jobs start within `target_latency`.
    Targets,
}

/// The rules that dispatch applies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allocation {
    pub policy: DispatchPolicy,
    pub queues: BTreeMap<QueueName, QueueAllocation>,
    /// The rules of the queues without an entry.
    pub others: QueueAllocation,
    pub resources: ResourceRules,
}

/// Limits that jobs of several types and queues have together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceRules {
    /// By name.
    pub of: BTreeMap<String, ResourceLimits>,
}

/// One shared resource. Without a type or a queue, no job uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Jobs in progress at once.
    pub concurrency: Option<u32>,
    /// How often jobs start.
    pub rate: Option<StartRate>,
    /// Job types that use it, in any queue.
    pub types: BTreeSet<String>,
    /// Queues whose jobs use it.
    pub queues: BTreeSet<QueueName>,
    /// It was set at run time and ends by itself ([`crate::temporary_limits`]): reservations need no record because of
    /// it.
    pub is_temporary: bool,
}

impl ResourceRules {
    /// Returns whether jobs of a queue may use a resource, by their queue or by their type.
    fn may_have(&self, queue: &QueueName) -> bool {
        self.of.values().any(|limits| !limits.types.is_empty() || limits.queues.contains(queue))
    }
}

impl ResourceLimits {
    /// Returns the limits that settings define, whose names of queues were checked.
    fn of_settings(settings: &ResourceSettings) -> Self {
        let limits = JobServerLimits::default();
        let queues = settings.queues.iter().filter_map(|name| QueueName::parse(name, &limits).ok());
        Self {
            concurrency: settings.concurrency,
            rate: settings.rate,
            types: settings.types.iter().cloned().collect(),
            queues: queues.collect(),
            is_temporary: false,
        }
    }

    /// Returns a limit of jobs at once that ends by itself, and that no job uses yet.
    pub(crate) fn temporary(concurrency: u32) -> Self {
        Self { concurrency: Some(concurrency), is_temporary: true, ..Self::default() }
    }
}

/// The rules of one queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueAllocation {
    /// While fewer jobs of this queue are in progress, a FETCH that names the queue is served from it
    /// first. By targets, the need that is measured counts if it is larger. There is no setting for it
    /// yet.
    pub guaranteed_slots: u32,
    /// Weight among the queues of one FETCH whose guaranteed slots are in use. `None`: strict
    /// order; by targets, 1.
    pub share: Option<u32>,
    /// Maximum number of jobs of this queue that run at once.
    pub concurrency: Option<u32>,
    /// How often jobs of this queue may start.
    pub rate: Option<Rate>,
    /// While the oldest job has waited longer than `target_latency`: serve the newest of the jobs in
    /// time first, and the oldest job with a fifth of the workers' time.
    pub fresh_lane: bool,
    pub target_latency: Option<Duration>,
    /// How the tenants of this queue share its workers. `None`: it has no tenants.
    pub fair: Option<FairRules>,
    /// Count the bytes of its jobs that wait, which have a limit.
    pub counts_bytes: bool,
}

/// How the tenants of a queue share its workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FairRules {
    /// What names the tenant of a job.
    pub by: KeyPath,
    /// Free slots that only tenants with less than their share may take.
    pub headroom: u32,
    /// Tenants with lanes of their own; see [`crate::lanes`].
    pub tenants_max: usize,
    /// Weights by the names of tenants; 1 for all others.
    pub weights: BTreeMap<String, u16>,
    pub limits: TenantLimits,
}

/// How many jobs of a tenant run at once, and how often they start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantLimits {
    /// Of each tenant.
    pub each: LaneLimits,
    /// Of tenants with a limit of their own, by name. A limit that one does not have is that of each.
    pub of: BTreeMap<String, LaneLimits>,
}

impl TenantLimits {
    /// Returns whether the same tenants have a limit.
    pub(crate) fn limit_the_same(&self, other: &Self) -> bool {
        self.each.is_some() == other.each.is_some() && self.of.keys().eq(other.of.keys())
    }

    /// Returns whether a tenant has a rate.
    pub(crate) fn has_rates(&self) -> bool {
        self.each.rate.is_some() || self.of.values().any(|limits| limits.rate.is_some())
    }
}

impl DispatchPolicy {
    /// Returns the policy that the settings define.
    #[must_use]
    pub fn of_settings(settings: &JobServerSettings) -> Self {
        let has_target = || settings.queues.values().any(|queue| queue.target_latency.is_some());
        match settings.dispatch {
            Dispatch::Auto if settings.store != StoreKind::External && has_target() => {
                Self::Targets
            }
            Dispatch::Auto | Dispatch::Strict => Self::Strict,
            Dispatch::Weighted => Self::Weighted,
            Dispatch::Targets => Self::Targets,
        }
    }
}

impl FairRules {
    fn of_settings(queue: &QueueSettings, tenants_max: usize) -> Option<Self> {
        let weights = queue.tenants.iter().map(|(name, tenant)| (name.clone(), tenant.weight));
        // A tenant whose waiting jobs have a limit shares no lane, so that they are counted by themselves.
        let of =
            queue.tenants.iter().filter(|(_, it)| it.limits().is_some() || it.jobs_max.is_some());
        let of = of.map(|(name, tenant)| (name.clone(), tenant.limits())).collect();
        let limits = TenantLimits { each: queue.tenant_limits(), of };
        Some(Self {
            by: queue.fair_by.clone()?,
            headroom: queue.fair_headroom,
            tenants_max,
            weights: weights.collect(),
            limits,
        })
    }
}

impl QueueAllocation {
    /// Returns whether the queue or a tenant has a limit.
    pub(crate) fn has_limits(&self) -> bool {
        let of_tenants =
            |fair: &FairRules| fair.limits.each.is_some() || !fair.limits.of.is_empty();
        self.concurrency.is_some()
            || self.rate.is_some()
            || self.fair.as_ref().is_some_and(of_tenants)
    }

    /// Returns whether the newest job may be served first.
    pub(crate) const fn has_fresh_lane(&self) -> bool {
        self.fresh_lane && self.target_latency.is_some()
    }

    /// Returns whether a limit of the queue or of a tenant says how many of its jobs may run at once.
    pub(crate) fn limits_running(&self) -> bool {
        let of_tenants = |fair: &FairRules| {
            let mut all = fair.limits.of.values().chain([&fair.limits.each]);
            all.any(|limits| limits.concurrency.is_some())
        };
        self.concurrency.is_some() || self.fair.as_ref().is_some_and(of_tenants)
    }
}

impl Allocation {
    /// Returns the rules that the settings define.
    #[must_use]
    pub fn of_settings(settings: &JobServerSettings) -> Self {
        let policy = DispatchPolicy::of_settings(settings);
        let share = |weight| (policy != DispatchPolicy::Strict).then_some(weight);
        let queues = settings.queues.iter().map(|(name, queue)| {
            let allocation = QueueAllocation {
                share: share(queue.weight),
                concurrency: queue.concurrency,
                rate: queue.rate.map(StartRate::rate),
                fresh_lane: queue.fresh_lane,
                target_latency: queue.target_latency,
                fair: FairRules::of_settings(queue, settings.limits.tenants_max),
                counts_bytes: queue.bytes_max.is_some(),
                ..QueueAllocation::default()
            };
            (name.clone(), allocation)
        });
        let queues = queues.collect();
        let others = QueueAllocation { share: share(1), ..QueueAllocation::default() };
        let resources = settings.resources.iter();
        let of = resources
            .map(|(name, resource)| (name.clone(), ResourceLimits::of_settings(resource)))
            .collect();
        Self { policy, queues, others, resources: ResourceRules { of } }
    }

    /// Returns the same rules while jobs may run that have no record: their limits are lower.
    pub(crate) fn with_presumed(&self) -> Self {
        let lower =
            |limit: &mut Option<u32>| *limit = limit.map(|most| most - unrecorded_max(most));
        let mut rules = self.clone();
        for queue in rules.queues.values_mut() {
            lower(&mut queue.concurrency);
            if let Some(fair) = &mut queue.fair {
                lower(&mut fair.limits.each.concurrency);
                fair.limits.of.values_mut().for_each(|limits| lower(&mut limits.concurrency));
            }
        }
        rules
    }

    /// Returns the rules of a queue.
    #[must_use]
    pub fn of(&self, queue: &QueueName) -> &QueueAllocation {
        self.queues.get(queue.as_str()).unwrap_or(&self.others)
    }

    /// Returns whether a limit says how many jobs of this type and queue may run at once.
    pub(crate) fn limits_running(&self, queue: &QueueName, jobtype: &str) -> bool {
        let is_used = |limits: &ResourceLimits| {
            limits.concurrency.is_some()
                && !limits.is_temporary
                && (limits.queues.contains(queue) || limits.types.contains(jobtype))
        };
        self.of(queue).limits_running() || self.resources.of.values().any(is_used)
    }

    /// Returns whether rules apply to a FETCH of these queues. If not, the first one that has jobs serves it.
    #[must_use]
    pub fn has_rules_for(&self, queues: &[QueueName]) -> bool {
        let has_table =
            |queue: &QueueName| self.queues.contains_key(queue) || self.resources.may_have(queue);
        self.others != QueueAllocation::default() || queues.iter().any(has_table)
    }

    /// Returns whether each FETCH is served by the first of its queues that has jobs.
    pub(crate) fn is_plain(&self) -> bool {
        self.queues.is_empty()
            && self.policy != DispatchPolicy::Targets
            && self.others == QueueAllocation::default()
    }
}
