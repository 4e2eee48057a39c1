//! Where doctor looks, and how it gets in.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::{ArgGroup, Args};
use weir_base::secret::Secret;
use weir_observe::{PostgresEndpoint, PostgresLimits, PostgresSource, Sources};
use weir_sidekiq::{Address, Endpoint, Limits, TlsFiles};

use super::super::services;
use crate::config::units::{parse_duration, parse_size};
use crate::config::{environment, secrets};

/// `weir doctor`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true).multiple(true).args(["redis", "postgres"]))]
pub(crate) struct DoctorArguments {
    #[command(flatten)]
    redis: RedisArguments,
    #[command(flatten)]
    postgres: PostgresArguments,
    /// A service that opens connections to the database and does not run on this machine:
    /// `web=2x5` has two processes with a pool of five each
    #[arg(long = "service", value_name = "NAME=PROCESSESxPOOL", value_parser = services::parse)]
    services: Vec<weir_advisor::observation::Service>,
    /// Queues that the application pushes to: those that nobody serves are found before their first
    /// job
    #[arg(long, value_name = "QUEUE", value_delimiter = ',')]
    pushes: Vec<String>,
    /// Time between the two looks: a longer one tells slower changes from chance
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    window: Duration,
    /// Print JSON
    #[arg(long, conflicts_with_all = ["nagios", "watch"])]
    pub(super) json: bool,
    /// Print and exit as Nagios reads it: 0 fine, 1 warning, 2 critical, 3 unknown
    #[arg(long, conflicts_with = "watch")]
    pub(super) nagios: bool,
    /// Look again and again, until Ctrl-C; on a terminal as a page that stays in place
    #[arg(long)]
    pub(super) watch: bool,
}

/// How to get at one Redis or each of several.
#[derive(Debug, Args)]
#[command(next_help_heading = "Redis")]
pub(crate) struct RedisArguments {
    /// Sidekiq's Redis, once for each shard: redis://[USER@]HOST[:PORT][/DATABASE], rediss://.. (TLS),
    /// unix:///PATH, redis+sentinel://HOST[,HOST]/SERVICE
    #[arg(long, value_name = "URL")]
    redis: Vec<String>,
    /// Environment variable with its password; once for all, or once for each --redis
    #[arg(long, value_name = "NAME", requires = "redis")]
    redis_password_env: Vec<String>,
    /// File with its password; once for all, or once for each --redis
    #[arg(long, value_name = "FILE", requires = "redis", conflicts_with = "redis_password_env")]
    redis_password_file: Vec<PathBuf>,
    /// Who may have signed its certificate (PEM) [default: those that this system trusts]
    #[arg(long, value_name = "FILE", requires = "redis")]
    redis_ca: Option<PathBuf>,
    /// Certificate to show it (PEM)
    #[arg(long, value_name = "FILE", requires = "redis_key")]
    redis_cert: Option<PathBuf>,
    /// Key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "redis_cert")]
    redis_key: Option<PathBuf>,
    /// User of the Sentinels
    #[arg(long, value_name = "NAME", requires = "redis")]
    sentinel_user: Option<String>,
    /// Environment variable with the password of the Sentinels
    #[arg(long, value_name = "NAME", requires = "redis")]
    sentinel_password_env: Option<String>,
    /// File with the password of the Sentinels
    #[arg(long, value_name = "FILE", requires = "redis", conflicts_with = "sentinel_password_env")]
    sentinel_password_file: Option<PathBuf>,
}

/// How to get at the database.
#[derive(Debug, Args)]
#[command(next_help_heading = "Postgres")]
pub(crate) struct PostgresArguments {
    /// The application's database: postgres://[USER@]HOST[:PORT]/DATABASE[?sslmode=verify-full], or
    /// postgres:///DATABASE?host=/run/postgresql for a socket
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,
    /// Environment variable with its password [default: PGPASSWORD, if it is set]
    #[arg(long, value_name = "NAME", requires = "postgres")]
    postgres_password_env: Option<String>,
    /// File with its password
    #[arg(
        long,
        value_name = "FILE",
        requires = "postgres",
        conflicts_with = "postgres_password_env"
    )]
    postgres_password_file: Option<PathBuf>,
    /// Who may have signed its certificate (PEM) [default: those that this system trusts]
    #[arg(long, value_name = "FILE", requires = "postgres")]
    postgres_ca: Option<PathBuf>,
    /// Certificate to show it (PEM)
    #[arg(long, value_name = "FILE", requires = "postgres_key")]
    postgres_cert: Option<PathBuf>,
    /// Key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "postgres_cert")]
    postgres_key: Option<PathBuf>,
    /// Memory that the database may use, where it runs elsewhere or shares its machine
    /// [default: what others leave of this machine, if it runs here]
    #[arg(long, value_name = "SIZE", requires = "postgres", value_parser = parse_size)]
    postgres_memory: Option<u64>,
}

impl DoctorArguments {
    /// What to look at.
    pub(super) fn sources(&self) -> anyhow::Result<Sources> {
        Ok(Sources {
            redis: self.redis.endpoints()?,
            limits: Limits::default(),
            postgres: self.postgres.source()?,
            services: self.services.clone(),
            pushed_queues: self.pushes.clone(),
            window: self.window,
            proc: Some(PathBuf::from("/proc")),
        })
    }
}

impl RedisArguments {
    pub(crate) fn endpoints(&self) -> anyhow::Result<Vec<Endpoint>> {
        let passwords = self.passwords()?;
        let endpoints = self.redis.iter().enumerate();
        endpoints.map(|(at, url)| self.endpoint(url, nth(&passwords, at))).collect()
    }

    fn endpoint(&self, url: &str, password: Option<Secret>) -> anyhow::Result<Endpoint> {
        let mut endpoint = Endpoint::parse(url)?;
        endpoint.password = password;
        let client = self.redis_cert.clone().zip(self.redis_key.clone());
        endpoint.tls = TlsFiles { authority: self.redis_ca.clone(), client };
        let plain = match &mut endpoint.address {
            Address::Tcp { tls, .. } => !*tls,
            Address::Unix(_) => true,
            Address::Sentinel(sentinel) => {
                sentinel.username.clone_from(&self.sentinel_user);
                sentinel.password = password_of(
                    self.sentinel_password_env.as_deref(),
                    self.sentinel_password_file.as_deref(),
                )?;
                !sentinel.tls
            }
        };
        if plain && endpoint.tls != TlsFiles::default() {
            bail!("Redis {endpoint}: there are certificates but no TLS; write rediss://");
        }
        Ok(endpoint)
    }

    fn passwords(&self) -> anyhow::Result<Vec<Secret>> {
        let of_environment = self.redis_password_env.iter().map(|name| from_environment(name));
        let of_files = self.redis_password_file.iter().map(|path| from_file(path));
        let passwords: Vec<_> = of_environment.chain(of_files).collect::<Result<_, _>>()?;
        if passwords.len() > 1 && passwords.len() != self.redis.len() {
            let (count, servers) = (passwords.len(), self.redis.len());
            bail!("{count} passwords for {servers} --redis: give one for all, or one for each");
        }
        Ok(passwords)
    }
}

fn nth(passwords: &[Secret], at: usize) -> Option<Secret> {
    if passwords.len() == 1 { passwords.first() } else { passwords.get(at) }.cloned()
}

impl PostgresArguments {
    pub(crate) fn source(&self) -> anyhow::Result<Option<PostgresSource>> {
        let Some(url) = &self.postgres else { return Ok(None) };
        let mut endpoint = PostgresEndpoint::parse(url)?;
        let (name, path) =
            (self.postgres_password_env.as_deref(), self.postgres_password_file.as_deref());
        // As every client of Postgres reads it.
        let usual = || environment::variable("PGPASSWORD").map(Secret::new);
        endpoint.password = password_of(name, path)?.or_else(usual);
        endpoint.authority.clone_from(&self.postgres_ca);
        endpoint.client = self.postgres_cert.clone().zip(self.postgres_key.clone());
        if endpoint.authority.is_some() || endpoint.client.is_some() {
            endpoint.require_tls()?;
        }
        let limits = PostgresLimits::default();
        Ok(Some(PostgresSource { endpoint, limits, memory_bytes: self.postgres_memory }))
    }
}

fn password_of(name: Option<&str>, path: Option<&Path>) -> anyhow::Result<Option<Secret>> {
    match (name, path) {
        (Some(name), _) => from_environment(name).map(Some),
        (None, Some(path)) => from_file(path).map(Some),
        (None, None) => Ok(None),
    }
}

fn from_environment(name: &str) -> anyhow::Result<Secret> {
    let text = environment::variable(name).filter(|text| !text.is_empty());
    let missing = || anyhow!("the environment variable {name} is not set, or empty");
    text.map(Secret::new).ok_or_else(missing)
}

fn from_file(path: &Path) -> anyhow::Result<Secret> {
    match secrets::read_file(path) {
        Ok(text) if text.is_empty() => bail!("{} is empty", path.display()),
        Ok(text) => Ok(Secret::new(text)),
        Err(problem) => bail!(problem),
    }
}
