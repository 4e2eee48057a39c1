//! The command line: one definition gives flags, help, completions and docs/reference/cli.md.

use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::admin_client::AdminClient;
use crate::commands::{
    DoctorArguments, GemsCommand, JobsCommand, PlanArguments, RealtimeCommand, SidekiqCommand,
    SwitchCommand, WorkersCommand,
};
use weir_config::part::Part;
use weir_config::{LogFormat, LogLevel};

/// Keeps a web application standing when its traffic multiplies.
#[derive(Debug, Parser)]
#[command(name = "weir", version, about, disable_help_subcommand = true)]
#[command(
    after_help = "Exit codes: 0 fine, 1 found a problem (check, doctor, plan, jobs verify, gems \
                  verify) or a new worker did not start (workers restart), 2 could not do it, 64 wrong usage."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
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

/// Where the settings are.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SettingsArguments {
    /// Settings file [default: the one that WEIR_CONFIG names, else weir.toml here, if there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Folder for everything that Weir keeps; wins over the settings file
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

/// `weir up`.
#[derive(Debug, Args)]
pub(crate) struct UpArguments {
    #[command(flatten)]
    pub(crate) settings: SettingsArguments,
    /// Start only these parts; the admin socket is there in any case. Without jobs no job store is
    /// opened
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    pub(crate) only: Vec<Part>,
    /// First read all of the job store and repair what is damaged, older segments included: every
    /// record whose checksum holds is kept, the rest is set aside
    #[arg(long)]
    pub(crate) salvage: bool,
    /// How the log looks; wins over log.format
    #[arg(long = "log", value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// What is logged; wins over log.level
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<LogLevel>,
    /// Go on in the place of an earlier program, which has left this descriptor
    #[arg(long, hide = true)]
    pub(crate) takeover: Option<i32>,
    /// Say whether that could be done
    #[arg(long, hide = true)]
    pub(crate) takeover_check: Option<i32>,
}

/// `weir check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    #[command(flatten)]
    pub(crate) settings: SettingsArguments,
    /// Print every setting, also those that have their defaults, as --json always does
    #[arg(long)]
    pub(crate) all: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `weir init`.
#[derive(Debug, Args)]
pub(crate) struct InitArguments {
    /// What to start from
    #[arg(default_value = "default")]
    pub(crate) template: Template,
    /// The app server that `front` is for; it decides about the command and how many requests a
    /// process is given at once
    #[arg(long, value_name = "SERVER", default_value = "gunicorn")]
    pub(crate) server: AppServer,
    /// File to write; `-` for standard output
    #[arg(long, value_name = "FILE", default_value = "weir.toml")]
    pub(crate) output: PathBuf,
    /// Replace a file that exists
    #[arg(long)]
    pub(crate) force: bool,
}

/// A settings file to start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Template {
    /// Every setting, commented out, with its default
    Default,
    /// A web app whose processes Weir runs
    Front,
    /// A Sidekiq that stays as it is, to be looked at
    Observe,
    /// What a server that others reach should set
    Production,
}

/// An app server whose command and concurrency are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AppServer {
    /// Python, WSGI: one request per process
    Gunicorn,
    /// Python, ASGI
    Uvicorn,
    /// Python, ASGI
    Hypercorn,
    /// Python, ASGI
    Granian,
    /// Ruby, threads
    Puma,
    /// Ruby: one request per process
    Unicorn,
    /// JavaScript
    Node,
    /// Go's own server
    Go,
}

/// `weir status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `weir restart`, `weir upgrade`.
#[derive(Debug, Args)]
pub(crate) struct RestartArguments {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which running Weir is meant.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Target {
    #[command(flatten)]
    pub(crate) settings: SettingsArguments,
    /// Talk to the console's port of another machine instead of the socket in data_dir
    #[arg(long, value_name = "URL", requires = "token_env", conflicts_with_all = ["config", "data_dir"], value_parser = address)]
    pub(crate) url: Option<String>,
    /// Environment variable that holds console.token
    #[arg(long, value_name = "NAME", requires = "url")]
    pub(crate) token_env: Option<String>,
}

/// Pages of docs/reference that come from the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReferencePage {
    Settings,
    Cli,
}

impl Cli {
    /// The command line of this process, or what is to be said instead.
    ///
    /// # Errors
    /// It is a mistake, or asks for help.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        Self::try_parse().map_err(without_hidden)
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

/// The address of a running Weir.
fn address(text: &str) -> anyhow::Result<String> {
    AdminClient::check(text)?;
    Ok(text.to_owned())
}
