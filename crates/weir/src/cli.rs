//! The command line: one definition gives flags, help, completions and docs/reference/cli.md.

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::commands::check::CheckArguments;
use crate::commands::init::InitArguments;
use crate::commands::reference::ReferencePage;
use crate::commands::restart::RestartArguments;
use crate::commands::status::StatusArguments;
use crate::commands::up::UpArguments;
use crate::commands::{
    DoctorArguments, GemsCommand, JobsCommand, PlanArguments, RealtimeCommand, SidekiqCommand,
    SwitchCommand, WorkersCommand, check, completions, doctor, gems, init, jobs, plan, realtime,
    reference, restart, sidekiq, status, switch, up, workers,
};
use crate::exit::Exit;

/// Keeps a web application standing when its traffic multiplies.
#[derive(Debug, Parser)]
#[command(name = "weir", version, about, disable_help_subcommand = true)]
#[command(
    after_help = "Exit codes: 0 fine, 1 found a problem (check, doctor, plan, jobs verify, gems \
                  verify) or a new worker did not start (workers restart), 2 could not do it, 64 wrong usage."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start Weir and stay in the foreground
    Up(UpArguments),
    /// Check the settings: report every mistake with its line, print what is set
    Check(CheckArguments),
    /// Write a commented weir.toml
    Init(InitArguments),
    /// Show how a running Weir is doing
    Status(StatusArguments),
    /// Start a new process beside the present one, with the settings as they are now, and let it take
    /// over without a gap
    Restart(RestartArguments),
    /// Execute Weir's program anew, after its file was replaced: the parent goes on as the new
    /// program with all workers and connections, then the same as `restart`
    Upgrade(RestartArguments),
    /// Look at jobs and act on them
    #[command(subcommand)]
    Jobs(JobsCommand),
    /// Look at realtime channels and act on them
    #[command(subcommand)]
    Realtime(RealtimeCommand),
    /// Look at the index of gems and act on it
    #[command(subcommand)]
    Gems(GemsCommand),
    /// Turn off at run time what can be spared: events of realtime, endpoints of gems, by name
    #[command(subcommand)]
    Switch(SwitchCommand),
    /// See and steer the workers of the front's apps
    #[command(subcommand)]
    Workers(WorkersCommand),
    /// Look at Sidekiq, Redis and Postgres as they run: what is wrong, how long until it is over,
    /// which line to change; writes nowhere
    Doctor(Box<DoctorArguments>),
    /// Work out processes, pools and settings for a machine and its queues, with proof, and write them as
    /// files; or judge a layout
    Plan(Box<PlanArguments>),
    /// Act on a Sidekiq that Weir does not run
    #[command(subcommand)]
    Sidekiq(SidekiqCommand),
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// The service process; the parent starts it
    #[command(hide = true)]
    Service,
    /// Print a page of docs/reference
    #[command(hide = true)]
    Reference {
        /// Which page
        page: ReferencePage,
    },
}

impl Cli {
    /// The command line of this process, or what is to be said instead.
    ///
    /// # Errors
    /// It is a mistake, or asks for help.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        Self::try_parse().map_err(without_hidden)
    }

    /// Runs the command.
    ///
    /// # Errors
    /// The command's.
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self.command {
            Command::Up(arguments) => up::run(arguments),
            Command::Check(arguments) => check::run(&arguments),
            Command::Init(arguments) => init::run(&arguments),
            Command::Status(arguments) => status::run(&arguments),
            Command::Restart(arguments) => restart::run(&arguments, "/v1/restart"),
            Command::Upgrade(arguments) => restart::run(&arguments, "/v1/upgrade"),
            Command::Jobs(command) => jobs::run(command),
            Command::Realtime(command) => realtime::run(command),
            Command::Gems(command) => gems::run(command),
            Command::Switch(command) => switch::run(command),
            Command::Workers(command) => workers::run(command),
            Command::Doctor(arguments) => doctor::run(&arguments),
            Command::Plan(arguments) => plan::run(&arguments),
            Command::Sidekiq(command) => sidekiq::run(command),
            Command::Completions { shell } => Ok(completions::run(shell, &Self::command())),
            Command::Service => crate::run::run(),
            Command::Reference { page } => Ok(reference::run(page, Self::command())),
        }
    }
}

/// clap suggests commands that are hidden, too.
fn without_hidden(mut error: clap::Error) -> clap::Error {
    let kind = ContextKind::SuggestedSubcommand;
    let Some(ContextValue::Strings(mut names)) = error.remove(kind) else { return error };
    let command = Cli::command();
    let hidden =
        |name: &String| command.find_subcommand(name).is_some_and(clap::Command::is_hide_set);
    names.retain(|name| !hidden(name));
    if !names.is_empty() {
        error.insert(kind, ContextValue::Strings(names));
    }
    error
}
