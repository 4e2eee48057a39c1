//! `weir jobs export`: writes jobs as JSON lines, with an end line that counts them.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use hyper::StatusCode;
use indicatif::ProgressBar;
use weir_jobs::export_lines::{ExportEnd, StatePlace, export_line};
use weir_jobs::handle::JobQuery;
use weir_jobs::view::{
    JobListPage, JobServerOverview, JobView, JobViewState, QueueView, ReservationView,
};

use super::export_file::ExportFile;
use super::query;
use crate::admin_client::{AdminClient, Refused};
use crate::exit::Exit;
use crate::output;
use crate::target::Target;

/// `weir jobs export`.
#[derive(Debug, Args)]
pub(crate) struct JobsExportArgs {
    #[command(flatten)]
    target: Target,
    /// Queues, or the sets scheduled, retries and dead [default: everything, with the jobs in
    /// progress as waiting jobs of their queues, and with batches, progress and cron jobs]
    places: Vec<String>,
    /// Only jobs whose JSON matches this glob; plain text matches anywhere in it
    #[arg(long, value_name = "GLOB")]
    search: Option<String>,
    /// Only jobs of this type
    #[arg(long)]
    jobtype: Option<String>,
    /// File to write, which must not exist; `-` for standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Continue the export in this file, which was interrupted. The other arguments must be the same
    #[arg(long)]
    resume: bool,
}

pub(super) async fn run(arguments: &JobsExportArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let queries = queries(&mut client, arguments).await?;
    let mut file = ExportFile::open(&arguments.output, arguments.resume)?;
    let is_filtered = arguments.search.is_some() || arguments.jobtype.is_some();
    let is_everything = arguments.places.is_empty() && !is_filtered;
    let end = async {
        if is_everything {
            export_state(&mut client, &StatePlace::BEFORE, &mut file).await?;
        }
        let bar = ProgressBar::new(queries.iter().map(|(_, total)| total).sum());
        for (query, before) in &queries {
            export_place(&mut client, query, &mut file, &bar).await?;
            if !is_filtered {
                check_count(&mut client, query, *before, &file).await?;
            }
        }
        bar.finish_and_clear();
        if is_everything {
            export_in_progress(&mut client, &mut file).await?;
            export_state(&mut client, &StatePlace::AFTER, &mut file).await?;
        }
        file.finish()
    };
    let end = end.await.with_context(|| file.incomplete())?;
    output::note(&summary(&end));
    Ok(Exit::Fine)
}

/// Returns the queries for all places, each with the number of jobs that are there.
async fn queries(
    client: &mut AdminClient,
    arguments: &JobsExportArgs,
) -> anyhow::Result<Vec<(JobQuery, u64)>> {
    let mut queries = Vec::new();
    for place in list_places(client, &arguments.places).await? {
        let (search, jobtype) = (arguments.search.clone(), arguments.jobtype.clone());
        let query = JobQuery { place, search, jobtype, ..JobQuery::default() };
        let total = total(client, &query).await?;
        if total == 0 {
            query::reject_unknown(client, &query.place).await?;
        }
        queries.push((query, total));
    }
    Ok(queries)
}

/// Returns the places in the direction in which jobs move by themselves, so that none is missed.
async fn list_places(client: &mut AdminClient, named: &[String]) -> anyhow::Result<Vec<String>> {
    if !named.is_empty() {
        return Ok(named.iter().map(|name| query::place_name(name)).collect());
    }
    let queues: Vec<QueueView> = client.get("/v1/jobs/queues").await?;
    let queues = queues.into_iter().map(|queue| format!("queue:{}", queue.name));
    let due_later = ["scheduled", "retries"].map(str::to_owned);
    Ok(due_later.into_iter().chain(queues).chain(["dead".to_owned()]).collect())
}

/// Returns how many jobs the place has, whatever the filter.
async fn total(client: &mut AdminClient, query: &JobQuery) -> anyhow::Result<u64> {
    let first = JobQuery { place: query.place.clone(), limit: Some(1), ..JobQuery::default() };
    Ok(client.get::<JobListPage>(&query::path("list", &first)).await?.total)
}

async fn export_place(
    client: &mut AdminClient,
    query: &JobQuery,
    file: &mut ExportFile,
    bar: &ProgressBar,
) -> anyhow::Result<()> {
    if file.has_all_of(&query.place) {
        return Ok(());
    }
    let query = JobQuery { after: file.take_key(&query.place), ..query.clone() };
    let write = |piece: &[u8]| {
        bar.inc(file.write(&query.place, piece)?);
        Ok(())
    };
    client.stream(&query::path("export", &query), write).await
}

/// Exports batches, progress or cron jobs.
async fn export_state(
    client: &mut AdminClient,
    places: &[StatePlace],
    file: &mut ExportFile,
) -> anyhow::Result<()> {
    for place in places {
        let query = JobQuery { place: place.as_str().to_owned(), ..JobQuery::default() };
        export_place(client, &query, file, &ProgressBar::hidden()).await?;
    }
    Ok(())
}

/// Compares what was exported with the size of the place.
async fn check_count(
    client: &mut AdminClient,
    query: &JobQuery,
    before: u64,
    file: &ExportFile,
) -> anyhow::Result<()> {
    let (place, exported) = (&query.place, file.jobs_of(&query.place));
    let after = total(client, query).await?;
    if before == after && exported == after {
        return Ok(());
    }
    if before == after && !file.is_continued() {
        bail!("{place} has {after} jobs, but {exported} were exported; export it again");
    }
    output::note(&format!(
        "{place} changed during the export: {before} jobs before, {after} after, {exported} exported; for an exact export, stop everything that pushes or fetches jobs"
    ));
    Ok(())
}

/// Exports the jobs in progress as waiting jobs of their queues.
async fn export_in_progress(client: &mut AdminClient, file: &mut ExportFile) -> anyhow::Result<()> {
    let overview: JobServerOverview = client.get("/v1/jobs/overview").await?;
    if overview.working == 0 {
        return Ok(());
    }
    let path = format!("/v1/jobs/reservations?limit={}", overview.working);
    let reserved: Vec<ReservationView> = client.get(&path).await?;
    let (listed, working) = (reserved.len(), overview.working);
    if u64::try_from(listed).is_ok_and(|listed| listed < working) {
        bail!(
            "{working} jobs are in progress, but Weir lists only {listed}; wait until fewer are, or raise jobs.limits.advanced.page_jobs_max"
        );
    }
    let mut exported = 0;
    for reservation in reserved {
        let job = match client.get::<JobView>(&query::job_path(&reservation.jid)).await {
            Ok(job) => JobView { key: String::new(), ..job },
            Err(error) if is_not_found(&error) => continue,
            Err(error) => return Err(error),
        };
        let place = place_of(&job);
        exported += file.write(&place, export_line(&place, &job).as_bytes())?;
    }
    output::note(&format!(
        "{} in progress exported as waiting: stop the workers before you import, or these run twice",
        output::count(exported, "job")
    ));
    Ok(())
}

/// Returns where the job belongs. A job may have failed since it was listed.
fn place_of(job: &JobView) -> String {
    match job.state {
        JobViewState::Scheduled => "scheduled".to_owned(),
        JobViewState::Retries => "retries".to_owned(),
        JobViewState::Dead => "dead".to_owned(),
        JobViewState::Enqueued | JobViewState::Working => format!("queue:{}", job.queue),
    }
}

fn is_not_found(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refused>().is_some_and(|it| it.status == StatusCode::NOT_FOUND)
}

fn summary(end: &ExportEnd) -> String {
    let of = |place: &str| end.places.get(place).copied().unwrap_or_default();
    let queues = || end.places.iter().filter(|(place, _)| place.starts_with("queue:"));
    let waiting: u64 = queues().map(|(_, jobs)| jobs).sum();
    let queues = u64::try_from(queues().count()).unwrap_or_default();
    let state = match end.entries() {
        0 => String::new(),
        _ => format!(
            "\nalso exported: batches ({}), tracked jobs ({}), cron jobs ({})",
            of("batches"),
            of("tracks"),
            of("cron"),
        ),
    };
    format!(
        "{} exported: {waiting} in {}, {} scheduled, {} retries, {} dead{state}\nSHA-256 of their lines: {}",
        output::count(end.jobs - end.entries(), "job"),
        output::count(queues, "queue"),
        of("scheduled"),
        of("retries"),
        of("dead"),
        end.sha256
    )
}
