//! `weir jobs move`: moves jobs to another queue.

use clap::Args;
use weir_jobs::handle::StepAction;

use super::query;
use super::task::{self, MatchArguments};
use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::target::Target;

/// `weir jobs move`.
#[derive(Debug, Args)]
pub(crate) struct JobsMoveArgs {
    #[command(flatten)]
    target: Target,
    /// A queue, or one of the sets scheduled, retries and dead
    #[arg(long, value_name = "PLACE")]
    from: String,
    /// The queue that gets the jobs, at its end
    #[arg(long, value_name = "QUEUE")]
    to: String,
    #[command(flatten)]
    matching: MatchArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &JobsMoveArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let action = StepAction::Move(arguments.to.clone());
    let first = arguments.matching.query(&arguments.from, action);
    let place = first.place.clone();
    let outcome = task::run(&mut client, first, arguments.matching.running.detach).await?;
    if outcome.task().changed == 0 {
        query::reject_unknown(&mut client, &place).await?;
    }
    let is_complete = outcome.report(arguments.json, &format!("moved to {}", arguments.to))?;
    Ok(if is_complete { Exit::Fine } else { Exit::Failed })
}
