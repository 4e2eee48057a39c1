//! What Redis says of itself: `INFO`, `CONFIG GET save`, `SLOWLOG GET`.

use std::time::Duration;

use weir_base::clock::Timestamp;

use crate::snapshot::Read;

/// One Redis server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSample {
    /// `redis_version`.
    pub version: String,
    /// `used_memory`.
    pub used_memory_bytes: u64,
    /// `total_system_memory`.
    pub system_memory_bytes: u64,
    /// `maxmemory`; 0 is none.
    pub maxmemory_bytes: u64,
    /// `maxmemory_policy`.
    pub maxmemory_policy: String,
    /// `evicted_keys`.
    pub evicted_keys: u64,
    /// `connected_clients`.
    pub clients: u64,
    /// `total_commands_processed`.
    pub operations: u64,
    /// `INFO commandstats`, what took most time first; as many as `operations_max` allows.
    pub commands: Read<Vec<CommandSample>>,
    /// `aof_enabled`.
    pub append_only: bool,
    /// `aof_last_write_status` is ok.
    pub last_append_ok: bool,
    /// `rdb_last_bgsave_status` is ok.
    pub last_snapshot_ok: bool,
    /// `rdb_changes_since_last_save`.
    pub changes_since_snapshot: u64,
    /// `latest_fork_usec`.
    pub latest_fork: Duration,
    /// Whether `save` holds a rule.
    pub snapshots: Read<bool>,
    /// The newest entries of the slow log.
    pub slow_commands: Read<Vec<SlowCommand>>,
    /// Databases that have keys, by their numbers.
    pub keyspaces: Vec<Keyspace>,
    /// Whose copy it is; none: it is a master.
    pub replica_of: Option<Master>,
    /// `min-replicas-to-write` is set (only then INFO counts good replicas) and there is none.
    pub lacks_replicas: bool,
}

/// One of the numbered databases of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keyspace {
    /// Its number.
    pub database: i64,
    /// Keys in it.
    pub keys: u64,
}

impl Keyspace {
    /// Of a line of `INFO keyspace`: `db0:keys=14,expires=0,..`.
    fn parse(line: &str) -> Option<Self> {
        let (database, fields) = line.trim().strip_prefix("db")?.split_once(':')?;
        let keys = fields.split(',').find_map(|field| field.strip_prefix("keys="))?;
        Some(Self { database: database.parse().ok()?, keys: keys.parse().ok()? })
    }
}

/// The server that a replica copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Master {
    /// `HOST:PORT`.
    pub address: String,
    /// Whether what is written there comes.
    pub is_linked: bool,
}

/// What Redis has counted of one command since its statistics were reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSample {
    /// `lrange`, `config|get`.
    pub name: String,
    /// How often it was called.
    pub calls: u64,
    /// How long all of that took.
    pub took: Duration,
}

impl CommandSample {
    /// Of the text of `INFO commandstats`: `cmdstat_get:calls=7,usec=30,..`; at most `max`.
    pub(crate) fn parse(info: &str, max: usize) -> Vec<Self> {
        let line = |line: &str| {
            let (name, fields) = line.trim().strip_prefix("cmdstat_")?.split_once(':')?;
            let number = |wanted: &str| {
                let field = fields.split(',').find_map(|field| field.strip_prefix(wanted))?;
                field.parse::<u64>().ok()
            };
            let (calls, micros) = (number("calls=")?, number("usec=")?);
            Some(Self { name: name.to_owned(), calls, took: Duration::from_micros(micros) })
        };
        let mut commands: Vec<_> = info.lines().filter_map(line).collect();
        commands.sort_by_key(|command| std::cmp::Reverse(command.took));
        commands.truncate(max);
        commands
    }
}

/// An entry of the slow log, without the command's arguments: they hold jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowCommand {
    /// `LRANGE`.
    pub command: String,
    /// How long it took.
    pub took: Duration,
    /// When.
    pub at: Timestamp,
}

/// One that tells nothing.
impl Default for ServerSample {
    fn default() -> Self {
        Self::parse("")
    }
}

impl ServerSample {
    /// Of the text of `INFO`. What a version does not tell is zero, or fine.
    pub(crate) fn parse(info: &str) -> Self {
        let field = |name: &str| {
            let line = info
                .lines()
                .find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':')))?;
            Some(line[name.len() + 1..].trim())
        };
        let number = |name: &str| field(name).and_then(|text| text.parse().ok()).unwrap_or(0);
        let ok = |name: &str| field(name).is_none_or(|status| status == "ok");
        let text = |name: &str| field(name).unwrap_or_default().to_owned();
        Self {
            version: text("redis_version"),
            used_memory_bytes: number("used_memory"),
            system_memory_bytes: number("total_system_memory"),
            maxmemory_bytes: number("maxmemory"),
            maxmemory_policy: text("maxmemory_policy"),
            evicted_keys: number("evicted_keys"),
            clients: number("connected_clients"),
            operations: number("total_commands_processed"),
            commands: Ok(Vec::new()),
            append_only: field("aof_enabled") == Some("1"),
            last_append_ok: ok("aof_last_write_status"),
            last_snapshot_ok: ok("rdb_last_bgsave_status"),
            changes_since_snapshot: number("rdb_changes_since_last_save"),
            latest_fork: Duration::from_micros(number("latest_fork_usec")),
            snapshots: Ok(false),
            slow_commands: Ok(Vec::new()),
            keyspaces: info.lines().filter_map(Keyspace::parse).collect(),
            lacks_replicas: field("role") == Some("master")
                && field("min_slaves_good_slaves") == Some("0"),
            replica_of: (field("role") == Some("slave")).then(|| Master {
                address: format!("{}:{}", text("master_host"), text("master_port")),
                is_linked: field("master_link_status") == Some("up"),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let info = "# Memory\r\nused_memory_peak:9\r\nused_memory:7\r\nmaxmemory_policy:noeviction\r\n\
                    maxmemory:0\r\n# Persistence\r\naof_enabled:1\r\naof_last_write_status:err\r\n\
                    rdb_last_bgsave_status:ok\r\nlatest_fork_usec:250\r\n";
        let server = ServerSample::parse(info);
        assert_eq!(server.used_memory_bytes, 7);
        assert_eq!(server.maxmemory_policy, "noeviction");
        assert!(server.append_only && server.last_snapshot_ok && !server.last_append_ok);
        assert_eq!(server.latest_fork, Duration::from_micros(250));
    }

    #[test]
    fn databases_with_keys_and_the_master_of_a_replica_are_told() {
        let info = "# Replication\r\nrole:slave\r\nmaster_host:10.0.0.5\r\nmaster_port:6380\r\n\
                    master_link_status:down\r\n# Keyspace\r\ndb0:keys=14,expires=3,avg_ttl=0\r\n\
                    db11:keys=2,expires=0,avg_ttl=0,subexpiry=0\r\n";
        let server = ServerSample::parse(info);
        let master = Master { address: "10.0.0.5:6380".to_owned(), is_linked: false };
        assert_eq!(server.replica_of, Some(master));
        let keyspaces: Vec<_> = server.keyspaces.iter().map(|it| (it.database, it.keys)).collect();
        assert_eq!(keyspaces, [(0, 14), (11, 2)]);
        assert_eq!(ServerSample::parse("role:master\r\n").replica_of, None);
        for (good, expected) in
            [("", false), ("min_slaves_good_slaves:1", false), ("min_slaves_good_slaves:0", true)]
        {
            let info = format!("role:master\r\n{good}\r\n");
            assert_eq!(ServerSample::parse(&info).lacks_replicas, expected, "{good}");
        }
    }

    #[test]
    fn commands_are_counted_by_their_time_and_what_is_no_count_is_left_out() {
        let info = "# Commandstats\r\ncmdstat_get:calls=7,usec=30,usec_per_call=4.29\r\n\
                    cmdstat_config|get:calls=1,usec=90,usec_per_call=90.00,rejected_calls=0\r\n\
                    cmdstat_odd:calls=x,usec=1\r\ncmdstat_llen:calls=2,usec=1\r\n";
        let commands = CommandSample::parse(info, 2);
        let names: Vec<&str> = commands.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["config|get", "get"]);
        assert_eq!((commands[1].calls, commands[1].took), (7, Duration::from_micros(30)));
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,80}") {
            let _ = CommandSample::parse(&format!("cmdstat_{text}"), 10);
            let _ = ServerSample::parse(&text);
        }
    }
}
