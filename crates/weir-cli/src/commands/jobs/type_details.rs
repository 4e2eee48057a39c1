//! `weir jobs type`: one type of job with its errors.

use clap::{Args, value_parser};
use weir_jobs::job_types::WINDOW_MINUTES_MAX;
use weir_jobs::view::{
    DurationsView, ErrorGroupView, JobTypeDetails, TypeQueueView, TypeSliceView,
};

use super::show::time;
use super::types::{about, failed, print_notes};
use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::output::{fine_seconds, percent, printable, seconds};
use crate::target::Target;

/// `weir jobs type`.
#[derive(Debug, Args)]
pub(crate) struct JobsTypeArgs {
    #[command(flatten)]
    target: Target,
    /// The type of the jobs (jobtype); "other" for those beyond the limit of types
    name: String,
    /// Cover at least this many recent minutes, in slices of five minutes
    #[arg(long, default_value_t = WINDOW_MINUTES_MAX, value_parser = value_parser!(u32).range(1..=i64::from(WINDOW_MINUTES_MAX)))]
    minutes: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &JobsTypeArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let mut parameters = form_urlencoded::Serializer::new(String::new());
    parameters.append_pair("name", &arguments.name);
    parameters.append_pair("minutes", &arguments.minutes.to_string());
    let details: JobTypeDetails =
        client.get(&format!("/v1/jobs/type?{}", parameters.finish())).await?;
    if arguments.json {
        output::json(&details)?;
    } else {
        print(&details);
    }
    Ok(Exit::Fine)
}

fn print(details: &JobTypeDetails) {
    let (source, it) = (&details.source, &details.figures);
    output::line(&format!("{} on {}", printable(&it.jobtype), about(source)));
    let (recent, total) = (&it.recent, &it.total);
    output::line(&format!("running   {}", it.running));
    output::line(&format!("started   {}, {} in total", recent.started, total.started));
    output::line(&format!("ended     {}, {} in total", recent.ended, total.ended));
    output::line(&format!("failed    {}, {} in total", failed(recent), failed(total)));
    if total.returned > 0 {
        output::line(&format!(
            "returned  {}, {} in total: their worker ended first, or they were not delivered",
            recent.returned, total.returned
        ));
    }
    output::line(&format!("wait      {}", durations(it.wait.as_ref())));
    output::line(&format!("run       {}", durations(it.run.as_ref())));
    print_errors(details);
    let queues = details.queues.iter().chain(&details.other_queues).map(queue_row);
    output::line("");
    output::table(&["QUEUE", "STARTED", "SHARE", "IN TOTAL"], &queues.collect::<Vec<_>>());
    let slices = details.slices.iter().map(slice_row);
    output::line("");
    let head = ["FROM", "STARTED", "FAILED", "WAIT P95", "RUN P95", "RUN TIME"];
    output::table(&head, &slices.collect::<Vec<_>>());
    print_notes(source);
}

fn print_errors(details: &JobTypeDetails) {
    let errors = details.errors.iter().chain(&details.other_errors);
    let rows: Vec<Vec<String>> = errors.map(|it| error_row(it, details.source.now)).collect();
    if rows.is_empty() {
        return;
    }
    output::line("");
    let head = ["ERROR", "RECENT", "TOTAL", "FIRST", "FOR", "LAST", "LAST JID", "MESSAGE"];
    output::table(&head, &rows);
}

fn error_row(error: &ErrorGroupView, now: f64) -> Vec<String> {
    let age = |at: f64| seconds((now - at).max(0.0));
    vec![
        printable(&error.errtype),
        error.recent.to_string(),
        error.total.to_string(),
        time(error.first_at),
        seconds(error.lasted(now)),
        format!("{} ago", age(error.last_at)),
        printable(&error.jid),
        printable(&error.message),
    ]
}

fn queue_row(queue: &TypeQueueView) -> Vec<String> {
    let total = format!("{} ({})", queue.total, percent(queue.total_share));
    vec![printable(&queue.queue), queue.recent.to_string(), percent(queue.recent_share), total]
}

fn slice_row(slice: &TypeSliceView) -> Vec<String> {
    let p95 =
        |it: Option<&DurationsView>| it.map_or_else(|| "-".to_owned(), |it| fine_seconds(it.p95));
    vec![
        time(slice.at),
        slice.counts.started.to_string(),
        failed(&slice.counts),
        p95(slice.wait.as_ref()),
        p95(slice.run.as_ref()),
        fine_seconds(slice.counts.run_seconds),
    ]
}

fn durations(durations: Option<&DurationsView>) -> String {
    let Some(DurationsView { p50, p95, p99, max }) = durations else { return "-".to_owned() };
    let [p50, p95, p99, max] = [p50, p95, p99, max].map(|it| fine_seconds(*it));
    format!("p50 {p50}, p95 {p95}, p99 {p99}, at most {max}")
}
