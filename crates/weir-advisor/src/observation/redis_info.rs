//! Values of Redis' `INFO`, parsed from its text.

use std::time::Duration;

use serde::Serialize;

/// Values from the `INFO` of a Redis server. Zero or empty if its version does not report them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RedisInfo {
    /// `redis_version`. Valkey 8 reports the version of Redis whose commands it has.
    #[serde(skip)]
    pub version: String,
    /// `valkey_version`; empty for Redis.
    #[serde(skip)]
    pub valkey_version: String,
    /// Whether it was started without a file of settings (`config_file` is empty), to which
    /// `CONFIG REWRITE` could write.
    #[serde(skip)]
    pub lacks_config_file: bool,
    /// Databases that contain keys.
    pub keyspaces: Vec<Keyspace>,
    /// The master, if the server is a replica.
    pub replica_of: Option<Master>,
    /// Whether every write is rejected because `min-replicas-to-write` is set and no replica is
    /// connected. INFO reports good replicas only with that setting.
    pub lacks_replicas: bool,
    /// Whether `min-replicas-to-write` is set.
    pub requires_replicas: bool,
    /// Connected replicas.
    pub replicas: u64,
    /// Whether it lets every write wait (`CLIENT PAUSE`, or a failover in progress), as far as
    /// known.
    pub delays_writes: bool,
    /// `used_memory`.
    pub used_memory_bytes: u64,
    /// `mem_clients_normal`: buffers of clients, part of `used_memory`.
    pub client_memory_bytes: u64,
    /// `total_system_memory`.
    pub system_memory_bytes: u64,
    /// `maxmemory`; 0: no limit.
    pub maxmemory_bytes: u64,
    /// `maxmemory_policy`.
    pub maxmemory_policy: String,
    /// Keys evicted since its start.
    pub evicted_keys: u64,
    /// Commands rejected since its start because its memory was full (`errorstat_OOM`; Redis 6.2
    /// and later).
    pub out_of_memory_errors: u64,
    /// Persistence settings and state.
    pub persistence: Persistence,
    /// `latest_fork_usec`.
    pub latest_fork: Duration,
    /// `connected_clients`.
    pub clients: u64,
    /// `maxclients`; 0 before Redis 6.2.
    pub clients_max: u64,
    /// Connections rejected since its start because of `maxclients`.
    pub rejected_connections: u64,
    /// CPU time of the thread that executes commands since its start; before Redis 6.2, of all its
    /// threads.
    pub cpu_time: Duration,
    /// Whether it is a node of a Redis Cluster (`cluster_enabled`).
    pub is_cluster: bool,
    /// Writes of the append-only file since its start that waited for the disk (`aof_delayed_fsync`).
    pub delayed_syncs: u64,
    /// Commands executed since its start (`total_commands_processed`).
    pub operations: u64,
}

/// The section "Persistence" of `INFO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Persistence {
    /// The append-only file is enabled.
    pub append_only: bool,
    /// When the file is written to disk. Unknown without `CONFIG GET`.
    pub append_fsync: Option<AppendFsync>,
    /// Snapshots are configured. Unknown without `CONFIG GET`.
    pub snapshots: Option<bool>,
    /// The last snapshot succeeded.
    pub last_snapshot_ok: bool,
    /// The last write to the append-only file succeeded.
    pub last_append_ok: bool,
    /// Writes since the last snapshot.
    pub changes_since_snapshot: u64,
    /// The folder of its files was removed, as far as known (`CONFIG GET`).
    pub folder_is_gone: bool,
}

/// `appendfsync`: when Redis writes its append-only file to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AppendFsync {
    /// Before it replies.
    Always,
    /// Once a second.
    EverySec,
    /// When the operating system does.
    No,
}

impl AppendFsync {
    /// Parses the value of the setting.
    #[must_use]
    pub fn parse(value: &str) -> Option<Self> {
        Some(match value {
            "always" => Self::Always,
            "everysec" => Self::EverySec,
            "no" => Self::No,
            _ => return None,
        })
    }
}

/// A numbered database of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Keyspace {
    /// Its number.
    pub database: i64,
    /// Number of keys.
    pub keys: u64,
}

impl Keyspace {
    /// Parses a line of `INFO keyspace`: `db0:keys=14,expires=0,..`.
    fn parse(line: &str) -> Option<Self> {
        let (database, fields) = line.trim().strip_prefix("db")?.split_once(':')?;
        let keys = fields.split(',').find_map(|field| field.strip_prefix("keys="))?;
        Some(Self { database: database.parse().ok()?, keys: keys.parse().ok()? })
    }
}

/// The server that a replica copies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Master {
    /// `HOST:PORT`.
    pub address: String,
    /// Whether the replication link is up.
    pub is_linked: bool,
    /// How long the link has been down, if it is.
    pub link_down_for: Option<Duration>,
    /// `replica-read-only`: whether the replica rejects writes.
    pub is_read_only: bool,
}

impl RedisInfo {
    /// Parses the output of `INFO`.
    #[must_use]
    pub fn parse(info: &str) -> Self {
        let field = |name: &str| redis_field(info, name);
        let number = |name: &str| field(name).and_then(|text| text.parse().ok()).unwrap_or(0);
        let ok = |name: &str| field(name).is_none_or(|status| status == "ok");
        let text = |name: &str| field(name).unwrap_or_default().to_owned();
        Self {
            version: text("redis_version"),
            valkey_version: text("valkey_version"),
            lacks_config_file: field("config_file") == Some(""),
            requires_replicas: field("min_slaves_good_slaves").is_some(),
            replicas: number("connected_slaves"),
            keyspaces: info.lines().filter_map(Keyspace::parse).collect(),
            lacks_replicas: field("role") == Some("master")
                && field("min_slaves_good_slaves") == Some("0"),
            replica_of: (field("role") == Some("slave")).then(|| Master {
                address: format!("{}:{}", text("master_host"), text("master_port")),
                is_linked: field("master_link_status") == Some("up"),
                // -1: there has never been a link.
                link_down_for: field("master_link_down_since_seconds")
                    .and_then(|text| text.parse().ok())
                    .map(Duration::from_secs),
                is_read_only: field("slave_read_only") != Some("0"),
            }),
            delays_writes: matches!(field("paused_actions"), Some("write" | "all")),
            used_memory_bytes: number("used_memory"),
            client_memory_bytes: number("mem_clients_normal"),
            system_memory_bytes: number("total_system_memory"),
            maxmemory_bytes: number("maxmemory"),
            maxmemory_policy: text("maxmemory_policy"),
            evicted_keys: number("evicted_keys"),
            out_of_memory_errors: field("errorstat_OOM")
                .and_then(|text| text.strip_prefix("count=")?.parse().ok())
                .unwrap_or(0),
            persistence: Persistence {
                append_only: field("aof_enabled") == Some("1"),
                append_fsync: None,
                snapshots: None,
                last_snapshot_ok: ok("rdb_last_bgsave_status"),
                last_append_ok: ok("aof_last_write_status"),
                changes_since_snapshot: number("rdb_changes_since_last_save"),
                folder_is_gone: false,
            },
            latest_fork: Duration::from_micros(number("latest_fork_usec")),
            clients: number("connected_clients"),
            clients_max: number("maxclients"),
            rejected_connections: number("rejected_connections"),
            cpu_time: cpu_time(info),
            is_cluster: field("cluster_enabled") == Some("1"),
            delayed_syncs: number("aof_delayed_fsync"),
            operations: number("total_commands_processed"),
        }
    }
}

/// Adds up user and system time, of the main thread if that is known.
fn cpu_time(info: &str) -> Duration {
    let seconds = |name: &str| redis_field(info, name)?.parse::<f64>().ok();
    let sum = |user: &str, system: &str| Some(seconds(user)? + seconds(system)?);
    let main = sum("used_cpu_user_main_thread", "used_cpu_sys_main_thread");
    let seconds = main.or_else(|| sum("used_cpu_user", "used_cpu_sys")).unwrap_or_default();
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// Returns the value of the `INFO` field with exactly that name.
#[must_use]
pub fn redis_field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let is_named = |line: &&str| line.strip_prefix(name).is_some_and(|it| it.starts_with(':'));
    Some(info.lines().find(is_named)?[name.len() + 1..].trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let info = "# Memory\r\nused_memory_peak:9\r\nused_memory:7\r\nmaxmemory_policy:noeviction\r\n\
                    maxmemory:0\r\nmem_clients_normal:3\r\n# Persistence\r\naof_enabled:1\r\naof_last_write_status:err\r\n\
                    rdb_last_bgsave_status:ok\r\nlatest_fork_usec:250\r\n";
        let server = RedisInfo::parse(info);
        assert_eq!((server.used_memory_bytes, server.client_memory_bytes), (7, 3));
        assert_eq!(server.maxmemory_policy, "noeviction");
        let kept = server.persistence;
        assert!(kept.append_only && kept.last_snapshot_ok && !kept.last_append_ok);
        assert_eq!(server.latest_fork, Duration::from_micros(250));
        assert_eq!(RedisInfo::parse("errorstat_OOM:count=12\r\n").out_of_memory_errors, 12);
    }

    #[test]
    fn cpu_time_is_that_of_the_thread_that_executes_commands() {
        let all = "used_cpu_sys:1.5\r\nused_cpu_user:2.0\r\n";
        assert_eq!(RedisInfo::parse(all).cpu_time, Duration::from_millis(3_500));
        let main = "used_cpu_sys_main_thread:0.5\r\nused_cpu_user_main_thread:0.25\r\n";
        let parsed = RedisInfo::parse(&format!("{all}{main}maxclients:10000\r\n"));
        assert_eq!((parsed.cpu_time, parsed.clients_max), (Duration::from_millis(750), 10_000));
        assert_eq!(RedisInfo::parse("used_cpu_sys:-1\r\nused_cpu_user:0").cpu_time, Duration::ZERO);
    }

    #[test]
    fn databases_with_keys_and_the_master_of_a_replica_are_told() {
        let info = "# Replication\r\nrole:slave\r\nmaster_host:10.0.0.5\r\nmaster_port:6380\r\n\
                    master_link_status:down\r\nmaster_link_down_since_seconds:90\r\n# Keyspace\r\ndb0:keys=14,expires=3,avg_ttl=0\r\n\
                    db11:keys=2,expires=0,avg_ttl=0,subexpiry=0\r\n";
        let server = RedisInfo::parse(info);
        let master = Master {
            address: "10.0.0.5:6380".to_owned(),
            is_linked: false,
            link_down_for: Some(Duration::from_secs(90)),
            is_read_only: true,
        };
        assert_eq!(server.replica_of, Some(master));
        let writable = RedisInfo::parse(&format!("slave_read_only:0\r\n{info}"));
        assert!(!writable.replica_of.unwrap().is_read_only);
        let keyspaces: Vec<_> = server.keyspaces.iter().map(|it| (it.database, it.keys)).collect();
        assert_eq!(keyspaces, [(0, 14), (11, 2)]);
        assert_eq!(RedisInfo::parse("role:master\r\n").replica_of, None);
        assert!(RedisInfo::parse("paused_actions:write\r\n").delays_writes, "Valkey 8");
        assert!(!RedisInfo::parse("paused_actions:none\r\n").delays_writes);
        for (good, expected) in
            [("", false), ("min_slaves_good_slaves:1", false), ("min_slaves_good_slaves:0", true)]
        {
            let info = format!("role:master\r\n{good}\r\n");
            assert_eq!(RedisInfo::parse(&info).lacks_replicas, expected, "{good}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,80}") {
            let _ = RedisInfo::parse(&text);
        }
    }
}
