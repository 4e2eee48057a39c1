//! The command line: one definition gives flags, help, completions and docs/reference/cli.md.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::commands::audit::AuditArguments;
use crate::commands::backup::BackupArguments;
use crate::commands::check::CheckArguments;
use crate::commands::demo::DemoArguments;
use crate::commands::docs::DocsArguments;
use crate::commands::init::InitArguments;
use crate::commands::man::ManArguments;
use crate::commands::reference::ReferencePage;
use crate::commands::restart::RestartArguments;
use crate::commands::restore::RestoreArguments;
use crate::commands::status::StatusArguments;
use crate::commands::up::UpArguments;
use crate::commands::{
    AutopilotCommand, ConsoleCommand, DoctorArguments, GemsCommand, JobsCommand, PlanArguments,
    RealtimeCommand, SidekiqCommand, SimulateArguments, SwitchCommand, WorkersCommand, audit,
    autopilot, backup, check, completions, console, demo, docs, doctor, gems, init, jobs, man,
    plan, realtime, reference, restart, restore, sidekiq, simulate, status, switch, workers,
};
use crate::exit::{self, Exit};
use crate::service::ServiceCommands;

/// Keeps a web application standing when its traffic multiplies.
#[derive(Debug, Parser)]
#[command(name = "weir", version, disable_help_subcommand = true)]
#[command(
    after_help = exit::help()
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
    /// Start Weir with a sample app, workers and clients inside this program, and flood it
    Demo(Box<DemoArguments>),
    /// Check the settings: report every error with its line, and print the values that are set
    Check(CheckArguments),
    /// Write a commented weir.toml
    Init(InitArguments),
    /// Show the status of a running Weir
    Status(StatusArguments),
    /// Replace the service process by a new one that reads the settings again, without losing a
    /// request; realtime clients are asked to reconnect
    Restart(RestartArguments),
    /// Replace the parent and the service process after a new build of Weir was installed, keeping
    /// workers and connections
    Upgrade(RestartArguments),
    /// Back up the data directory, of a running or a stopped Weir
    Backup(BackupArguments),
    /// Restore a backup into an empty data directory
    Restore(RestoreArguments),
    /// List, inspect and change jobs
    #[command(subcommand)]
    Jobs(JobsCommand),
    /// List realtime channels, publish events and close connections
    #[command(subcommand)]
    Realtime(RealtimeCommand),
    /// Manage the gem index
    #[command(subcommand)]
    Gems(GemsCommand),
    /// Switch off realtime events and endpoints of the gem index by name, at run time
    #[command(subcommand)]
    Switch(SwitchCommand),
    /// List and control the workers of apps
    #[command(subcommand)]
    Workers(WorkersCommand),
    /// Show what the autopilot of job queues sees and does, and control it
    #[command(subcommand)]
    Autopilot(AutopilotCommand),
    /// Show who changed what in a running Weir: by the console, the admin API and the command line
    Audit(AuditArguments),
    /// Prepare logins of the console
    #[command(subcommand)]
    Console(ConsoleCommand),
    /// Diagnose a running Sidekiq with its Redis and Postgres: problems, time to drain, and the
    /// line to change; read-only
    Doctor(Box<DoctorArguments>),
    /// Calculate processes, pools and settings for a machine and its queues, and write them as
    /// files; or check a layout
    Plan(Box<PlanArguments>),
    /// Simulate queues, workers and a database from a scenario file, and compare policies
    Simulate(Box<SimulateArguments>),
    /// Change the queues of a Sidekiq
    #[command(subcommand)]
    Sidekiq(SidekiqCommand),
    /// Search the documentation
    Docs(DocsArguments),
    /// Print a completion script for a shell
    Completions {
        /// Name of the shell
        shell: Shell,
    },
    /// Write the man pages into a folder
    Man(ManArguments),
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
    /// The arguments are invalid, or ask for help.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let arguments = help_as_flag(std::env::args_os().collect());
        Self::try_parse_from(arguments).map_err(correct_suggestions)
    }

    /// Reads a command line without running it.
    #[cfg(test)]
    pub(crate) fn parse_words(words: &[String]) -> Result<Self, clap::Error> {
        Self::try_parse_from(help_as_flag(words.iter().map(Into::into).collect()))
    }

    /// Runs the command.
    ///
    /// # Errors
    /// The command failed.
    pub(crate) fn run(self, service: ServiceCommands) -> anyhow::Result<Exit> {
        match self.command {
            Command::Up(arguments) => (service.up)(arguments),
            Command::Demo(arguments) => demo::run(*arguments, service.demo),
            Command::Check(arguments) => check::run(&arguments),
            Command::Init(arguments) => init::run(&arguments),
            Command::Status(arguments) => status::run(&arguments),
            Command::Restart(arguments) => restart::run(&arguments, "/v1/restart"),
            Command::Upgrade(arguments) => restart::run(&arguments, "/v1/upgrade"),
            Command::Backup(arguments) => backup::run(&arguments),
            Command::Restore(arguments) => restore::run(&arguments),
            Command::Jobs(command) => jobs::run(command),
            Command::Realtime(command) => realtime::run(command),
            Command::Gems(command) => gems::run(command),
            Command::Switch(command) => switch::run(command),
            Command::Workers(command) => workers::run(command),
            Command::Autopilot(command) => autopilot::run(command),
            Command::Audit(arguments) => audit::run(&arguments),
            Command::Console(command) => console::run(&command),
            Command::Doctor(arguments) => doctor::run(&arguments),
            Command::Plan(arguments) => plan::run(&arguments),
            Command::Simulate(arguments) => simulate::run(&arguments),
            Command::Sidekiq(command) => sidekiq::run(command),
            Command::Docs(arguments) => docs::run(&arguments),
            Command::Completions { shell } => Ok(completions::run(shell, &Self::command())),
            Command::Man(arguments) => man::run(&arguments, Self::command()),
            Command::Service => (service.service)(),
            Command::Reference { page } => Ok(reference::run(page, Self::command())),
        }
    }
}

/// Turns `weir help demo flood` into `weir demo flood --help`. A command `help` would be in the reference below each command.
fn help_as_flag(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.get(1).is_some_and(|first| first == "help") {
        arguments.remove(1);
        arguments.push("--help".into());
    }
    arguments
}

/// Adds the command that was meant to an error about an unknown one. clap suggests commands that are hidden, too.
fn correct_suggestions(mut error: clap::Error) -> clap::Error {
    let kind = ContextKind::SuggestedSubcommand;
    let unknown = error.get(ContextKind::InvalidSubcommand).map(ToString::to_string);
    if unknown.as_deref() == Some("flood") {
        error.remove(kind);
        error.insert(kind, ContextValue::Strings(vec!["demo flood".to_owned()]));
        return error;
    }
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
