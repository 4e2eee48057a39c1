//! `weir jobs working`: jobs that workers have now.

use clap::Args;
use weir_base::clock::Clock;
use weir_jobs::view::ReservationView;

use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::output::seconds;
use crate::target::Target;

/// `weir jobs working`.
#[derive(Debug, Args)]
pub(crate) struct JobsWorkingArgs {
    #[command(flatten)]
    target: Target,
    /// Maximum number of jobs
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &JobsWorkingArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let path = format!("/v1/jobs/reservations?limit={}", arguments.limit);
    let jobs: Vec<ReservationView> = client.get(&path).await?;
    if arguments.json {
        output::json(&jobs)?;
        return Ok(Exit::Fine);
    }
    let now = Clock::system().now().as_secs_f64();
    let rows: Vec<Vec<String>> = jobs.iter().map(|job| row(job, now)).collect();
    output::table(&["JID", "JOBTYPE", "QUEUE", "WORKER", "RUNNING FOR", "EXPIRES IN"], &rows);
    Ok(Exit::Fine)
}

fn row(job: &ReservationView, now: f64) -> Vec<String> {
    let wid = job.wid.as_deref().unwrap_or("-");
    let texts = [&job.jid, &job.jobtype, &job.queue, wid].map(output::printable);
    let times = [now - job.since, job.expires_at - now].map(|time| seconds(time.max(0.0)));
    texts.into_iter().chain(times).collect()
}
