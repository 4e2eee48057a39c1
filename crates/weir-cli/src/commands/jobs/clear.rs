//! `weir jobs clear`: deletes all jobs of a queue or a set.

use clap::Args;
use serde_json::json;
use weir_admin::jobs::{Act, ActOnQueues, JobAction, JobCount, QueueVerb};
use weir_jobs::handle::{JobQuery, Queues, Which};

use super::query;
use crate::admin_client::AdminClient;
use crate::commands::confirm::confirm;
use crate::exit::Exit;
use crate::output;
use crate::target::Target;

/// `weir jobs clear`.
#[derive(Debug, Args)]
pub(crate) struct JobsClearArgs {
    #[command(flatten)]
    target: Target,
    /// A queue, or one of the sets scheduled, retries and dead
    place: String,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &JobsClearArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let place = query::place_name(&arguments.place);
    let all = JobQuery { place: place.clone(), ..JobQuery::default() };
    let JobCount { count } = client.get(&query::path("count", &all)).await?;
    if count == 0 {
        query::reject_unknown(&mut client, &place).await?;
    }
    let question = format!("Delete {} of {place}?", output::count(count, "job"));
    if count > 0 && !confirm(&question, arguments.yes)? {
        output::note("nothing changed");
        return Ok(Exit::Failed);
    }
    let JobCount { count } = match place.strip_prefix("queue:") {
        Some(queue) => {
            let queues = Queues::Named(vec![queue.to_owned()]);
            let act = ActOnQueues { queues, action: QueueVerb::Clear };
            client.post("/v1/jobs/queues/act", &act).await?
        }
        None => {
            let which = Which::Matching { search: None, jobtype: None };
            let act = Act { place, which, action: JobAction::Discard };
            client.post("/v1/jobs/act", &act).await?
        }
    };
    if arguments.json {
        output::json(&json!({ "count": count }))?;
    } else {
        output::line(&format!("{} deleted", output::count(count, "job")));
    }
    Ok(Exit::Fine)
}
