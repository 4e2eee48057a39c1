//! A plan for another command, which knows from files what runs today.

use anyhow::bail;
use clap::{Args, FromArgMatches};
use weir_advisor::observation::{Fact, SidekiqObservation};
use weir_advisor::plan::{Impossible, LeftOut, Plan, PlanInput, plan};

use super::arguments::PlanArguments;
use super::{input, notes, observe_sources, report};
use crate::admin_client::block_on;
use crate::exit::WrongUsage;

/// What runs today, as far as files show it.
pub(in crate::commands) struct Present {
    pub(in crate::commands) jobs: SidekiqObservation,
    pub(in crate::commands) web_processes: u32,
    /// Whether the application has streaming processes, unless an option says so.
    pub(in crate::commands) has_streaming: bool,
}

/// A plan with its inputs.
pub(in crate::commands) struct Planned {
    pub(in crate::commands) input: PlanInput,
    pub(in crate::commands) plan: Plan,
    pub(in crate::commands) left_out: Vec<LeftOut>,
    /// Options that were neither given nor measured.
    pub(in crate::commands) assumed: Vec<String>,
    /// Whether Redis was asked for the figures of the queues.
    pub(in crate::commands) is_measured: bool,
}

/// Computes a plan from options of `weir plan`; without `--redis`, the processes of `present` take the place of those
/// that Redis would show.
///
/// # Errors
/// An option is not one of `weir plan`, a source cannot be read, or no plan keeps all rules; the text then says which.
pub(in crate::commands) fn planned(
    options: &[String],
    present: Present,
) -> anyhow::Result<Planned> {
    let arguments = parse(options)?;
    let sources = arguments.sources()?;
    let is_measured = !sources.redis.is_empty();
    let mut observation = block_on(async { Ok(observe_sources(&sources).await) })?;
    let Present { jobs, web_processes, has_streaming } = present;
    if !is_measured {
        observation.jobs = Fact::Known(jobs);
    }
    let (mut input, left_out) = input::plan_input(&arguments, &observation)?;
    if arguments.web_requests.is_none() {
        input.web.processes_now = web_processes;
    }
    let mut assumed = input::assumed(&arguments, &observation, &input);
    if !has_streaming && arguments.streaming.is_none() {
        input.streaming = (0, 1);
        assumed.retain(|option| !option.starts_with("--streaming"));
    }
    match plan(&input) {
        Ok(plan) => Ok(Planned { input, plan, left_out, assumed, is_measured }),
        Err(Impossible { broken, remedies }) => bail!(
            "{}{}",
            report::refusal(&input, &broken),
            notes::text(&[notes::possible_changes(&remedies), notes::assumed(&assumed)])
        ),
    }
}

/// Parses options of `weir plan`; of one that is given twice, the last counts.
fn parse(options: &[String]) -> anyhow::Result<PlanArguments> {
    let command = clap::Command::new("weir plan").no_binary_name(true).args_override_self(true);
    let matches = PlanArguments::augment_args(command).try_get_matches_from(options);
    let arguments = matches.and_then(|matches| PlanArguments::from_arg_matches(&matches));
    let arguments = arguments.map_err(|error| {
        WrongUsage::new(format!("the options after -- are those of `weir plan`: {error}"))
    })?;
    if arguments.check.is_some() || arguments.write.is_some() || arguments.json {
        bail!(WrongUsage::new(
            "after --, --check, --write and --json of `weir plan` cannot be used"
        ));
    }
    Ok(arguments)
}
