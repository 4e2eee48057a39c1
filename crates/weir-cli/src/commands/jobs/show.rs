//! `weir jobs show`.

use clap::Args;
use weir_jobs::view::{JobView, JobViewState};

use super::query;
use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::target::Target;

/// `weir jobs show`.
#[derive(Debug, Args)]
pub(crate) struct JobsShowArgs {
    #[command(flatten)]
    target: Target,
    /// The job's id
    jid: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &JobsShowArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let job: JobView = client.get(&query::job_path(&arguments.jid)).await?;
    if arguments.json {
        output::json(&job)?;
    } else {
        print(&job);
    }
    Ok(Exit::Fine)
}

fn print(job: &JobView) {
    let state = match job.state {
        JobViewState::Enqueued => "waiting",
        JobViewState::Working => "working",
        JobViewState::Scheduled => "scheduled",
        JobViewState::Retries => "waiting for a retry",
        JobViewState::Dead => "dead",
    };
    let at = time(job.at);
    output::line(&format!("{} {} in {}: {state} ({at})", job.jobtype, job.jid, job.queue));
    if let Some(wid) = &job.wid {
        output::line(&format!("worker   {wid}"));
    }
    if let Some(failure) = &job.failure {
        output::line(&format!("failed   {}: {}", failure.errtype, failure.message));
        output::line(&format!("retries  {} done, {} left", failure.retry_count, failure.remaining));
        for line in &failure.backtrace {
            output::line(&format!("         {line}"));
        }
    }
    output::line(&format!("payload  {}", job.payload));
}

/// Formats a time as RFC 3339, with seconds.
pub(super) fn time(seconds: f64) -> String {
    let duration = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let whole = i64::try_from(duration.as_secs()).unwrap_or_default();
    jiff::Timestamp::from_second(whole).map(|time| time.to_string()).unwrap_or_default()
}
