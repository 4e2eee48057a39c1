//! `weir jobs types`: what each type of job costs, and how often it fails.

use clap::{Args, ValueEnum, value_parser};
use weir_jobs::handle::TypeOrder;
use weir_jobs::job_types::WINDOW_MINUTES_MAX;
use weir_jobs::view::{DurationsView, JobTypeView, JobTypesView, TypeCounts, TypeFiguresSource};

use super::show::time;
use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::output::{fine_seconds, percent, printable, seconds};
use crate::target::Target;

/// `weir jobs types`.
#[derive(Debug, Args)]
pub(crate) struct JobsTypesArgs {
    #[command(flatten)]
    target: Target,
    /// What comes first
    #[arg(long, value_enum, default_value = "run")]
    sort: Sort,
    /// Cover at least this many recent minutes, in slices of five minutes
    #[arg(long, default_value_t = WINDOW_MINUTES_MAX, value_parser = value_parser!(u32).range(1..=i64::from(WINDOW_MINUTES_MAX)))]
    minutes: u32,
    /// Only types that had a job from this queue, or may have had one
    #[arg(long)]
    queue: Option<String>,
    /// Maximum number of types
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The order of the types.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sort {
    /// The longest run time of all jobs together
    Run,
    /// The most failures
    Failed,
    /// The most jobs that started
    Started,
    /// The longest wait (95th percentile)
    Wait,
    /// The name
    Name,
}

impl Sort {
    const fn order(self) -> TypeOrder {
        match self {
            Self::Run => TypeOrder::Run,
            Self::Failed => TypeOrder::Failed,
            Self::Started => TypeOrder::Started,
            Self::Wait => TypeOrder::Wait,
            Self::Name => TypeOrder::Name,
        }
    }
}

pub(super) async fn run(arguments: &JobsTypesArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let mut types: JobTypesView = client.get(&path(arguments)).await?;
    let left_out = types.types.len().saturating_sub(arguments.limit);
    types.types.truncate(arguments.limit);
    if arguments.json {
        output::json(&types)?;
        return Ok(Exit::Fine);
    }
    print(&types);
    if left_out > 0 {
        output::note(&format!(
            "{} not shown: --limit",
            output::count(left_out as u64, "more type")
        ));
    }
    Ok(Exit::Fine)
}

fn path(arguments: &JobsTypesArgs) -> String {
    let mut parameters = form_urlencoded::Serializer::new(String::new());
    parameters.append_pair("sort", arguments.sort.order().name());
    parameters.append_pair("minutes", &arguments.minutes.to_string());
    if let Some(queue) = &arguments.queue {
        parameters.append_pair("queue", queue);
    }
    format!("/v1/jobs/types?{}", parameters.finish())
}

fn print(types: &JobTypesView) {
    let source = &types.source;
    output::line(&about(source));
    let shown = types.types.iter().chain(&types.other);
    let rows: Vec<Vec<String>> = shown.map(|it| row(it, types.run_seconds, source.now)).collect();
    let head = [
        "TYPE",
        "STARTED",
        "FAILED",
        "RUNNING",
        "WAIT P50 / P95 / P99",
        "RUN P50 / P95 / P99",
        "RUN TIME",
        "ENDED IN TOTAL",
        "LAST FAILURE",
    ];
    output::table(&head, &rows);
    print_notes(source);
    if let Some(other) = &types.other {
        output::note(&format!(
            "{} has all types beyond the first {} (jobs.limits.advanced.job_types_max)",
            other.jobtype, types.types_max
        ));
    }
}

/// Returns what the figures are about: `web-1, the last 57m 2s; totals since 2026-11-29T02:11:40Z`.
pub(super) fn about(source: &TypeFiguresSource) -> String {
    let (node, since) = (printable(&source.node), time(source.since));
    format!("{node}, the last {}; totals since {since}", seconds(source.window_seconds))
}

/// Prints what must be known about the figures.
pub(super) fn print_notes(source: &TypeFiguresSource) {
    if source.is_shared {
        output::note(&format!(
            "only jobs that were fetched through {}: those of other nodes and of Sidekiq's own workers are not counted",
            printable(&source.node)
        ));
    }
}

fn row(it: &JobTypeView, all_seconds: f64, now: f64) -> Vec<String> {
    let share = if all_seconds > 0.0 { it.recent.run_seconds / all_seconds } else { 0.0 };
    vec![
        printable(&it.jobtype),
        it.recent.started.to_string(),
        failed(&it.recent),
        it.running.to_string(),
        percentiles(it.wait.as_ref()),
        percentiles(it.run.as_ref()),
        format!("{} ({})", fine_seconds(it.recent.run_seconds), percent(share)),
        format!("{}, {} failed", it.total.ended, it.total.failed),
        last_failure(it, now),
    ]
}

/// Formats failures with their share in the jobs that ended: `3 (2.5 %)`.
pub(super) fn failed(counts: &TypeCounts) -> String {
    match counts.failed_share {
        Some(share) if counts.failed > 0 => format!("{} ({})", counts.failed, percent(share)),
        _ => counts.failed.to_string(),
    }
}

fn percentiles(durations: Option<&DurationsView>) -> String {
    let text = |it: &DurationsView| [it.p50, it.p95, it.p99].map(fine_seconds).join(" / ");
    durations.map_or_else(|| "-".to_owned(), text)
}

fn last_failure(it: &JobTypeView, now: f64) -> String {
    let Some(failure) = &it.last_failure else { return "-".to_owned() };
    let (ago, lasted) = (seconds((now - failure.at).max(0.0)), seconds(failure.lasted(now)));
    format!("{} {ago} ago, for {lasted}", printable(&failure.errtype))
}
