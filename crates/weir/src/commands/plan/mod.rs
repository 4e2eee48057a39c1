//! `weir plan`: processes, pools and settings for a machine and its queues, with proof; or a layout,
//! judged.

mod arguments;
mod check;
mod files;
mod report;
mod wanted;

use serde_json::json;
use weir_advisor::Observation;
use weir_advisor::plan::{Impossible, Plan, Wanted, difference, plan};
use weir_observe::{Sources, observe};

pub(crate) use self::arguments::PlanArguments;
use crate::admin_client::block_on;
use crate::exit::Exit;
use crate::output;

pub(super) fn run(arguments: &PlanArguments) -> anyhow::Result<Exit> {
    if let Some(file) = &arguments.check {
        return check::run(file, arguments.json);
    }
    let sources = arguments.sources()?;
    let observation = block_on(async { Ok(look(&sources).await) })?;
    let wanted = wanted::wanted(arguments, &observation)?;
    match plan(&wanted) {
        Ok(plan) => give(arguments, &observation, &wanted, &plan),
        Err(impossible) => refuse(arguments, &impossible),
    }
}

/// At what runs now, if it was named: without a source there is nothing to wait for.
async fn look(sources: &Sources) -> Observation {
    if sources.redis.is_empty() && sources.postgres.is_none() {
        return Observation::default();
    }
    Box::pin(observe(sources)).await
}

fn give(
    arguments: &PlanArguments,
    observation: &Observation,
    wanted: &Wanted,
    plan: &Plan,
) -> anyhow::Result<Exit> {
    let difference = difference(observation, plan);
    if arguments.json {
        output::json(&json!({ "wanted": wanted, "plan": plan, "difference": difference }))?;
    } else {
        output::raw(&report::text(wanted, plan, &difference));
    }
    if let Some(folder) = &arguments.write {
        files::write(folder, &files::files(arguments, wanted, plan)?, arguments.yes)?;
    }
    Ok(Exit::Fine)
}

fn refuse(arguments: &PlanArguments, impossible: &Impossible) -> anyhow::Result<Exit> {
    if arguments.json {
        output::json(&json!({ "broken": impossible.broken }))?;
    } else {
        output::line("there is no such plan: the machine or the database is too small");
        output::raw(&report::proofs(&impossible.broken));
    }
    Ok(Exit::FoundProblem)
}
