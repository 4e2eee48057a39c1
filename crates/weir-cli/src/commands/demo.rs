//! `weir demo`: Weir with an app, workers, clients and a flood. The binary starts and stops it all.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use weir_base::clock::Clock;
use weir_demo::config::DemoConfig;
use weir_demo::flood::{self, FloodOutcome};
use weir_demo::{CLIENTS_DEFAULT, CLIENTS_MAX, FloodRequest};

use crate::admin_client::block_on;
use crate::exit::{Exit, WrongUsage};
use crate::output;

/// How long a flood waits for a demo that takes it.
const FLOOD_EXPIRES_AFTER: Duration = Duration::from_secs(10);
/// The most seconds between two lines.
const EVERY_SECONDS_MAX: u64 = 600;

/// `weir demo`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DemoArguments {
    #[command(subcommand)]
    pub command: Option<DemoCommand>,
    /// Keep settings, log and data in this folder [default: a temporary folder, which is removed at the end]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Use ports that the system chooses, instead of 7419 (jobs), 7420 (console) and 8080 (front)
    #[arg(long)]
    pub free_ports: bool,
    /// Number of realtime clients, at most 5,000
    #[arg(long, value_name = "N", default_value_t = CLIENTS_DEFAULT, value_parser = clients)]
    pub clients: usize,
    /// Seconds between two lines with figures
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=EVERY_SECONDS_MAX))]
    pub every: u64,
    /// Turn the autopilot on: it reads the sessions of the Postgres at this URL, which needs pg_monitor, and keeps its
    /// lease there in the table weir.leases, which it creates. The demo's jobs themselves use no database
    #[arg(long, value_name = "URL")]
    pub postgres: Option<String>,
    /// Print a line of JSON instead of each line of text
    #[arg(long)]
    pub json: bool,
    /// Print the weir.toml that the demo would start with
    #[arg(long)]
    pub print_config: bool,
}

/// `weir demo ..`.
#[derive(Debug, Subcommand)]
pub enum DemoCommand {
    /// Multiply the traffic of a running demo for a while
    Flood(FloodArguments),
    /// The app behind the front, which starts it
    #[command(hide = true)]
    App {
        /// Where it listens
        socket: PathBuf,
    },
}

/// `weir demo flood`.
#[derive(Debug, Args)]
pub struct FloodArguments {
    /// How long, 1 to 600
    #[arg(long, value_name = "SECONDS", default_value_t = FloodRequest::default().seconds)]
    seconds: u64,
    /// The factor of all rates, 2 to 200
    #[arg(long, value_name = "N", default_value_t = FloodRequest::default().times)]
    times: u64,
    /// Address of the demo's job server, as the demo prints it
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7419", value_parser = job_server)]
    jobs: SocketAddr,
}

/// Runs the command; `start` is the demo itself, in the binary.
pub(crate) fn run(
    arguments: DemoArguments,
    start: fn(DemoArguments) -> anyhow::Result<Exit>,
) -> anyhow::Result<Exit> {
    match &arguments.command {
        Some(DemoCommand::Flood(flood)) => block_on(send_flood(flood)),
        Some(DemoCommand::App { socket }) => block_on(async {
            let served = weir_demo::app::serve(socket).await;
            served.with_context(|| format!("cannot serve at {}", socket.display()))?;
            Ok(Exit::Fine)
        }),
        None if arguments.print_config => {
            output::raw(&arguments.config()?);
            Ok(Exit::Fine)
        }
        None => start(arguments),
    }
}

impl DemoArguments {
    /// Returns the content of the demo's weir.toml.
    ///
    /// # Errors
    /// The path of this program is not UTF-8.
    pub fn config(&self) -> anyhow::Result<String> {
        let program = std::env::current_exe().context("the path of this program is unknown")?;
        let program = program.to_str().context("the path of this program is not UTF-8")?;
        let postgres = self.postgres.as_deref();
        Ok(DemoConfig { program, has_free_ports: self.free_ports, postgres }.to_toml())
    }
}

fn clients(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=CLIENTS_MAX).contains(number));
    number.ok_or_else(|| format!("not a number from 1 to {CLIENTS_MAX}"))
}

/// Parses the address of a job server, with or without `tcp://`.
fn job_server(text: &str) -> Result<SocketAddr, String> {
    let address = text.strip_prefix("tcp://").unwrap_or(text);
    let address = address.strip_suffix('/').unwrap_or(address);
    address.parse().map_err(|_| {
        "not an address with a port, such as 127.0.0.1:7419 or tcp://127.0.0.1:7419".to_owned()
    })
}

async fn send_flood(arguments: &FloodArguments) -> anyhow::Result<Exit> {
    let FloodArguments { seconds, times, jobs } = *arguments;
    let request = FloodRequest::new(seconds, times).map_err(WrongUsage::new)?;
    let expires_at = weir_jobs::stamp::rfc3339(Clock::system().now() + FLOOD_EXPIRES_AFTER);
    let outcome = flood::request(jobs, request, &expires_at).await.with_context(|| {
        format!("no demo responds at {jobs}; start one with `weir demo`, or name its job server with --jobs")
    })?;
    match outcome {
        FloodOutcome::Began => {
            output::line(&format!(
                "The flood has begun: {times} times the traffic for {seconds} s. See the terminal of `weir demo`, and its console."
            ));
            Ok(Exit::Fine)
        }
        FloodOutcome::InProgress { seconds_left } => bail!(
            "a flood is in progress and ends in {seconds_left} s; ask for another one after that"
        ),
        FloodOutcome::NotTaken => bail!(
            "the Weir at {jobs} runs no demo: nothing took the flood within {} s; start one with `weir demo`",
            flood::ANSWER_TIMEOUT.as_secs()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::job_server;

    #[test]
    fn address_is_taken_as_the_demo_prints_it() {
        let address = "127.0.0.1:35249".parse().unwrap();
        for text in ["127.0.0.1:35249", "tcp://127.0.0.1:35249", "tcp://127.0.0.1:35249/"] {
            assert_eq!(job_server(text), Ok(address), "{text}");
        }
        assert!(job_server("localhost").unwrap_err().contains("such as 127.0.0.1:7419"));
    }
}
