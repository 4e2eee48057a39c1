//! `[realtime]`: channels, and the apps that have them.

use std::collections::HashSet;
use std::net::SocketAddr;

use weir_base::secret::Secret;
use weir_realtime::settings::{AppSettings, Settings};
use weir_realtime::webhooks::WebhookSettings;
use weir_realtime_redis::{RedisLogSettings, ShardOptions};
use weir_settings::{Choice, Section, TableReader};

use super::{realtime_shards, redis};

/// What orders events and stores their history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Choice)]
pub enum BrokerKind {
    /// This process: for one node.
    #[default]
    Local,
    /// A Redis that several nodes share.
    Redis,
}

/// Realtime, its apps, and where it listens besides the front.
#[derive(Clone, Debug, Section)]
#[section(upgrade, check = Self::read_parts)]
pub struct Realtime {
    /// An address of its own for realtime, without TLS, besides front.listen. None: only there.
    pub listen: Option<SocketAddr>,
    /// What orders events and stores their history: this process ("local"), or a Redis (7.0 or later)
    /// that several nodes share: { redis = [{ url = "redis://10.0.0.1:6379" }] }. Several servers are
    /// shards that each have a part of the channels.
    #[setting(choice_or_table)]
    pub broker: BrokerKind,
    #[setting(section)]
    pub redis: RedisLogSettings,
    /// The servers of the broker in Redis.
    #[setting(skip)]
    pub redis_shards: Vec<ShardOptions>,
    #[setting(flatten)]
    pub settings: Settings,
    #[setting(section)]
    pub webhooks: WebhookSettings,
    #[setting(skip)]
    pub apps: Vec<AppSettings>,
}

impl Realtime {
    /// Reads the servers of the broker and the apps.
    fn read_parts(&mut self, table: &mut TableReader<'_>) {
        self.read_broker(table);
        self.read_apps(table);
    }

    /// Reads the servers of `broker = { redis = [..] }`.
    fn read_broker(&mut self, table: &mut TableReader<'_>) {
        let (broker, mut servers) = (Self::BROKER, Vec::new());
        table.table_of(broker, |table| {
            table.each("redis", |table| servers.extend(realtime_shards::read(table)));
        });
        if self.broker != BrokerKind::Redis {
            return;
        }
        if let Some(problem) = realtime_shards::problem(&servers) {
            table.error_at(broker.name, &problem);
        }
        self.redis_shards = servers;
    }

    /// Returns the secrets for Redis, to be compared: they show no value.
    pub fn redis_secrets(&self) -> Vec<[Option<Secret>; 2]> {
        self.redis_shards.iter().map(|shard| redis::secrets(&shard.endpoint)).collect()
    }

    /// Reads the apps, whose ids and keys must be unique.
    fn read_apps(&mut self, table: &mut TableReader<'_>) {
        let mut taken = HashSet::new();
        table.each("apps", |table| {
            let mut app = AppSettings::new("", "", Secret::default());
            app.read(table);
            for (name, value) in [("id", &app.id), ("key", &app.key)] {
                if !value.is_empty() && !taken.insert((name, value.to_string())) {
                    table
                        .error_at(name, &format!("{value:?} is already the {name} of another app"));
                }
            }
            self.apps.push(app);
        });
    }
}
