//! `[jobs]`.

use std::net::{Ipv4Addr, SocketAddr};

use weir_advisor::durability::PushConfirmation;
use weir_base::secret::Secret;
use weir_jobs::cron::CronSettings;
use weir_jobs::job::JobBatch;
use weir_jobs::settings::{JobServerSettings, StoreKind};
use weir_net::TlsSettings;
use weir_settings::{Section, TableReader};
use weir_sidekiq::store::{ConfirmSettings, RedisStoreSettings, ShardOptions};

use super::{job_shards, redis, tls};

/// The job server and where it listens.
#[derive(Clone, Debug, Section)]
#[section(restart, check = Self::read_store)]
pub struct Jobs {
    /// Address for Faktory clients. "off": no job server, and no job store is opened.
    #[setting(listener, upgrade, default = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 7419))))]
    pub listen: Option<SocketAddr>,
    #[setting(with = tls::read_section)]
    pub tls: Option<TlsSettings>,
    #[setting(flatten)]
    pub settings: JobServerSettings,
    #[setting(section)]
    pub redis: RedisStoreSettings,
    /// The servers of the store in Redis.
    #[setting(skip)]
    pub redis_shards: Vec<ShardOptions>,
}

impl Jobs {
    /// Describes the servers of the store in Redis, in an order of their own, with the prefix of their keys.
    pub(crate) fn servers_text(&self) -> String {
        let mut servers: Vec<String> =
            self.redis_shards.iter().map(|shard| shard.endpoint.to_string()).collect();
        servers.sort();
        let namespace = &self.redis.namespace;
        if !namespace.is_empty() && !servers.is_empty() {
            servers.push(format!("namespace {namespace}"));
        }
        servers.join(", ")
    }

    /// Reads the servers of `store = { redis = [..] }`.
    fn read_store(&mut self, table: &mut TableReader<'_>) {
        let (store, mut servers) = (JobServerSettings::STORE, Vec::new());
        table.table_of(store, |table| {
            table.each("redis", |table| servers.push(job_shards::read(table)));
        });
        if self.settings.store == StoreKind::External && servers.is_empty() {
            let example = "store = { redis = [{ url = \"redis://127.0.0.1:6379/0\" }] }";
            table.error_at(store.name, &format!("lacks the address of Redis: {example}"));
        }
        self.redis_shards = servers.into_iter().flatten().collect();
        if let Some(problem) = job_shards::problem(&self.redis_shards) {
            table.error_at(store.name, &problem);
        }
        self.check_limits_on_shards(table);
        self.check_cron_on_servers(table);
        for (index, cron) in self.settings.cron.iter().enumerate() {
            if let Some(problem) = self.cron_problem(cron) {
                table.error_at(&format!("cron[{index}]"), &problem);
            }
        }
    }

    /// Reports limits that several servers, which do not know each other, can't keep together.
    fn check_limits_on_shards(&self, table: &mut TableReader<'_>) {
        const WHY: &str =
            "needs a single server in jobs.store: several do not know what the others have started";
        if self.redis_shards.len() < 2 {
            return;
        }
        let queues = self.settings.queues.iter().filter(|(_, queue)| queue.rate.is_some());
        for (name, _) in queues {
            table.error_at(&format!("queues.{name}.rate"), WHY);
        }
        for name in self.settings.resources.keys() {
            table.error_at(&format!("resources.{name}"), WHY);
        }
    }

    /// Reports cron jobs where jobs are on several servers.
    fn check_cron_on_servers(&self, table: &mut TableReader<'_>) {
        if self.redis_shards.len() < 2 {
            return;
        }
        for index in 0..self.settings.cron.len() {
            let why = "needs a single server in jobs.store: several do not know what the others have enqueued";
            table.error_at(&format!("cron[{index}]"), why);
        }
    }

    /// Returns why the job of a cron job could not be stored. What is missing is reported elsewhere.
    fn cron_problem(&self, cron: &CronSettings) -> Option<String> {
        if cron.name.is_empty() || cron.job.jobtype.is_empty() {
            return None;
        }
        let json = cron.job.json("cron-check");
        let limits = &self.settings.limits;
        let checked =
            JobBatch::new().parse_one(json.as_bytes(), Default::default(), limits).map(drop);
        checked.err().map(|error| error.to_string())
    }

    /// Returns what Weir waits for before it acknowledges a push to Redis.
    pub fn push_confirmation(&self) -> PushConfirmation {
        let ConfirmSettings { disk, replicas, .. } = self.redis.confirm;
        PushConfirmation { disk, replicas }
    }

    /// Its secrets for Redis, to be compared: they show no value.
    pub fn redis_secrets(&self) -> Vec<[Option<Secret>; 2]> {
        self.redis_shards.iter().map(|shard| redis::secrets(&shard.endpoint)).collect()
    }
}
