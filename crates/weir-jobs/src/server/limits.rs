//! The limits of queues, tenants and shared resources as plain data.

use weir_base::clock::Timestamp;

use super::JobService;
use crate::model::QueueName;
use crate::settings::{JobServerSettings, QueueSettings};
use crate::store::limit_states::{LimitKind, LimitStates, QueueLimitState, TenantLimitState};
use crate::store::{Counts, QueueCounts, Store};
use crate::view;

/// Tenants of one queue that are listed.
const TENANTS_SHOWN: usize = 10;

/// Returns all limits, and what they hold back.
pub(super) async fn limits<S: Store>(service: &JobService<S>) -> view::JobLimitsView {
    let counts = service.store.counts().await;
    let states = service.store.limit_states(TENANTS_SHOWN);
    let settings = service.settings();
    let limited = settings.queues.iter().filter(|(_, queue)| has_limits(queue));
    let queues = limited.map(|(name, queue)| {
        let view = queue_limits(name, queue, &counts, &states);
        let rejected_total = service.metrics.rejected_of(name.as_str());
        let bytes = queue.bytes_max.and_then(|_| service.store.waiting_bytes(name.as_str()));
        let caps = view::QueueCapsView { rejected_total, bytes, ..view.caps };
        view::QueueLimitsView { caps, ..view }
    });
    view::JobLimitsView {
        now: service.clock.now().as_secs_f64(),
        lowered_until: counts.limits_lowered_until.map(Timestamp::as_secs_f64),
        queues: queues.collect(),
        resources: resources(&settings, &counts, &states),
        disk_bytes: service.store.disk_bytes(),
        disk_max: settings.limits.disk_max,
    }
}

fn has_limits(queue: &QueueSettings) -> bool {
    queue.concurrency.is_some()
        || queue.rate.is_some()
        || queue.has_caps()
        || queue.fair_by.is_some()
}

fn queue_limits(
    name: &QueueName,
    settings: &QueueSettings,
    counts: &Counts,
    states: &LimitStates,
) -> view::QueueLimitsView {
    let counted = counts.queues.iter().find(|queue| queue.name == *name);
    let state = states.queues.iter().find(|queue| queue.name == *name);
    let count = |of: fn(&QueueCounts) -> u64| counted.map_or(0, of);
    let waiting_for = counted.map(|queue| queue.blocked_by_resource.as_slice());
    let blocked = counted.map(|queue| queue.blocked).unwrap_or_default();
    view::QueueLimitsView {
        name: name.to_string(),
        paused: counted.is_some_and(|queue| queue.paused),
        depth: count(|queue| queue.depth),
        working: count(|queue| queue.reserved),
        concurrency: settings.concurrency,
        concurrency_in_force: state.map_or(settings.concurrency, |state| state.concurrency),
        rate: settings.rate.map(|rate| rate.to_string()),
        next_start_at: state.and_then(|state| state.next_start).map(Timestamp::as_secs_f64),
        blocked_by: view::BlockedView {
            concurrency: blocked.concurrency,
            rate: blocked.rate,
            resource: blocked.resource,
        },
        resources: waiting_for
            .unwrap_or_default()
            .iter()
            .map(|(resource, _)| resource.clone())
            .collect(),
        caps: view::QueueCapsView {
            jobs_max: settings.jobs_max,
            bytes_max: settings.bytes_max,
            tenant_jobs_max: settings.tenant_jobs_max,
            ..view::QueueCapsView::default()
        },
        tenants: tenants(settings, counted, state),
    }
}

fn tenants(
    settings: &QueueSettings,
    counted: Option<&QueueCounts>,
    state: Option<&QueueLimitState>,
) -> Option<view::TenantsLimitsView> {
    let lanes = counted.map(|queue| queue.lanes).unwrap_or_default();
    let held_back = state.map(|state| state.tenants.as_slice()).unwrap_or_default();
    Some(view::TenantsLimitsView {
        fair_by: settings.fair_by.as_ref()?.to_string(),
        concurrency: settings.tenant_concurrency,
        rate: settings.tenant_rate.map(|rate| rate.to_string()),
        lanes: lanes.tenants,
        full: lanes.full,
        sleeping: lanes.sleeping,
        held_back: held_back.iter().map(tenant).collect(),
    })
}

fn tenant(state: &TenantLimitState) -> view::TenantLimitsView {
    let blocked_by = match state.blocked_by {
        LimitKind::Concurrency => "concurrency",
        LimitKind::Rate => "rate",
        LimitKind::Resource => "resource",
    };
    view::TenantLimitsView {
        name: state.name.clone(),
        is_shared: state.is_shared,
        waiting: state.waiting,
        working: state.running,
        concurrency: state.concurrency,
        blocked_by: blocked_by.to_owned(),
        next_start_at: state.next_start.map(Timestamp::as_secs_f64),
    }
}

fn resources(
    settings: &JobServerSettings,
    counts: &Counts,
    states: &LimitStates,
) -> Vec<view::ResourceLimitsView> {
    let view = |counted: &crate::resources::ResourceCounts| {
        let of = settings.resources.get(&counted.name);
        let next = states.resources.iter().find(|(name, _)| *name == counted.name);
        view::ResourceLimitsView {
            name: counted.name.clone(),
            types: of.map(|of| of.types.clone()).unwrap_or_default(),
            queues: of.map(|of| of.queues.clone()).unwrap_or_default(),
            used: counted.used,
            concurrency: counted.concurrency,
            rate: counted.rate.clone(),
            next_start_at: next.map(|(_, at)| at.as_secs_f64()),
            blocked: counted.blocked,
        }
    };
    counts.resources.iter().map(view).collect()
}
