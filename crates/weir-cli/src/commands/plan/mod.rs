//! `weir plan`: calculates processes, pools and settings for a machine and its queues; or checks a
//! layout.

mod arguments;
pub(in crate::commands) mod check;
pub(in crate::commands) mod files;
mod input;
mod notes;
pub(in crate::commands) mod planned;
pub(in crate::commands) mod report;

use serde_json::json;
use weir_advisor::Observation;
use weir_advisor::plan::{
    Impossible, LeftOut, Plan, PlanInput, difference, held_up, overruled, plan,
};
use weir_observe::{Sources, observe};

pub(crate) use self::arguments::PlanArguments;
use crate::admin_client::block_on;
use crate::exit::Exit;
use crate::output;

pub(crate) fn run(arguments: &PlanArguments) -> anyhow::Result<Exit> {
    if let Some(file) = &arguments.check {
        return check::run(file, arguments);
    }
    let sources = arguments.sources()?;
    let observation = block_on(async { Ok(observe_sources(&sources).await) })?;
    let (input, left_out) = input::plan_input(arguments, &observation)?;
    let assumed = input::assumed(arguments, &observation, &input);
    let report = PlanReport { arguments, observation, input, left_out, assumed };
    match plan(&report.input) {
        Ok(plan) => report.print_plan(&plan),
        Err(impossible) => report.print_refusal(&impossible),
    }
}

/// Observes the given sources; without any, returns at once.
async fn observe_sources(sources: &Sources) -> Observation {
    if sources.redis.is_empty() && sources.postgres.is_none() {
        return Observation::default();
    }
    Box::pin(observe(sources)).await
}

/// The inputs of a plan.
struct PlanReport<'a> {
    arguments: &'a PlanArguments,
    observation: Observation,
    input: PlanInput,
    /// Names that get no process.
    left_out: Vec<LeftOut>,
    /// Values that were neither given nor observed.
    assumed: Vec<String>,
}

impl PlanReport<'_> {
    fn print_plan(&self, plan: &Plan) -> anyhow::Result<Exit> {
        let Self { arguments, observation, input, left_out, assumed } = self;
        let difference = difference(observation, plan);
        let postgres = observation.postgres.known();
        let overruled = postgres.map(|postgres| overruled(postgres, plan)).unwrap_or_default();
        if arguments.json {
            let document = json!({
                "wanted": input,
                "assumed": assumed,
                "left_out": left_out,
                "held_up": held_up(observation),
                "plan": plan,
                "overruled": overruled,
                "difference": difference,
            });
            output::json(&document)?;
        } else {
            output::raw(&report::text(input, plan, &difference));
            output::raw(&notes::text(&[
                notes::unusable_durations(&held_up(observation)),
                notes::left_out(left_out),
                notes::assumed(assumed),
                notes::pooler(observation.pooler.as_ref()),
                notes::cache(input, plan),
                notes::overruled(&overruled),
            ]));
        }
        if let Some(folder) = &arguments.write {
            files::write(folder, &files::files(arguments, input, plan)?, arguments)?;
        }
        Ok(Exit::Fine)
    }

    fn print_refusal(&self, impossible: &Impossible) -> anyhow::Result<Exit> {
        let Self { arguments, observation, input, left_out, assumed } = self;
        let Impossible { broken, remedies } = impossible;
        if arguments.json {
            output::json(&json!({
                "wanted": input,
                "assumed": assumed,
                "left_out": left_out,
                "held_up": held_up(observation),
                "broken": broken,
                "ways_out": remedies,
            }))?;
        } else {
            output::raw(&report::refusal(input, broken));
            output::raw(&notes::text(&[
                notes::unusable_durations(&held_up(observation)),
                notes::possible_changes(remedies),
                notes::pooler(observation.pooler.as_ref()),
                notes::no_pooler(observation, arguments.pgbouncer.is_some()),
                notes::left_out(left_out),
                notes::assumed(assumed),
            ]));
        }
        if arguments.write.is_some() {
            output::note("no files were written");
        }
        Ok(Exit::FoundProblem)
    }
}
