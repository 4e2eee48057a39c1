//! `weir jobs list`: the queues, or the jobs of one place.

use clap::Args;
use weir_base::clock::Clock;
use weir_jobs::handle::JobQuery;
use weir_jobs::view::{JobListPage, JobServerOverview, JobView, QueueView};

use super::{limits, query};
use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::output::seconds;
use crate::target::Target;

/// `weir jobs list`.
#[derive(Debug, Args)]
pub(crate) struct JobsListArgs {
    #[command(flatten)]
    target: Target,
    /// A queue, or one of the sets scheduled, retries and dead [default: list all queues]
    place: Option<String>,
    /// Only jobs whose JSON matches this glob; plain text matches anywhere in it
    #[arg(long, value_name = "GLOB", requires = "place")]
    search: Option<String>,
    /// Only jobs of this type
    #[arg(long, requires = "place")]
    jobtype: Option<String>,
    /// Only jobs with this id; `weir jobs show` finds a job anywhere
    #[arg(long, requires = "place", conflicts_with_all = ["search", "jobtype"])]
    jid: Option<String>,
    /// Continue after this key: that of a job, or the one with which a search stopped
    #[arg(long, value_name = "KEY", requires = "place")]
    after: Option<String>,
    /// Stop a search after about this many jobs, with a key to continue [default: search all]
    #[arg(long, value_name = "JOBS", requires = "place")]
    scan_max: Option<u64>,
    /// Maximum number of jobs
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Newest first
    #[arg(long, requires = "place")]
    newest: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// With --json: an object with the jobs, how many were read, and the key to continue
    #[arg(long, requires_all = ["json", "place"])]
    page: bool,
}

pub(super) async fn run(arguments: &JobsListArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    match &arguments.place {
        None => list_queues(&mut client, arguments.json).await?,
        Some(place) => list_jobs(&mut client, arguments, place).await?,
    }
    Ok(Exit::Fine)
}

async fn list_queues(client: &mut AdminClient, json: bool) -> anyhow::Result<()> {
    let queues: Vec<QueueView> = client.get("/v1/jobs/queues").await?;
    if json {
        return output::json(&queues);
    }
    let rows: Vec<Vec<String>> = queues.iter().map(queue_row).collect();
    output::table(
        &["QUEUE", "DEPTH", "RUNNING", "LATENCY", "IN/S", "OUT/S", "TIME TO DRAIN", "STATE"],
        &rows,
    );
    output::note("IN/S and OUT/S cover the last 10 s");
    let overview: JobServerOverview = client.get("/v1/jobs/overview").await?;
    if let Some(until) = overview.limits_lowered_until {
        output::note(&limits::lowered(until - overview.now));
    }
    Ok(())
}

fn queue_row(queue: &QueueView) -> Vec<String> {
    vec![
        queue.name.clone(),
        queue.depth.to_string(),
        running(queue),
        seconds(queue.latency_seconds),
        format!("{:.1}", queue.recent.pushed_per_second),
        format!("{:.1}", queue.recent.processed_per_second),
        queue.drain.describe(seconds),
        queue_state(queue),
    ]
}

/// Returns the jobs in progress, and how many may be: `3/4`.
fn running(queue: &QueueView) -> String {
    let most = queue.concurrency_in_force.or(queue.concurrency);
    limits::of_most(queue.working, most)
}

fn queue_state(queue: &QueueView) -> String {
    if queue.paused {
        return "paused".to_owned();
    }
    let blocked = queue.blocked;
    if blocked == 0 {
        return "running".to_owned();
    }
    let by_rate = (queue.blocked_by.rate, "a rate");
    let by_resource = queue.resources.iter().map(|it| (it.blocked, it.name.as_str()));
    let causes = std::iter::once(by_rate).chain(by_resource).filter(|(jobs, _)| *jobs > 0);
    match causes.collect::<Vec<_>>().as_slice() {
        [(jobs, cause)] if *jobs == blocked => format!("{blocked} blocked by {cause}"),
        causes => {
            let causes = causes.iter().map(|(jobs, cause)| format!(", {jobs} by {cause}"));
            format!("{blocked} blocked{}", causes.collect::<String>())
        }
    }
}

async fn list_jobs(
    client: &mut AdminClient,
    arguments: &JobsListArgs,
    place: &str,
) -> anyhow::Result<()> {
    let query = JobQuery {
        place: query::place_name(place),
        search: arguments.search.clone(),
        jobtype: arguments.jobtype.clone(),
        jid: arguments.jid.clone(),
        after: arguments.after.clone(),
        newest_first: arguments.newest,
        ..JobQuery::default()
    };
    let place = query.place.clone();
    let found = search(client, query, arguments).await?;
    if let Some(missing) = &found.missing {
        output::note(&format!("not complete: {missing}"));
    }
    if found.total == 0 {
        query::reject_unknown(client, &place).await?;
    }
    match (arguments.json, arguments.page) {
        (true, true) => return output::json(&found),
        (true, false) => output::json(&found.jobs)?,
        (false, _) => print_jobs(&found.jobs),
    }
    if !arguments.json || found.next.is_some() {
        output::note(&summary(&found));
    }
    Ok(())
}

/// Fetches pages until `limit` jobs are found or `scan_max` are examined: a page of a search may be
/// empty although more follow.
async fn search(
    client: &mut AdminClient,
    mut query: JobQuery,
    arguments: &JobsListArgs,
) -> anyhow::Result<JobListPage> {
    let mut found = JobListPage::default();
    loop {
        query.limit = Some(arguments.limit.saturating_sub(found.jobs.len()));
        let page: JobListPage = client.get(&query::path("list", &query)).await?;
        found.jobs.extend(page.jobs);
        found.missing = found.missing.or(page.missing);
        found.scanned += page.scanned;
        (found.total, found.next) = (page.total, page.next);
        query.after.clone_from(&found.next);
        let is_enough = arguments.scan_max.is_some_and(|max| found.scanned >= max);
        if found.next.is_none() || found.jobs.len() >= arguments.limit || is_enough {
            return Ok(found);
        }
    }
}

fn print_jobs(jobs: &[JobView]) {
    let now = Clock::system().now().as_secs_f64();
    let rows: Vec<Vec<String>> = jobs.iter().map(|job| job_row(job, now)).collect();
    output::table(&["JID", "JOBTYPE", "QUEUE", "WHEN", "ERROR"], &rows);
}

fn summary(found: &JobListPage) -> String {
    let (shown, scanned, total) = (found.jobs.len(), found.scanned, found.total);
    match &found.next {
        Some(next) => {
            format!("{shown} of {total}; {scanned} read; continue with --after '{next}'")
        }
        None => format!("{shown} of {total}"),
    }
}

fn job_row(job: &JobView, now: f64) -> Vec<String> {
    let away = job.at - now;
    let when = if away > 0.0 {
        format!("in {}", seconds(away))
    } else {
        format!("{} ago", seconds(-away))
    };
    let error = job.failure.as_ref().map(|failure| {
        let message: String = failure.message.chars().take(60).collect();
        format!("{}: {message}", failure.errtype)
    });
    vec![job.jid.clone(), job.jobtype.clone(), job.queue.clone(), when, error.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use weir_jobs::view::{BlockedView, ResourceView};

    use super::*;

    #[test]
    fn the_state_of_a_queue_names_what_holds_back_its_jobs() {
        let state = |blocked, rate, by_resource: &[(&str, u64)]| {
            let resources = by_resource.iter().map(|(name, blocked)| ResourceView {
                name: (*name).to_owned(),
                blocked: *blocked,
                ..ResourceView::default()
            });
            queue_state(&QueueView {
                blocked,
                blocked_by: BlockedView { rate, ..BlockedView::default() },
                resources: resources.collect(),
                ..QueueView::default()
            })
        };
        assert_eq!(state(0, 0, &[("payments", 0)]), "running");
        assert_eq!(state(4, 0, &[]), "4 blocked");
        assert_eq!(state(4, 4, &[]), "4 blocked by a rate");
        assert_eq!(state(4, 1, &[]), "4 blocked, 1 by a rate");
        assert_eq!(state(4, 0, &[("payments", 4), ("api", 0)]), "4 blocked by payments");
        let both = state(5, 1, &[("payments", 4), ("api", 2)]);
        assert_eq!(both, "5 blocked, 1 by a rate, 4 by payments, 2 by api");
        let paused = QueueView { paused: true, blocked: 3, ..QueueView::default() };
        assert_eq!(queue_state(&paused), "paused");
    }

    #[test]
    fn jobs_in_progress_are_shown_with_the_limit_in_force() {
        let mut queue = QueueView { working: 3, ..QueueView::default() };
        assert_eq!(running(&queue), "3");
        queue.concurrency = Some(8);
        assert_eq!(running(&queue), "3/8");
        queue.concurrency_in_force = Some(6);
        assert_eq!(running(&queue), "3/6", "after a crash");
    }
}
