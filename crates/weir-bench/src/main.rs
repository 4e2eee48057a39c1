//! Load generators: they speak public wire protocols only and know nothing of Weir's inside, so that a peer
//! is measured in the same way. One subcommand per part; each prints the envelope of `envelope.rs`.
//!
//! Exit codes: 0 all operations did what they should, 1 some did not, 2 the run could not be made, 64 wrong usage.

mod checks;
mod clock;
mod comparison;
mod draw;
mod envelope;
mod event_loop;
mod exodus;
mod floor;
mod forecasts;
mod front;
mod front_worker;
mod gems;
mod http;
mod jobs;
mod latency;
mod output;
mod process_usage;
mod realtime;
mod report;
mod rounds;
mod soak;
mod socket;
mod tally;
mod tenants;
mod weir_process;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::output::Output;

const EXIT_ERRORS_FOUND: u8 = 1;
const EXIT_IMPOSSIBLE: u8 = 2;
const EXIT_USAGE: u8 = 64;

#[derive(Debug, Parser)]
#[command(name = "weir-bench", version, about = "Load generators for Weir and its peers")]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Background jobs, over the Faktory protocol.
    Jobs(Box<jobs::JobsFlags>),
    /// Many WebSocket clients, over the Pusher protocol or Centrifugo's.
    ///
    /// One thread reads for all clients and stamps what arrives: latencies are from the sending of a publish to its
    /// arrival there. Another thread only publishes, on connections of its own, and measures publish_p50_us and
    /// publish_p99_us: from the sending of the request to having the answer. It asks for the priority -20, so that it
    /// does not wait for the readers where both have one core; publisher_nice says what it got (without CAP_SYS_NICE
    /// 0: then give the clients two cores). client_cpu_seconds is the CPU time of all threads.
    Realtime(Box<realtime::RealtimeFlags>),
    /// HTTP requests to an app with several workers, through a proxy or straight to their sockets.
    ///
    /// Each request says how long its worker is to be busy (`GET /sleep?us=5000`), drawn from the seed: every server
    /// gets the same sequence. Answers name their worker (`X-Worker`), so that the shares can be compared.
    Front(Box<front::FrontFlags>),
    /// An index of gems: one to import, and requests to a server of it.
    Gems(Box<gems::GemsFlags>),
    /// A backlog of jobs in a real Weir, drained by worker processes while more arrive: how long those wait.
    Exodus(Box<exodus::ExodusFlags>),
    /// A worker process of `exodus`, which starts it.
    #[command(hide = true)]
    ExodusWorker(Box<exodus::ExodusWorkerFlags>),
    /// Quiet tenants beside a hog in one queue of a real Weir: how long the jobs of the quiet ones wait.
    Tenants(Box<tenants::TenantsFlags>),
    /// Backlogs that drain in a real Weir and in Sidekiq: how many do so within the range that was forecast.
    ///
    /// Exit code 1: fewer than --within-min of the forecasts were right, or there were too few ranges.
    Forecasts(Box<forecasts::ForecastsFlags>),
    /// A worker process of `forecasts`, which starts it.
    #[command(hide = true)]
    ForecastsWorker(Box<forecasts::ForecastsWorkerFlags>),
    /// All parts of one Weir or of three under load, while faults are injected; nothing may be lost, repeated or reordered.
    ///
    /// It starts real Weirs, Redis and Postgres, and prints a report in Markdown. Some faults need root: they are skipped
    /// otherwise, and the report says so.
    Soak(Box<soak::SoakFlags>),
    /// A worker process of `soak`, which starts it.
    #[command(hide = true)]
    SoakWorker(Box<soak::SoakWorkerFlags>),
    /// All comparisons of a record (--record) as one table with ranges, losses and charts, written into a page.
    Report(Box<report::ReportFlags>),
    /// What this machine can do at best just now: a round trip on loopback, a synced write, a hash; as JSON.
    Floor,
    /// A sample app for `front`: one thread, one request at a time.
    FrontWorker(Box<front_worker::WorkerFlags>),
}

fn print_floor(output: &mut Output) -> anyhow::Result<bool> {
    let floor = floor::measure()?;
    output.print(&(serde_json::to_string(&floor)? + "\n"))?;
    Ok(true)
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { EXIT_USAGE } else { 0 };
            // A closed terminal is no reason to fail differently.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let mut output = Output::standard();
    let outcome = match &cli.bench {
        Bench::Jobs(flags) => jobs::run(flags, &mut output),
        Bench::Realtime(flags) => realtime::run(flags, &mut output),
        Bench::Front(flags) => front::run(flags, &mut output),
        Bench::Gems(flags) => gems::run(flags, &mut output),
        Bench::Exodus(flags) => exodus::run(flags, &mut output),
        Bench::ExodusWorker(flags) => exodus::run_worker(flags, &mut output),
        Bench::Tenants(flags) => tenants::run(flags, &mut output),
        Bench::Forecasts(flags) => forecasts::run(flags, &mut output),
        Bench::ForecastsWorker(flags) => forecasts::run_worker(flags, &mut output),
        Bench::Soak(flags) => soak::run(flags, &mut output),
        Bench::SoakWorker(flags) => soak::run_worker(flags, &mut output),
        Bench::Report(flags) => report::run(flags),
        Bench::Floor => print_floor(&mut output),
        Bench::FrontWorker(flags) => front_worker::run(flags, &mut output),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(EXIT_ERRORS_FOUND),
        Err(error) => {
            // As above.
            let _ = output.note(&format!("weir-bench: {error:#}"));
            ExitCode::from(EXIT_IMPOSSIBLE)
        }
    }
}
