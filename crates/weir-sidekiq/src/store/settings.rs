//! `[jobs.redis]`.

use std::time::Duration;

use weir_settings::{HOUR, MILLISECOND, SECOND, Section, TableReader};

use super::confirm_settings::ConfirmSettings;
use super::metrics_layout::ClassMetricsLayout;
use super::push_memory::PushMemory;
use super::sharded::PushPlacement;

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
    /// Keys for the counts and durations of classes that Sidekiq's page of metrics shows: those of
    /// Sidekiq 7, of Sidekiq 8, or of the versions that run; without any, 7.
    #[setting(choice)]
    pub class_metrics: ClassMetricsLayout,
    /// A job that is pushed again within this time, with the same jid and the same members, is
    /// stored once. None: one minute if jobs.redis.confirm is set, otherwise it is stored again, as with
    /// "0s".
    #[setting(range = Duration::ZERO..=HOUR)]
    pub push_memory: Option<Duration>,
    #[setting(section)]
    pub confirm: ConfirmSettings,
    /// Timeout for each step of connecting: asking the Sentinels, connecting with the login, checking
    /// the server.
    #[setting(advanced, range = Duration::from_millis(10)..=Duration::from_secs(60), default = Duration::from_secs(2))]
    pub connect_timeout: Duration,
    /// Timeout for one command.
    #[setting(advanced, range = Duration::from_millis(10)..=Duration::from_secs(60), default = Duration::from_secs(5))]
    pub command_timeout: Duration,
    /// How often Sentinels are asked whether the connected server is still the primary.
    #[setting(advanced, range = Duration::from_millis(100)..=Duration::from_secs(60), default = SECOND)]
    pub sentinel_interval: Duration,
    /// If a round trip to Redis takes at least this long, each FETCH asks Redis by itself first instead
    /// of sharing the next query with other FETCHes. A round trip takes about 0.1 ms on one machine and
    /// 0.5 ms or more between machines of one site.
    #[setting(advanced, range = Duration::ZERO..=SECOND, default = Duration::from_micros(300))]
    pub ask_alone_from: Duration,
    /// The longest wait before another attempt to connect.
    #[setting(advanced, range = Duration::from_millis(10)..=Duration::from_secs(60), default = Duration::from_secs(5))]
    pub retry_wait_max: Duration,
}

/// Longer than a client takes to connect again, or than Sentinel takes to promote a replica.
const PUSH_MEMORY: Duration = Duration::from_secs(60);

impl RedisStoreSettings {
    /// Returns the push memory with at most `jobs_max` jobs of each queue.
    pub(super) fn push_memory(&self, jobs_max: usize) -> PushMemory {
        // Without a wait, a push rarely ends with an error after which its job is stored.
        let usual = if self.confirm.is_on() { PUSH_MEMORY } else { Duration::ZERO };
        PushMemory::new(self.push_memory.unwrap_or(usual), jobs_max)
    }

    fn check(&mut self, table: &mut TableReader<'_>) {
        if self.prefix.is_empty() || self.prefix.contains(['{', '}']) {
            table.error_at(Self::PREFIX.name, "must be a text without braces");
        }
        // Patterns of keys in an ACL can't contain white space.
        for (setting, text) in [(Self::PREFIX, &self.prefix), (Self::NAMESPACE, &self.namespace)] {
            if text.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
                table.error_at(setting.name, "must be a text without white space");
            }
        }
    }
}
