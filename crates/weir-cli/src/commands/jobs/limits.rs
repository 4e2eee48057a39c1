//! `weir jobs limits`: the limits of queues, tenants and shared resources, and the jobs that they hold back.

use clap::Args;
use weir_jobs::view::{
    JobLimitsView, QueueLimitsView, ResourceLimitsView, TenantLimitsView, TenantsLimitsView,
};

use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::output::{fine_seconds, printable, seconds};
use crate::target::Target;

/// `weir jobs limits`.
#[derive(Debug, Args)]
pub(crate) struct JobsLimitsArgs {
    #[command(flatten)]
    target: Target,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &JobsLimitsArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let limits: JobLimitsView = client.get("/v1/jobs/limits").await?;
    if arguments.json {
        output::json(&limits)?;
        return Ok(Exit::Fine);
    }
    print(&limits);
    Ok(Exit::Fine)
}

fn print(limits: &JobLimitsView) {
    if limits.queues.is_empty() && limits.resources.is_empty() {
        output::line(
            "no limits: set concurrency, rate or jobs_max in [jobs.queues.NAME], or [jobs.resources.NAME]",
        );
    }
    if !limits.queues.is_empty() {
        let rows: Vec<_> = limits.queues.iter().map(|queue| queue_row(queue, limits.now)).collect();
        output::table(
            &[
                "QUEUE",
                "RUNNING",
                "RATE",
                "WAITING",
                "REJECTED",
                "BLOCKED",
                "BLOCKED BY",
                "NEXT START",
            ],
            &rows,
        );
    }
    if !limits.resources.is_empty() {
        let rows: Vec<_> = limits.resources.iter().map(|it| resource_row(it, limits.now)).collect();
        output::table(&["RESOURCE", "IN USE", "RATE", "BLOCKED", "NEXT START"], &rows);
    }
    let tenants = limits.queues.iter().flat_map(|queue| tenant_rows(queue, limits.now));
    let rows: Vec<Vec<String>> = tenants.collect();
    if !rows.is_empty() {
        output::table(
            &["QUEUE", "TENANT", "RUNNING", "WAITING", "BLOCKED BY", "NEXT START"],
            &rows,
        );
    }
    for queue in &limits.queues {
        if let Some(note) = left_out(queue) {
            output::note(&note);
        }
    }
    if let Some(max) = limits.disk_max {
        let used = limits.disk_bytes.unwrap_or(0);
        output::note(&format!(
            "the job store has {used} of {max} bytes on the disk (jobs.limits.disk_max)"
        ));
    }
    if let Some(until) = limits.lowered_until {
        output::note(&lowered(until - limits.now));
    }
}

/// Says that limits are lower after a crash.
pub(super) fn lowered(seconds_left: f64) -> String {
    format!(
        "limits of jobs at once are a quarter lower for another {}: the job store was not closed, and jobs that it does not know may still run",
        seconds(seconds_left.max(0.0))
    )
}

/// Returns a number and its limit: `3/4`.
pub(super) fn of_most(used: u64, most: Option<impl std::fmt::Display>) -> String {
    most.map_or_else(|| used.to_string(), |most| format!("{used}/{most}"))
}

fn queue_row(queue: &QueueLimitsView, now: f64) -> Vec<String> {
    let by = queue.blocked_by;
    vec![
        queue.name.clone(),
        of_most(queue.working, queue.concurrency_in_force),
        queue.rate.clone().unwrap_or_else(dash),
        waiting(queue),
        queue.caps.rejected_total.to_string(),
        (by.concurrency + by.rate + by.resource).to_string(),
        blocked_by(queue),
        next_start(queue.next_start_at, now),
    ]
}

/// Returns the jobs that wait and their bytes, each with its cap, and the cap of each tenant.
fn waiting(queue: &QueueLimitsView) -> String {
    let caps = &queue.caps;
    let mut text = of_most(queue.depth, caps.jobs_max);
    if let Some(max) = caps.bytes_max {
        text.push_str(&format!(", {} B", of_most(caps.bytes.unwrap_or(0), Some(max))));
    }
    if let Some(max) = caps.tenant_jobs_max {
        text.push_str(&format!(", {max} per tenant"));
    }
    text
}

/// Returns the limits that hold back jobs, each with their number.
fn blocked_by(queue: &QueueLimitsView) -> String {
    if queue.paused {
        return "paused".to_owned();
    }
    let by = queue.blocked_by;
    let resources: Vec<String> = queue.resources.iter().map(|name| printable(name)).collect();
    let causes = [
        (by.concurrency, "concurrency".to_owned()),
        (by.rate, "rate".to_owned()),
        (by.resource, resources.join("+")),
    ];
    let causes = causes.into_iter().filter(|(jobs, _)| *jobs > 0);
    let causes: Vec<String> = causes.map(|(jobs, cause)| format!("{jobs} by {cause}")).collect();
    if causes.is_empty() { dash() } else { causes.join(", ") }
}

fn resource_row(resource: &ResourceLimitsView, now: f64) -> Vec<String> {
    vec![
        printable(&resource.name),
        of_most(resource.used, resource.concurrency),
        resource.rate.clone().unwrap_or_else(dash),
        resource.blocked.to_string(),
        next_start(resource.next_start_at, now),
    ]
}

fn tenant_rows(queue: &QueueLimitsView, now: f64) -> Vec<Vec<String>> {
    let tenants = queue.tenants.iter().flat_map(|tenants| &tenants.held_back);
    let row = |tenant: &TenantLimitsView| {
        vec![
            queue.name.clone(),
            tenant_name(tenant),
            of_most(tenant.working, tenant.concurrency),
            tenant.waiting.to_string(),
            tenant.blocked_by.clone(),
            next_start(tenant.next_start_at, now),
        ]
    };
    tenants.map(row).collect()
}

fn tenant_name(tenant: &TenantLimitsView) -> String {
    match &tenant.name {
        Some(name) if tenant.is_shared => format!("{} and others", printable(name)),
        Some(name) => printable(name),
        None => "(none)".to_owned(),
    }
}

/// Says how many tenants are held back that are not listed.
fn left_out(queue: &QueueLimitsView) -> Option<String> {
    let TenantsLimitsView { full, sleeping, held_back, .. } = queue.tenants.as_ref()?;
    let listed = held_back.iter().filter(|tenant| tenant.blocked_by != "resource").count() as u64;
    let more = (full + sleeping).saturating_sub(listed);
    (more > 0).then(|| format!("{}: {} at a limit", queue.name, output::count(more, "more tenant")))
}

fn next_start(at: Option<f64>, now: f64) -> String {
    at.map_or_else(dash, |at| format!("in {}", fine_seconds((at - now).max(0.0))))
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use weir_jobs::view::BlockedView;

    use super::*;

    #[test]
    fn a_queue_shows_its_limits_and_what_they_hold_back() {
        let mut queue = QueueLimitsView {
            name: "api".to_owned(),
            depth: 9,
            working: 3,
            concurrency: Some(4),
            concurrency_in_force: Some(3),
            rate: Some("10/s".to_owned()),
            next_start_at: Some(100.25),
            blocked_by: BlockedView { concurrency: 5, rate: 0, resource: 2 },
            resources: vec!["db".to_owned(), "mail".to_owned()],
            ..QueueLimitsView::default()
        };
        queue.caps.jobs_max = Some(50);
        (queue.caps.bytes, queue.caps.bytes_max) = (Some(700), Some(1_000));
        queue.caps.rejected_total = 2;
        let expected = [
            "api",
            "3/3",
            "10/s",
            "9/50, 700/1000 B",
            "2",
            "7",
            "5 by concurrency, 2 by db+mail",
            "in 250ms",
        ];
        assert_eq!(queue_row(&queue, 100.0), expected);
        queue.paused = true;
        assert_eq!(blocked_by(&queue), "paused");
    }

    #[test]
    fn tenants_at_their_limit_are_listed_and_the_others_counted() {
        let held = |name: Option<&str>, is_shared, by: &str| TenantLimitsView {
            name: name.map(str::to_owned),
            is_shared,
            waiting: 4,
            working: 2,
            concurrency: Some(2),
            blocked_by: by.to_owned(),
            ..TenantLimitsView::default()
        };
        let tenants = TenantsLimitsView {
            full: 3,
            sleeping: 1,
            held_back: vec![
                held(Some("a\u{1b}[31m"), false, "concurrency"),
                held(None, false, "resource"),
                held(Some("c"), true, "concurrency"),
            ],
            ..TenantsLimitsView::default()
        };
        let queue = QueueLimitsView {
            name: "crawl".to_owned(),
            tenants: Some(tenants),
            ..QueueLimitsView::default()
        };
        let rows = tenant_rows(&queue, 0.0);
        let names: Vec<&str> = rows.iter().map(|row| row[1].as_str()).collect();
        assert_eq!(names[1..], ["(none)", "c and others"]);
        assert!(!names[0].contains('\u{1b}'), "{names:?}");
        assert_eq!(rows[2][2..], ["2/2", "4", "concurrency", "-"]);
        assert_eq!(left_out(&queue).as_deref(), Some("crawl: 2 more tenants at a limit"));
    }
}
