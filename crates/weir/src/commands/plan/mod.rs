//! `weir plan`: processes, pools and settings for a machine and its queues, with proof; or a layout,
//! judged.

mod arguments;
mod check;
mod files;
mod notes;
mod report;
mod wanted;

use serde_json::json;
use weir_advisor::Observation;
use weir_advisor::plan::{Impossible, LeftOut, Plan, Wanted, difference, overruled, plan};
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
    let (wanted, left_out) = wanted::wanted(arguments, &observation)?;
    match plan(&wanted) {
        Ok(plan) => give(arguments, &observation, &wanted, &left_out, &plan),
        Err(impossible) => refuse(arguments, &impossible, &left_out),
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
    left_out: &[LeftOut],
    plan: &Plan,
) -> anyhow::Result<Exit> {
    let difference = difference(observation, plan);
    let postgres = observation.postgres.known();
    let overruled = postgres.map(|postgres| overruled(postgres, plan)).unwrap_or_default();
    if arguments.json {
        let document = json!({
            "wanted": wanted,
            "left_out": left_out,
            "plan": plan,
            "overruled": overruled,
            "difference": difference,
        });
        output::json(&document)?;
    } else {
        output::raw(&report::text(wanted, plan, &difference));
        let pooler = observation.pooler.as_ref();
        output::raw(&notes::text(&[
            notes::left_out(left_out),
            notes::pooler(pooler),
            notes::overruled(&overruled),
        ]));
    }
    if let Some(folder) = &arguments.write {
        files::write(folder, &files::files(arguments, wanted, plan)?, arguments.yes)?;
    }
    Ok(Exit::Fine)
}

fn refuse(
    arguments: &PlanArguments,
    impossible: &Impossible,
    left_out: &[LeftOut],
) -> anyhow::Result<Exit> {
    if arguments.json {
        output::json(&json!({ "broken": impossible.broken, "left_out": left_out }))?;
    } else {
        output::line("there is no such plan: the machine or the database is too small");
        output::raw(&report::proofs(&impossible.broken));
        output::raw(&notes::text(&[notes::left_out(left_out)]));
    }
    Ok(Exit::FoundProblem)
}
