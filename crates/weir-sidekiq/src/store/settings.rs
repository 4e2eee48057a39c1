//! `[jobs.redis]`.

use std::time::Duration;

use super::sharded::PushPlacement;
use weir_settings::{HOUR, MILLISECOND, SECOND, Section, TableReader};

/// How the store uses Redis.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(restart, path = "jobs.redis", check = Self::check)]
pub struct RedisStoreSettings {
    /// Prefix of redis-namespace before all of Sidekiq's keys, without its colon: "shop" for
    /// "shop:queue:default" (Mastodon's REDIS_NAMESPACE). Empty: none.
    pub namespace: String,
    /// Prefix of Weir's own keys. Nodes that share jobs have the same; each deployment in one
    /// Redis has its own.
    #[setting(default = "weir".to_owned())]
    pub prefix: String,
    /// Which of several shards gets a pushed job: the one that owns its queue ("queue"), or each in
    /// turn ("turn").
    #[setting(choice)]
    pub placement: PushPlacement,
    /// How often Redis is asked for jobs of others while a FETCH waits; up to five times as long
    /// without any. Jobs that are pushed to this node are served at once.
    #[setting(range = MILLISECOND..=SECOND, default = Duration::from_millis(20))]
    pub poll_interval: Duration,
    /// How often the scheduled and the retry set are read for jobs that are due.
    #[setting(range = Duration::from_millis(100)..=Duration::from_secs(60), default = SECOND)]
    pub schedule_interval: Duration,
    /// A node that has been away from Redis for this long loses its reserved jobs to the others.
    #[setting(range = Duration::from_secs(6)..=HOUR, default = Duration::from_secs(60))]
    pub lease: Duration,
    /// Timeout for connecting.
    #[setting(advanced, range = Duration::from_millis(10)..=Duration::from_secs(60), default = Duration::from_secs(2))]
    pub connect_timeout: Duration,
    /// Timeout for one command.
    #[setting(advanced, range = Duration::from_millis(10)..=Duration::from_secs(60), default = Duration::from_secs(5))]
    pub command_timeout: Duration,
    /// The longest wait before another attempt to connect.
    #[setting(advanced, range = Duration::from_millis(10)..=Duration::from_secs(60), default = Duration::from_secs(5))]
    pub retry_wait_max: Duration,
}

impl RedisStoreSettings {
    fn check(&mut self, table: &mut TableReader<'_>) {
        if self.prefix.is_empty() || self.prefix.contains(['{', '}']) {
            table.error_at(Self::PREFIX.name, "must be a text without braces");
        }
    }
}
