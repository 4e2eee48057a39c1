//! The resources and the demand to plan for.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, ValueEnum};
use weir_advisor::observation::ConnectionPools;
use weir_advisor::plan::{QueueDemand, Storage};
use weir_observe::Sources;
use weir_sidekiq::SampleLimits;

use crate::commands::sources::{PgBouncerArguments, PostgresArguments, RedisArguments};
use crate::exit::WrongUsage;
use weir_config::pool;
use weir_config::units::{parse_duration, parse_size};

/// The highest `max_connections` of Postgres.
const MAX_CONNECTIONS_MAX: i64 = 262_143;

/// Options for a new plan, which conflict with `--check`: a layout contains all of these values.
const MAKING: [&str; 18] = [
    "redis",
    "postgres",
    "queues",
    "targets",
    "pushes",
    "cores",
    "memory",
    "postgres_memory",
    "redis_memory",
    "storage",
    "pgbouncer",
    "pgbouncer_url",
    "reserve",
    "web_requests",
    "web_seconds",
    "web_threads",
    "streaming",
    "write",
];

/// `weir plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    /// A queue with its arrival rate per second and the seconds that a job keeps a thread busy; in
    /// addition to the values measured in Redis, or instead of them. The most important queue first
    #[arg(long = "queue", value_name = "NAME=RATE,SECONDS", value_parser = parse_demand)]
    pub(super) queues: Vec<QueueDemand>,
    /// The longest wait for 95 % of the jobs of a queue, also while every thread is busy
    #[arg(long = "target", value_name = "NAME=DURATION", value_parser = parse_target)]
    pub(super) targets: Vec<(String, Duration)>,
    /// Queues that the application pushes to, planned for even if they are empty or not yet in
    /// Redis
    #[arg(long, value_name = "QUEUE", value_delimiter = ',')]
    pub(super) pushes: Vec<String>,
    /// Time between the two snapshots of Redis
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    window: Duration,
    /// Cores of the machine [default: this one's]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) cores: Option<u32>,
    /// Memory of the machine [default: this one's]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(super) memory: Option<u64>,
    /// Part of the memory for Postgres; 0 if it runs on another machine [default: a quarter]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(super) postgres_memory: Option<u64>,
    /// Part of the memory for Redis; 0 if it runs on another machine [default: a sixteenth]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(super) redis_memory: Option<u64>,
    /// Kind of the database's disk
    #[arg(long, default_value = "ssd")]
    pub(super) storage: Disk,
    /// max_connections of the database [default: from --postgres, or 200]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=MAX_CONNECTIONS_MAX))]
    pub(super) max_connections: Option<u32>,
    /// The most connections to the database that a connection pooler opens; these instead of the
    /// pools must then fit the database. 0: there is no pooler [default: from --pgbouncer-url]
    #[arg(long, value_name = "NUMBER")]
    pub(super) pgbouncer: Option<u32>,
    /// Connections to keep free for psql, migrations and monitoring
    #[arg(long, value_name = "NUMBER", default_value = "15")]
    pub(super) reserve: u32,
    /// Web requests per second at peak load [default: 10]
    #[arg(long, value_name = "RATE", value_parser = parse_positive)]
    pub(super) web_requests: Option<f64>,
    /// Average time in seconds that a web request keeps a thread busy [default: 0.1]
    #[arg(long, value_name = "SECONDS", value_parser = parse_positive)]
    pub(super) web_seconds: Option<f64>,
    /// Threads of one web process
    #[arg(long, value_name = "NUMBER", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) web_threads: u32,
    /// Streaming processes, and the pool of each [default: 1x10]
    #[arg(long, value_name = "PROCESSESxPOOL", value_parser = parse_streaming)]
    pub(super) streaming: Option<ConnectionPools>,
    /// Write weir.toml, systemd units, a docker-compose override and settings of Postgres and Redis
    /// to this folder; asks before it replaces files
    #[arg(long, value_name = "DIR")]
    pub(super) write: Option<PathBuf>,
    /// Replace files without asking
    #[arg(long, requires = "write")]
    pub(super) yes: bool,
    /// Remove units in this folder that only an earlier plan contains, unless they are enabled
    #[arg(long, requires = "write")]
    pub(super) prune: bool,
    /// The application's folder, for those files
    #[arg(long, value_name = "DIR", default_value = "/srv/app")]
    pub(super) folder: String,
    /// The application's user, for those files
    #[arg(long, value_name = "NAME", default_value = "app")]
    pub(super) user: String,
    /// Check an existing layout instead of calculating one: layout.toml as written by `weir plan
    /// --write`, systemd units, docker-compose.yml or a Procfile; a file or its folder
    #[arg(long, value_name = "PATH", conflicts_with_all = MAKING)]
    pub(super) check: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    // Last: their headings would be those of what stands behind them.
    #[command(flatten)]
    pub(super) redis: RedisArguments,
    #[command(flatten)]
    pub(super) postgres: PostgresArguments,
    #[command(flatten)]
    between: PgBouncerArguments,
}

/// The storage of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Disk {
    /// It turns
    Hdd,
    /// SATA
    Ssd,
    /// `NVMe`
    Nvme,
}

/// All processes belong to one Sidekiq. Those of another one serve other queues, even with the same names.
const SEVERAL: &str = "weir plan calculates the processes of one Sidekiq, and each Redis belongs to a separate one: run it once for each --redis. Leave out what the other Sidekiqs need: --cores and --memory are this one's share of the machine, --reserve includes the connections of the others";

impl From<Disk> for Storage {
    fn from(disk: Disk) -> Self {
        match disk {
            Disk::Hdd => Self::Hdd,
            Disk::Ssd => Self::Ssd,
            Disk::Nvme => Self::Nvme,
        }
    }
}

impl PlanArguments {
    /// Returns the sources of the current system.
    pub(super) fn sources(&self) -> anyhow::Result<Sources> {
        if self.redis.count() > 1 {
            bail!(WrongUsage::new(SEVERAL));
        }
        Ok(Sources {
            redis: self.redis.endpoints()?,
            limits: SampleLimits::default(),
            postgres: self.postgres.source(self.postgres_memory)?,
            services: Vec::new(),
            pooler: self.pgbouncer,
            pgbouncer: self.between.source(self.pgbouncer)?,
            pushed_queues: self.pushes.clone(),
            window: self.window,
            proc: Some(PathBuf::from("/proc")),
        })
    }
}

fn parse_demand(text: &str) -> Result<QueueDemand, String> {
    const HOW: &str = "write NAME=RATE,SECONDS, for example push=20,0.5";
    let (name, numbers) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or(HOW)?;
    let (rate, seconds) = numbers.split_once(',').ok_or(HOW)?;
    let (arrivals_per_second, service_seconds) = (parse_positive(rate)?, parse_positive(seconds)?);
    Ok(QueueDemand::said(name.to_owned(), arrivals_per_second, service_seconds))
}

fn parse_target(text: &str) -> Result<(String, Duration), String> {
    let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, wait) = parts.ok_or("write NAME=DURATION, for example push=30s")?;
    let wait = parse_duration(wait)?;
    if wait.is_zero() {
        return Err("a target of 0 s cannot be reached; give a longer duration".to_owned());
    }
    Ok((name.to_owned(), wait))
}

fn parse_positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|it: &f64| it.is_finite() && *it >= 0.0 && *it <= 1e6);
    number.ok_or_else(|| format!("{text:?} is not a number from 0 to 1,000,000"))
}

fn parse_streaming(text: &str) -> Result<ConnectionPools, String> {
    pool(&format!("streaming={text}"))
        .map_err(|_| "write PROCESSESxPOOL, for example 1x10".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demands_are_parsed_and_errors_reported() {
        let push = parse_demand("push=20,0.5").expect("a demand");
        assert_eq!((push.arrivals_per_second, push.service_seconds), (20.0, 0.5));
        for text in ["push", "push=20", "=1,1", "push=-1,1", "push=1,inf", "push=a,b"] {
            assert!(parse_demand(text).is_err(), "{text}");
        }
        assert_eq!(parse_target("push=30s"), Ok(("push".to_owned(), Duration::from_secs(30))));
        for text in ["push", "=30s", "push=", "push=0s"] {
            assert!(parse_target(text).is_err(), "{text}");
        }
        assert_eq!(parse_streaming("3x15").map(|it| it.connections()), Ok(45));
        assert!(parse_streaming("3").is_err());
    }
}
