//! One file per verb.

mod check;
mod completions;
mod confirm;
mod doctor;
mod gems;
mod init;
mod jobs;
mod plan;
mod realtime;
mod reference;
mod restart;
mod sidekiq;
mod sources;
mod status;
mod switch;
mod up;
mod workers;

pub(crate) use self::doctor::DoctorArguments;
pub(crate) use self::gems::GemsCommand;
pub(crate) use self::jobs::JobsCommand;
pub(crate) use self::plan::PlanArguments;
pub(crate) use self::realtime::RealtimeCommand;
pub(crate) use self::sidekiq::SidekiqCommand;
pub(crate) use self::switch::SwitchCommand;
pub(crate) use self::workers::WorkersCommand;

use crate::cli::Command;
use crate::exit::Exit;

/// Runs one command.
pub(crate) fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
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
        Command::Completions { shell } => Ok(completions::run(shell)),
        Command::Service => crate::run::run(),
        Command::Reference { page } => Ok(reference::run(page)),
    }
}
