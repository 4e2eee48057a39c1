//! The sources of doctor, its checks and its output.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use weir_observe::Sources;
use weir_sidekiq::SampleLimits;

use super::follow_up::PassedOptions;
use super::weir::{WeirArguments, WeirSource};
use crate::commands::sources::{PgBouncerArguments, PostgresArguments, RedisArguments};
use weir_config::units::{format_size, parse_duration, parse_size};
use weir_config::{format_pool, pool};

/// The heading of options that belong to no source. Without one they would be below that of the last source.
const CHECKS: &str = "Checks and output";

pub(super) const EXAMPLES: &str = "Examples (name one source, or several):
  weir doctor --redis redis://127.0.0.1:6379/0 --postgres postgres://weir@127.0.0.1/app
  weir doctor --weir http://127.0.0.1:7420";

/// `weir doctor`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArguments {
    #[command(flatten)]
    redis: RedisArguments,
    #[command(flatten)]
    postgres: PostgresArguments,
    #[command(flatten)]
    between: PgBouncerArguments,
    #[command(flatten)]
    weir: WeirArguments,
    /// Memory that the database may use, if it runs on another machine or shares this one [default:
    /// this machine's memory less that of other programs, if the database runs here]
    #[arg(help_heading = CHECKS, long, value_name = "SIZE", requires = "postgres", value_parser = parse_size)]
    postgres_memory: Option<u64>,
    /// Other programs that connect to the database: `web=2x5` means two processes with a pool of
    /// five connections each, `web=2x5/16` the same with 16 threads each. `sidekiq` sets the pool
    /// of all Sidekiq processes where it differs from their threads
    #[arg(help_heading = CHECKS, long = "pool", value_name = "NAME=PROCESSESxPOOL", value_parser = pool)]
    pools: Vec<weir_advisor::observation::ConnectionPools>,
    /// The most connections to the database that a connection pooler opens: its max_db_connections,
    /// or default_pool_size for each user and database; 0: there is no pooler [default: from
    /// --pgbouncer-url; otherwise doctor searches for a pooler]
    #[arg(help_heading = CHECKS, long, value_name = "NUMBER")]
    pgbouncer: Option<u32>,
    /// Queues that the application pushes to: doctor reports those without a worker even before
    /// their first job
    #[arg(help_heading = CHECKS, long, value_name = "QUEUE", value_delimiter = ',')]
    pushes: Vec<String>,
    /// Time between the two snapshots; a longer window shows slower changes more reliably
    #[arg(help_heading = CHECKS, long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    window: Duration,
    /// Print JSON
    #[arg(help_heading = CHECKS, long, conflicts_with_all = ["nagios", "watch"])]
    pub(super) json: bool,
    /// Print and exit in the format of Nagios: 0 OK, 1 warning, 2 critical, 3 unknown
    #[arg(help_heading = CHECKS, long, conflicts_with = "watch")]
    pub(super) nagios: bool,
    /// Repeat until Ctrl-C; on a terminal the page is updated in place
    #[arg(help_heading = CHECKS, long)]
    pub(super) watch: bool,
}

impl DoctorArguments {
    /// Returns the running Weir; None: it is not to be queried.
    pub(super) fn weir(&self) -> anyhow::Result<Option<WeirSource>> {
        self.weir.source()
    }

    /// Returns the options to pass on to suggested commands.
    pub(super) fn given_options(&self) -> PassedOptions {
        let option = |name: &str, value: String| [format!("--{name}"), value];
        let memory = self.postgres_memory.map(|it| option("postgres-memory", format_size(it)));
        let pushes = (!self.pushes.is_empty()).then(|| option("pushes", self.pushes.join(",")));
        let pooler = self.pgbouncer.map(|number| option("pgbouncer", number.to_string()));
        let streaming = self.pools.iter().find(|it| it.name == "streaming");
        let streaming =
            streaming.map(|it| option("streaming", format!("{}x{}", it.processes, it.pool)));
        // A plan for this machine cannot distribute the memory of another one.
        let of_plan = memory.clone().filter(|_| self.postgres.is_local());
        let pools = self.pools.iter().map(|it| option("pool", format_pool(it)));
        PassedOptions {
            redis: self.redis.to_arguments(),
            shards: self.redis.arguments_of_each(),
            postgres: self.postgres.to_arguments(),
            pushes: pushes.into_iter().flatten().collect(),
            pooler: pooler.into_iter().flatten().chain(self.between.to_arguments()).collect(),
            plan: of_plan.into_iter().chain(streaming).flatten().collect(),
            doctor: memory.into_iter().chain(pools).flatten().collect(),
        }
    }

    /// Returns the sources to observe.
    pub(super) fn sources(&self) -> anyhow::Result<Sources> {
        Ok(Sources {
            redis: self.redis.endpoints()?,
            limits: SampleLimits::default(),
            postgres: self.postgres.source(self.postgres_memory)?,
            services: self.pools.clone(),
            pooler: self.pgbouncer,
            pgbouncer: self.between.source(self.pgbouncer)?,
            pushed_queues: self.pushes.clone(),
            window: self.window,
            proc: Some(PathBuf::from("/proc")),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    #[test]
    fn each_option_is_listed_under_its_source() {
        let command = DoctorArguments::augment_args(Command::new("doctor"));
        let below = |heading| {
            let all = command.get_arguments().filter(move |it| it.get_help_heading() == heading);
            all.map(|it| it.get_id().as_str()).collect::<Vec<_>>()
        };
        assert_eq!(below(Some("Weir")), ["weir", "weir_token_env", "weir_token_file"]);
        assert!(below(Some(CHECKS)).contains(&"window"));
    }
}
