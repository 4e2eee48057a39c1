//! `weir jobs retry`, `kill`, `delete` and `reschedule`: act on jobs by id, or on all matches.

use std::collections::BTreeMap;

use anyhow::bail;
use clap::Args;
use serde_json::json;
use weir_admin::jobs::{Act, JobAction, JobCount};
use weir_jobs::handle::{JobQuery, StepAction, StepQuery, Which};
use weir_jobs::view::{JobView, JobViewState};

use super::query;
use super::task::{self, TaskArguments, TaskOutcome};
use crate::admin_client::AdminClient;
use crate::commands::confirm::confirm;
use crate::exit::Exit;
use crate::output;
use crate::target::Target;

/// `weir jobs retry|kill|delete|reschedule`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["jids", "from"]))]
pub(crate) struct JobsActArgs {
    #[command(flatten)]
    target: Target,
    /// The jobs' ids
    jids: Vec<String>,
    /// Act on all (matching) jobs of a set: scheduled, retries or dead
    #[arg(long, value_name = "PLACE")]
    from: Option<String>,
    /// Only jobs whose JSON matches this glob; plain text matches anywhere in it
    #[arg(long, value_name = "GLOB", requires = "from")]
    search: Option<String>,
    /// Only jobs of this type
    #[arg(long, requires = "from")]
    jobtype: Option<String>,
    #[command(flatten)]
    running: TaskArguments,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The action on them.
#[derive(Clone, Debug)]
pub(super) enum Verb {
    Retry,
    Kill,
    Delete,
    /// To an RFC 3339 time.
    Reschedule(String),
}

impl Verb {
    fn action(&self) -> JobAction {
        match self {
            Self::Retry => JobAction::Requeue,
            Self::Kill => JobAction::Kill,
            Self::Delete => JobAction::Discard,
            Self::Reschedule(time) => JobAction::Reschedule(time.clone()),
        }
    }

    fn step(&self) -> StepAction {
        match self {
            Self::Retry => StepAction::Requeue,
            Self::Kill => StepAction::Kill,
            Self::Delete => StepAction::Discard,
            Self::Reschedule(time) => StepAction::Reschedule(time.clone()),
        }
    }

    fn question_verb(&self) -> &'static str {
        match self {
            Self::Retry => "Retry",
            Self::Kill => "Kill",
            Self::Delete => "Delete",
            Self::Reschedule(_) => "Reschedule",
        }
    }

    fn past_participle(&self) -> &'static str {
        match self {
            Self::Retry => "enqueued",
            Self::Kill => "moved to the dead set",
            Self::Delete => "deleted",
            Self::Reschedule(_) => "rescheduled",
        }
    }
}

pub(super) async fn run(arguments: &JobsActArgs, verb: &Verb) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    if let Some(place) = &arguments.from {
        return match act_on_matching(&mut client, arguments, place, verb).await? {
            Some(outcome) => report(&outcome, arguments, verb),
            None => {
                output::note("nothing changed");
                Ok(Exit::Failed)
            }
        };
    }
    let count = act_on_named(&mut client, &arguments.jids, verb).await?;
    if arguments.json {
        output::json(&json!({ "count": count }))?;
    } else {
        output::line(&format!("{} {}", output::count(count, "job"), verb.past_participle()));
    }
    Ok(Exit::Fine)
}

fn report(outcome: &TaskOutcome, arguments: &JobsActArgs, verb: &Verb) -> anyhow::Result<Exit> {
    let is_complete = outcome.report(arguments.json, verb.past_participle())?;
    Ok(if is_complete { Exit::Fine } else { Exit::Failed })
}

async fn act_on_matching(
    client: &mut AdminClient,
    arguments: &JobsActArgs,
    place: &str,
    verb: &Verb,
) -> anyhow::Result<Option<TaskOutcome>> {
    let place = query::place_name(place);
    let (search, jobtype) = (arguments.search.clone(), arguments.jobtype.clone());
    let counted = JobQuery {
        place: place.clone(),
        search: search.clone(),
        jobtype: jobtype.clone(),
        ..JobQuery::default()
    };
    let JobCount { count } = client.get(&query::path("count", &counted)).await?;
    if count == 0 {
        query::reject_unknown(client, &place).await?;
    }
    let question = format!("{} {} of {place}?", verb.question_verb(), output::count(count, "job"));
    if count > 0 && !confirm(&question, arguments.yes)? {
        return Ok(None);
    }
    let cursor = arguments.running.cursor.clone();
    let query = StepQuery { place, search, jobtype, action: verb.step(), cursor };
    Ok(Some(task::run(client, query, arguments.running.detach).await?))
}

/// Looks up each id first, since an action needs the set or queue and its entries.
async fn act_on_named(
    client: &mut AdminClient,
    jids: &[String],
    verb: &Verb,
) -> anyhow::Result<u64> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for jid in jids {
        let job: JobView = client.get(&query::job_path(jid)).await?;
        let place = match job.state {
            JobViewState::Scheduled => "scheduled".to_owned(),
            JobViewState::Retries => "retries".to_owned(),
            JobViewState::Dead => "dead".to_owned(),
            JobViewState::Enqueued => format!("queue:{}", job.queue),
            JobViewState::Working => bail!(
                "{jid} is in progress, so no job was changed; wait until its worker has finished"
            ),
        };
        places.entry(place).or_default().push(job.key);
    }
    let mut total = 0;
    for (place, keys) in places {
        let act = Act { place, which: Which::Keys(keys), action: verb.action() };
        let JobCount { count } = client.post("/v1/jobs/act", &act).await?;
        total += count;
    }
    Ok(total)
}
