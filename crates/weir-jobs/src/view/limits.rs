//! The limits of queues, tenants and shared resources, and what they hold back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::BlockedView;

/// All limits, and what they hold back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobLimitsView {
    pub now: f64,
    /// Until when limits of jobs at once are a quarter lower, because the job store was not closed. `None`: they apply in
    /// full.
    #[serde(default)]
    pub lowered_until: Option<f64>,
    /// Queues with a limit in the settings, by name.
    pub queues: Vec<QueueLimitsView>,
    /// The shared resources, by name.
    pub resources: Vec<ResourceLimitsView>,
    /// Bytes of the job store on the disk, and how many it may have before pushes are rejected.
    #[serde(default)]
    pub disk_bytes: Option<u64>,
    #[serde(default)]
    pub disk_max: Option<u64>,
}

/// The limits of a queue, and what they hold back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueLimitsView {
    pub name: String,
    pub paused: bool,
    /// Jobs that wait.
    pub depth: u64,
    pub working: u64,
    /// Jobs in progress at once, as in the settings.
    pub concurrency: Option<u32>,
    /// The same as it is in force: lower for a while after a crash.
    pub concurrency_in_force: Option<u32>,
    /// How often jobs may start, as in the settings.
    pub rate: Option<String>,
    /// When the next job may start by the rate. `None`: now, or there is no rate.
    pub next_start_at: Option<f64>,
    /// Jobs that wait because of a limit of the queue, of a tenant or of a resource.
    pub blocked_by: BlockedView,
    /// The shared resources that hold back jobs of the queue, by name.
    pub resources: Vec<String>,
    /// The caps on jobs that wait.
    pub caps: QueueCapsView,
    /// The limits of its tenants. `None`: it has no `fair_by`.
    pub tenants: Option<TenantsLimitsView>,
}

/// Caps on what waits in a queue; a push over one is rejected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct QueueCapsView {
    pub jobs_max: Option<u64>,
    pub bytes_max: Option<u64>,
    /// Bytes of the jobs that wait. `None`: they are not counted.
    pub bytes: Option<u64>,
    /// Jobs of each tenant.
    pub tenant_jobs_max: Option<u64>,
    /// Pushed jobs that were rejected since the start because of a cap of the queue or of a tenant.
    pub rejected_total: u64,
}

/// The limits of the tenants of a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TenantsLimitsView {
    /// What names the tenant of a job.
    pub fair_by: String,
    /// Jobs of each tenant in progress at once, as in the settings.
    pub concurrency: Option<u32>,
    /// How often jobs of each tenant may start, as in the settings.
    pub rate: Option<String>,
    /// Tenants with a lane of their own.
    pub lanes: u64,
    /// Tenants with jobs that wait because as many are in progress as may be.
    pub full: u64,
    /// Tenants with jobs that wait for their rate.
    pub sleeping: u64,
    /// Those with the most jobs that a limit holds back.
    pub held_back: Vec<TenantLimitsView>,
}

/// A tenant with jobs that a limit holds back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TenantLimitsView {
    /// `None`: jobs without a tenant.
    pub name: Option<String>,
    /// Several tenants share its lane; the name is that of one of them.
    pub is_shared: bool,
    pub waiting: u64,
    pub working: u64,
    /// The limit of jobs at once that is in force.
    pub concurrency: Option<u32>,
    /// `concurrency`, `rate` or `resource`.
    pub blocked_by: String,
    /// When its next job may start by its rate. `None`: another limit holds it back.
    pub next_start_at: Option<f64>,
}

/// The limits of a shared resource, and what they hold back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceLimitsView {
    pub name: String,
    /// Job types that use it, in any queue.
    pub types: Vec<String>,
    /// Queues whose jobs use it.
    pub queues: Vec<String>,
    /// Jobs in progress that use it.
    pub used: u64,
    /// The most of them at once.
    pub concurrency: Option<u32>,
    /// How often such jobs may start, as in the settings.
    pub rate: Option<String>,
    /// When the next job may start by the rate. `None`: now, or there is no rate.
    pub next_start_at: Option<f64>,
    /// Jobs that wait because it has no room.
    pub blocked: u64,
}
