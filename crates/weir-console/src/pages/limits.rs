//! The limits of queues, tenants and shared resources, and the jobs that they hold back.

use askama::Template;
use weir_jobs::view::{
    JobLimitsView, QueueLimitsView, ResourceLimitsView, TenantLimitsView, TenantsLimitsView,
};

use super::frame::{PageFrame, Section, html};
use super::live_page::LiveSection;
use super::request::{PageRequest, PageResult};
use crate::figures;
use crate::job_location::JobLocation;
use crate::visible::visible;

#[derive(Template)]
#[template(path = "limits.html")]
struct LimitsPage {
    frame: PageFrame,
    live: LiveSection,
    has_limits: bool,
}

#[derive(Template)]
#[template(path = "limits_live.html")]
struct LimitsLive {
    lowered: Option<String>,
    disk: Option<String>,
    queues: Vec<QueueRow>,
    resources: Vec<ResourceRow>,
    tenants: Vec<TenantRow>,
    left_out: Vec<String>,
}

struct QueueRow {
    name: String,
    address: String,
    is_paused: bool,
    working: String,
    rate: String,
    waiting: String,
    rejected: String,
    blocked: String,
    blocked_by: String,
    next_start: String,
}

struct ResourceRow {
    name: String,
    /// What uses it.
    users: String,
    used: String,
    rate: String,
    blocked: String,
    next_start: String,
}

struct TenantRow {
    queue: String,
    address: String,
    name: String,
    working: String,
    waiting: String,
    blocked_by: String,
    next_start: String,
}

/// `GET /limits`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let limits = request.console.jobs()?.handle.limits().await?;
    let live = LimitsLive::new(&limits);
    request.live_response(live.render(), &[], |live| {
        Ok(html(&LimitsPage {
            frame: request.frame(Section::Limits, "Limits").refreshed(),
            live,
            has_limits: !limits.queues.is_empty() || !limits.resources.is_empty(),
        }))
    })
}

impl LimitsLive {
    fn new(limits: &JobLimitsView) -> Self {
        let now = limits.now;
        let tenants = limits.queues.iter().flat_map(|queue| {
            let held_back = queue.tenants.iter().flat_map(|tenants| &tenants.held_back);
            held_back.map(move |tenant| TenantRow::new(queue, tenant, now))
        });
        Self {
            lowered: limits.lowered_until.map(|until| lowered(until - now)),
            disk: limits.disk_max.map(|max| disk(limits.disk_bytes.unwrap_or(0), max)),
            queues: limits.queues.iter().map(|queue| QueueRow::new(queue, now)).collect(),
            resources: limits.resources.iter().map(|it| ResourceRow::new(it, now)).collect(),
            tenants: tenants.collect(),
            left_out: limits.queues.iter().filter_map(left_out).collect(),
        }
    }
}

/// Says that limits are lower after a crash.
pub(super) fn lowered(seconds_left: f64) -> String {
    format!(
        "Limits of jobs at once are a quarter lower for another {}: the job store was not closed, and jobs that it does not know may still run.",
        figures::whole_duration(seconds_left.max(0.0))
    )
}

/// Says how much of the disk the job store has.
fn disk(used: u64, max: u64) -> String {
    let (used, max) = (figures::bytes(used), figures::bytes(max));
    format!("The job store has {used} of {max} on the disk (jobs.limits.disk_max).")
}

/// Returns a number and its limit.
fn of_most(used: u64, most: Option<u64>) -> String {
    let used = figures::count(used);
    most.map_or_else(|| used.clone(), |most| format!("{used} / {}", figures::count(most)))
}

impl QueueRow {
    fn new(queue: &QueueLimitsView, now: f64) -> Self {
        let by = queue.blocked_by;
        let lowered = queue.concurrency.filter(|_| queue.concurrency != queue.concurrency_in_force);
        let mut working = of_most(queue.working, queue.concurrency_in_force.map(u64::from));
        if let Some(set) = lowered {
            working.push_str(&format!(" (set: {set})"));
        }
        Self {
            name: queue.name.clone(),
            address: JobLocation::Queue(queue.name.clone()).address(&[]),
            is_paused: queue.paused,
            working,
            rate: queue.rate.clone().unwrap_or_else(dash),
            waiting: waiting(queue),
            rejected: figures::count(queue.caps.rejected_total),
            blocked: figures::count(by.concurrency + by.rate + by.resource),
            blocked_by: blocked_by(queue),
            next_start: next_start(queue.next_start_at, now),
        }
    }
}

/// Returns the jobs that wait and their bytes, each with its cap, and the cap of each tenant.
fn waiting(queue: &QueueLimitsView) -> String {
    let caps = &queue.caps;
    let mut text = of_most(queue.depth, caps.jobs_max);
    if let Some(max) = caps.bytes_max {
        let used = figures::bytes(caps.bytes.unwrap_or(0));
        text.push_str(&format!("; {used} / {}", figures::bytes(max)));
    }
    if let Some(max) = caps.tenant_jobs_max {
        text.push_str(&format!("; {} per tenant", figures::count(max)));
    }
    text
}

/// Returns the limits that hold back jobs, each with their number.
fn blocked_by(queue: &QueueLimitsView) -> String {
    let by = queue.blocked_by;
    let resources: Vec<_> = queue.resources.iter().map(|name| visible(name)).collect();
    let causes = [
        (by.concurrency, "concurrency".to_owned()),
        (by.rate, "rate".to_owned()),
        (by.resource, resources.join(" + ")),
    ];
    let causes = causes.into_iter().filter(|(jobs, _)| *jobs > 0);
    let causes: Vec<String> =
        causes.map(|(jobs, cause)| format!("{} by {cause}", figures::count(jobs))).collect();
    if causes.is_empty() { dash() } else { causes.join(", ") }
}

impl ResourceRow {
    fn new(resource: &ResourceLimitsView, now: f64) -> Self {
        let named = |what: &str, names: &[String]| {
            (!names.is_empty()).then(|| format!("{what} {}", visible(&names.join(", "))))
        };
        let users = [named("types", &resource.types), named("queues", &resource.queues)];
        Self {
            name: visible(&resource.name).into_owned(),
            users: users.into_iter().flatten().collect::<Vec<_>>().join("; "),
            used: of_most(resource.used, resource.concurrency.map(u64::from)),
            rate: resource.rate.clone().unwrap_or_else(dash),
            blocked: figures::count(resource.blocked),
            next_start: next_start(resource.next_start_at, now),
        }
    }
}

impl TenantRow {
    fn new(queue: &QueueLimitsView, tenant: &TenantLimitsView, now: f64) -> Self {
        let name = tenant.name.as_deref().map(|name| visible(name).into_owned());
        Self {
            queue: queue.name.clone(),
            address: JobLocation::Queue(queue.name.clone()).address(&[]),
            name: match name {
                Some(name) if tenant.is_shared => format!("{name} and others"),
                Some(name) => name,
                None => "none".to_owned(),
            },
            working: of_most(tenant.working, tenant.concurrency.map(u64::from)),
            waiting: figures::count(tenant.waiting),
            blocked_by: tenant.blocked_by.clone(),
            next_start: next_start(tenant.next_start_at, now),
        }
    }
}

/// Says how many tenants are held back that are not listed.
fn left_out(queue: &QueueLimitsView) -> Option<String> {
    let TenantsLimitsView { full, sleeping, held_back, .. } = queue.tenants.as_ref()?;
    let listed = held_back.iter().filter(|tenant| tenant.blocked_by != "resource").count() as u64;
    let more = (full + sleeping).saturating_sub(listed);
    let more = (more > 0).then(|| figures::counted(more, "more tenant"))?;
    Some(format!("{}: {more} at a limit.", queue.name))
}

fn next_start(at: Option<f64>, now: f64) -> String {
    at.map_or_else(dash, |at| format!("in {}", figures::duration((at - now).max(0.0))))
}

fn dash() -> String {
    "–".to_owned()
}

#[cfg(test)]
mod tests {
    use weir_jobs::view::BlockedView;

    use super::*;

    #[test]
    fn a_lowered_limit_is_shown_with_the_one_that_is_set() {
        let queue = QueueLimitsView {
            working: 3,
            concurrency: Some(8),
            concurrency_in_force: Some(6),
            blocked_by: BlockedView { concurrency: 1_200, rate: 0, resource: 3 },
            resources: vec!["a".to_owned(), "b\u{202e}".to_owned()],
            ..QueueLimitsView::default()
        };
        let row = QueueRow::new(&queue, 0.0);
        assert_eq!(row.working, "3 / 6 (set: 8)");
        assert_eq!(row.blocked_by, "1,200 by concurrency, 3 by a + b\\u202e");
        let limits =
            JobLimitsView { lowered_until: Some(130.0), now: 10.0, ..JobLimitsView::default() };
        let live = LimitsLive::new(&limits);
        assert!(live.lowered.is_some_and(|text| text.contains("another 2 min")));
    }

    #[test]
    fn tenants_that_are_not_listed_are_counted() {
        let mut queue = QueueLimitsView { name: "q".to_owned(), ..QueueLimitsView::default() };
        assert_eq!(left_out(&queue), None);
        let held = |by: &str| TenantLimitsView {
            blocked_by: by.to_owned(),
            ..TenantLimitsView::default()
        };
        queue.tenants = Some(TenantsLimitsView {
            full: 2,
            sleeping: 1,
            held_back: vec![held("rate"), held("resource")],
            ..TenantsLimitsView::default()
        });
        assert_eq!(left_out(&queue).as_deref(), Some("q: 2 more tenants at a limit."));
    }
}
