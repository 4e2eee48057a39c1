//! `weir jobs cancel`: asks workers to end jobs in progress.

use anyhow::bail;
use clap::Args;
use weir_jobs::handle::CancelQuery;
use weir_jobs::view::{CancelView, CancelledJobView};

use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::target::Target;

/// `weir jobs cancel`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["jids", "jobtype"]))]
pub(crate) struct JobsCancelArgs {
    #[command(flatten)]
    target: Target,
    /// The jobs' ids
    jids: Vec<String>,
    /// All jobs of this type that are in progress
    #[arg(long)]
    jobtype: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &JobsCancelArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let query = CancelQuery { jids: arguments.jids.clone(), jobtype: arguments.jobtype.clone() };
    let cancelled: CancelView = client.post("/v1/jobs/cancel", &query).await?;
    if arguments.json {
        output::json(&cancelled)?;
    } else {
        cancelled.jobs.iter().for_each(|job| output::line(&phrase(job)));
    }
    if cancelled.jobs.iter().any(|job| !job.is_notified) {
        output::note(
            "a worker that does not support cancelling runs its jobs to their end; if such a job fails, it is dead and not retried. To end it now, end its worker: the job then runs again",
        );
    }
    if let Some(jid) = cancelled.not_in_progress.first() {
        let others = cancelled.not_in_progress.len() - 1;
        let more = if others > 0 { format!(" and {others} more") } else { String::new() };
        bail!(
            "{}{more}: not in progress; `weir jobs delete` and `weir jobs kill` are for jobs that wait",
            output::printable(jid)
        );
    }
    let is_complete =
        !cancelled.jobs.is_empty() && cancelled.jobs.iter().all(|job| job.is_notified);
    if cancelled.jobs.is_empty() {
        output::note("no job of this type is in progress");
    }
    Ok(if is_complete { Exit::Fine } else { Exit::Failed })
}

fn phrase(job: &CancelledJobView) -> String {
    let (jid, jobtype) = (output::printable(&job.jid), output::printable(&job.jobtype));
    let worker = job.worker.as_deref().map(output::printable);
    match (worker, &job.wid) {
        (Some(worker), _) if job.is_notified => {
            format!("{jid} ({jobtype}): {worker} is asked to end it with its next BEAT")
        }
        (Some(worker), Some(wid)) => {
            let wid = output::printable(wid);
            format!("{jid} ({jobtype}): {worker} (wid {wid}) does not support cancelling")
        }
        _ => format!("{jid} ({jobtype}): its worker sends no BEAT to this node"),
    }
}
