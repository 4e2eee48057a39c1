//! Addresses and credentials of Redis and Postgres, for the commands that observe them.

mod pgbouncer;

use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use clap::Args;
use weir_base::secret::Secret;
use weir_observe::{PostgresEndpoint, PostgresLimits, PostgresSource};
use weir_sidekiq::{RedisAddress, RedisEndpoint, TlsFiles};

pub(crate) use self::pgbouncer::PgBouncerArguments;
use crate::exit::WrongUsage;
use weir_config::{environment, secrets};

/// The options to connect to one or several Redis servers.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Redis")]
pub(crate) struct RedisArguments {
    /// Sidekiq's Redis, once for each shard: redis://[USER@]HOST[:PORT][/DATABASE], rediss://.. (TLS),
    /// unix:///PATH, redis+sentinel://HOST[,HOST]/SERVICE
    #[arg(long, value_name = "URL")]
    redis: Vec<String>,
    /// Environment variable with its password; give one for all, or one for each --redis
    #[arg(long, value_name = "NAME", requires = "redis")]
    redis_password_env: Vec<String>,
    /// File with its password; give one for all, or one for each --redis
    #[arg(long, value_name = "FILE", requires = "redis", conflicts_with = "redis_password_env")]
    redis_password_file: Vec<PathBuf>,
    /// Certificate authorities for its certificate (PEM) [default: those of the system]
    #[arg(long, value_name = "FILE", requires = "redis")]
    redis_ca: Option<PathBuf>,
    /// Client certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "redis_key")]
    redis_cert: Option<PathBuf>,
    /// Key of the client certificate (PEM)
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

/// The options to connect to the database.
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
    /// Certificate authorities for its certificate (PEM) [default: those of the system]
    #[arg(long, value_name = "FILE", requires = "postgres")]
    postgres_ca: Option<PathBuf>,
    /// Client certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "postgres_key")]
    postgres_cert: Option<PathBuf>,
    /// Key of the client certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "postgres_cert")]
    postgres_key: Option<PathBuf>,
}

/// Returns options as arguments, to be passed to another command.
fn to_arguments<'a>(options: impl IntoIterator<Item = (&'static str, &'a str)>) -> Vec<String> {
    options.into_iter().flat_map(|(name, value)| [name.to_owned(), value.to_owned()]).collect()
}

impl RedisArguments {
    /// Returns the options as given.
    pub(super) fn to_arguments(&self) -> Vec<String> {
        let path = |path: &'_ PathBuf| path.display().to_string();
        let several = [
            ("--redis", self.redis.clone()),
            ("--redis-password-env", self.redis_password_env.clone()),
            ("--redis-password-file", self.redis_password_file.iter().map(path).collect()),
        ];
        let one = [
            ("--redis-ca", self.redis_ca.as_ref().map(path)),
            ("--redis-cert", self.redis_cert.as_ref().map(path)),
            ("--redis-key", self.redis_key.as_ref().map(path)),
            ("--sentinel-user", self.sentinel_user.clone()),
            ("--sentinel-password-env", self.sentinel_password_env.clone()),
            ("--sentinel-password-file", self.sentinel_password_file.as_ref().map(path)),
        ];
        let several =
            several.iter().flat_map(|(name, all)| all.iter().map(move |it| (*name, &**it)));
        let one = one.iter().filter_map(|(name, it)| Some((*name, it.as_deref()?)));
        to_arguments(several.chain(one))
    }

    /// Returns the arguments of each Redis separately.
    pub(super) fn arguments_of_each(&self) -> Vec<Vec<String>> {
        let one = |at: usize| {
            let own =
                |all: &[String]| if all.len() > 1 { vec![all[at].clone()] } else { all.to_vec() };
            let files: Vec<String> =
                self.redis_password_file.iter().map(|it| it.display().to_string()).collect();
            let alone = Self {
                redis: vec![self.redis[at].clone()],
                redis_password_env: own(&self.redis_password_env),
                redis_password_file: own(&files).into_iter().map(PathBuf::from).collect(),
                ..self.clone()
            };
            alone.to_arguments()
        };
        (0..self.redis.len()).map(one).collect()
    }

    /// Returns the number of Redis servers.
    pub(super) const fn count(&self) -> usize {
        self.redis.len()
    }

    pub(super) fn endpoints(&self) -> anyhow::Result<Vec<RedisEndpoint>> {
        let passwords = self.passwords()?;
        let endpoints = self.redis.iter().enumerate();
        endpoints.map(|(at, url)| self.endpoint(url, password_at(&passwords, at))).collect()
    }

    fn endpoint(&self, url: &str, password: Option<Secret>) -> anyhow::Result<RedisEndpoint> {
        let mut endpoint = RedisEndpoint::parse(url).map_err(WrongUsage::new)?;
        endpoint.password = password;
        let client = self.redis_cert.clone().zip(self.redis_key.clone());
        endpoint.tls = TlsFiles { authority: self.redis_ca.clone(), client };
        let plain = match &mut endpoint.address {
            RedisAddress::Tcp { tls, .. } => !*tls,
            RedisAddress::Unix(_) => true,
            RedisAddress::Sentinel(sentinel) => {
                sentinel.username.clone_from(&self.sentinel_user);
                sentinel.password = read_password(
                    self.sentinel_password_env.as_deref(),
                    self.sentinel_password_file.as_deref(),
                )?;
                !sentinel.tls
            }
        };
        if plain && endpoint.tls != TlsFiles::default() {
            let problem = "certificates need TLS; write rediss:// instead of redis://";
            bail!(WrongUsage::new(format!("Redis {endpoint}: {problem}")));
        }
        Ok(endpoint)
    }

    fn passwords(&self) -> anyhow::Result<Vec<Secret>> {
        let of_environment = self.redis_password_env.iter().map(|name| from_environment(name));
        let of_files = self.redis_password_file.iter().map(|path| from_file(path));
        let passwords: Vec<_> = of_environment.chain(of_files).collect::<Result<_, _>>()?;
        if passwords.len() > 1 && passwords.len() != self.redis.len() {
            let (count, servers) = (passwords.len(), self.redis.len());
            let problem = "give one for all, or one for each";
            bail!(WrongUsage::new(format!("{count} passwords for {servers} --redis: {problem}")));
        }
        Ok(passwords)
    }
}

fn password_at(passwords: &[Secret], at: usize) -> Option<Secret> {
    if passwords.len() == 1 { passwords.first() } else { passwords.get(at) }.cloned()
}

impl PostgresArguments {
    /// Returns the options as given.
    pub(super) fn to_arguments(&self) -> Vec<String> {
        let path = |path: &'_ PathBuf| path.display().to_string();
        let options = [
            ("--postgres", self.postgres.clone()),
            ("--postgres-password-env", self.postgres_password_env.clone()),
            ("--postgres-password-file", self.postgres_password_file.as_ref().map(path)),
            ("--postgres-ca", self.postgres_ca.as_ref().map(path)),
            ("--postgres-cert", self.postgres_cert.as_ref().map(path)),
            ("--postgres-key", self.postgres_key.as_ref().map(path)),
        ];
        to_arguments(options.iter().filter_map(|(name, it)| Some((*name, it.as_deref()?))))
    }

    /// Returns whether its address is on this machine.
    pub(super) fn is_local(&self) -> bool {
        let endpoint = self.postgres.as_deref().map(PostgresEndpoint::parse);
        endpoint.is_some_and(|it| it.is_ok_and(|endpoint| endpoint.is_loopback()))
    }

    /// Returns the source. `memory_bytes` is the memory that it may use, if known.
    pub(super) fn source(
        &self,
        memory_bytes: Option<u64>,
    ) -> anyhow::Result<Option<PostgresSource>> {
        let Some(url) = &self.postgres else { return Ok(None) };
        let mut endpoint = PostgresEndpoint::parse(url).map_err(WrongUsage::new)?;
        let (name, path) =
            (self.postgres_password_env.as_deref(), self.postgres_password_file.as_deref());
        // As in all Postgres clients.
        let usual = || environment::variable("PGPASSWORD").map(Secret::new);
        endpoint.password = read_password(name, path)?.or_else(usual);
        endpoint.password_variable = name.map(str::to_owned);
        endpoint.authority.clone_from(&self.postgres_ca);
        endpoint.client = self.postgres_cert.clone().zip(self.postgres_key.clone());
        if endpoint.authority.is_some() || endpoint.client.is_some() {
            endpoint.require_tls().map_err(WrongUsage::new)?;
        }
        let limits = PostgresLimits::default();
        Ok(Some(PostgresSource { endpoint, limits, memory_bytes }))
    }
}

pub(super) fn read_password(
    name: Option<&str>,
    path: Option<&Path>,
) -> anyhow::Result<Option<Secret>> {
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
    match secrets::of_file(path) {
        Ok(secret) if secret.expose().is_empty() => bail!("{} is empty", path.display()),
        Ok(secret) => Ok(secret),
        Err(problem) => bail!(problem),
    }
}
