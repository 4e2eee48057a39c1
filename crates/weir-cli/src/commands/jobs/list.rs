//! `weir jobs list`: the queues, or the jobs of one place.

use clap::Args;
use weir_base::clock::Clock;
use weir_jobs::handle::JobQuery;
use weir_jobs::view::{JobListPage, JobView, QueueView};

use super::query;
use crate::admin_client::AdminClient;
use crate::commands::status::seconds;
use crate::exit::Exit;
use crate::output;
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
    /// Maximum number of jobs
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Newest first
    #[arg(long, requires = "place")]
    newest: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
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
    Ok(())
}

fn queue_row(queue: &QueueView) -> Vec<String> {
    vec![
        queue.name.clone(),
        queue.depth.to_string(),
        queue.working.to_string(),
        seconds(queue.latency_seconds),
        format!("{:.1}", queue.pushed_per_second),
        format!("{:.1}", queue.processed_per_second),
        queue.drain_seconds.map_or_else(|| "-".to_owned(), seconds),
        if queue.paused { "paused" } else { "running" }.to_owned(),
    ]
}

/// Fetches pages until `limit` jobs are found: a page of a search may be empty although more follow.
async fn list_jobs(
    client: &mut AdminClient,
    arguments: &JobsListArgs,
    place: &str,
) -> anyhow::Result<()> {
    let mut query = JobQuery {
        place: query::place_name(place),
        search: arguments.search.clone(),
        jobtype: arguments.jobtype.clone(),
        newest_first: arguments.newest,
        ..JobQuery::default()
    };
    let mut jobs: Vec<JobView> = Vec::new();
    let mut missing = None;
    let total = loop {
        query.limit = Some(arguments.limit - jobs.len());
        let page: JobListPage = client.get(&query::path("list", &query)).await?;
        jobs.extend(page.jobs);
        missing = missing.or(page.missing);
        query.after = page.next;
        if query.after.is_none() || jobs.len() >= arguments.limit {
            break page.total;
        }
    };
    if let Some(missing) = missing {
        output::note(&format!("not complete: {missing}"));
    }
    if total == 0 {
        query::reject_unknown(client, &query.place).await?;
    }
    if arguments.json {
        return output::json(&jobs);
    }
    let now = Clock::system().now().as_secs_f64();
    let rows: Vec<Vec<String>> = jobs.iter().map(|job| job_row(job, now)).collect();
    output::table(&["JID", "JOBTYPE", "QUEUE", "WHEN", "ERROR"], &rows);
    output::note(&format!("{} of {total}", jobs.len()));
    Ok(())
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
