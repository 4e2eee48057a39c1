//! `weir jobs pause` and `resume`.

use anyhow::bail;
use clap::Args;
use serde_json::json;
use weir_admin::jobs::{ActOnQueues, JobCount, QueueVerb};
use weir_jobs::handle::Queues;
use weir_jobs::quarantine;
use weir_jobs::view::QueueView;

use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::target::Target;
use weir_config::suggestion;

/// `weir jobs pause|resume`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["queues", "all"]))]
pub(crate) struct JobsPauseArgs {
    #[command(flatten)]
    target: Target,
    /// Names of queues
    queues: Vec<String>,
    /// Every queue
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Which way.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verb {
    Pause,
    Resume,
}

pub(super) async fn run(arguments: &JobsPauseArgs, verb: Verb) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let (action, done) = match verb {
        Verb::Pause => (QueueVerb::Pause, "paused"),
        Verb::Resume => (QueueVerb::Resume, "resumed"),
    };
    let known: Vec<QueueView> = client.get("/v1/jobs/queues").await?;
    for name in &arguments.queues {
        if !known.iter().any(|queue| queue.name == *name) {
            let hint = suggestion(name, known.iter().map(|queue| queue.name.as_str()));
            bail!("there is no queue {name:?}{hint}");
        }
    }
    let queues = if arguments.all { Queues::All } else { Queues::Named(arguments.queues.clone()) };
    let _: JobCount = client.post("/v1/jobs/queues/act", &ActOnQueues { queues, action }).await?;
    // Actions on all queues leave quarantines out.
    let all = known.iter().filter(|queue| quarantine::parts(&queue.name).is_none());
    let count = if arguments.all { all.count() } else { arguments.queues.len() };
    if arguments.json {
        output::json(&json!({ "queues": count }))?;
    } else {
        let noun = if count == 1 { "queue" } else { "queues" };
        output::line(&format!("{count} {noun} {done}"));
    }
    Ok(Exit::Fine)
}
