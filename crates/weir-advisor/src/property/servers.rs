//! Arbitrary Redis servers, databases, poolers and machines.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::facts::fact;
use super::sidekiq::{count, rate, share, time};
use crate::durability::PushConfirmation;
use crate::observation::{
    AppendFsync, BusyProgram, CommandRate, ConnectionLimit, ConnectionPool, ConnectionPools,
    CpuLimit, DatabaseConnections, DatabaseHost, DatabaseObservation, DatabaseUpkeep, Exceptions,
    Fact, Holder, Keyspace, LockWait, Machine, Master, Persistence, PgBouncer, PgBouncerSettings,
    PooledDatabase, Pooler, PostgresAccess, PostgresSettings, ReadOnly, RedisInfo, RedisOperations,
    RedisServer, Replication, ReplicationSlot, SessionState, Sessions, SettingException,
    SettingOrigin, SlotLimit, SlowCommand, SynchronousCommit, TableLockRequest, TableReads,
    TableStatistics, TemporaryFiles, WalStatus,
};

const MIB: u64 = 1 << 20;
const SERVICES: [&str; 5] = ["web", "streaming", "sidekiq push", "pgbouncer", "psql"];
const SETTINGS: [&str; 6] = [
    "shared_buffers",
    "effective_cache_size",
    "work_mem",
    "max_connections",
    "idle_in_transaction_session_timeout",
    "max_slot_wal_keep_size",
];

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0), 4 => 1..512u64, 4 => 512..64_000u64].prop_map(|mib| mib * MIB)
}

prop_compose! {
    fn any_persistence()(
        flags in vec(proptest::bool::weighted(0.8), 4),
        snapshots in option::of(any::<bool>()),
        append_fsync in option::of(select(&[AppendFsync::Always, AppendFsync::EverySec, AppendFsync::No][..])),
        changes_since_snapshot in count(),
    ) -> Persistence {
        Persistence {
            append_only: flags[0],
            append_fsync,
            snapshots,
            last_snapshot_ok: flags[1],
            last_append_ok: flags[2],
            changes_since_snapshot,
            folder_is_gone: !flags[3],
        }
    }
}

prop_compose! {
    fn any_info()(
        maxmemory_policy in select(&["noeviction", "allkeys-lru", "volatile-ttl", ""][..]),
        sizes in vec(size(), 4),
        evicted_keys in prop_oneof![2 => Just(0), 1 => count()],
        replica_of in option::weighted(0.15, (any::<bool>(), any::<bool>())),
        flags in vec(proptest::bool::weighted(0.1), 3),
        replicas in 0..3u64,
        persistence in any_persistence(),
        fork in 0..2_000u64,
        keys in count(),
    ) -> RedisInfo {
        let master = |(is_linked, is_read_only)| Master { address: "10.0.0.5:6379".to_owned(), is_linked, is_read_only, ..Master::default() };
        RedisInfo {
            version: "7.2.4".to_owned(),
            valkey_version: String::new(),
            keyspaces: vec![Keyspace { database: 0, keys }, Keyspace { database: 1, keys: 7 }],
            replica_of: replica_of.map(master),
            lacks_config_file: flags[2],
            lacks_replicas: flags[0],
            requires_replicas: flags[1],
            replicas,
            delays_writes: flags[2],
            used_memory_bytes: sizes[0],
            client_memory_bytes: sizes[1].min(sizes[0]),
            system_memory_bytes: sizes[2],
            maxmemory_bytes: sizes[3],
            maxmemory_policy: maxmemory_policy.to_owned(),
            evicted_keys,
            out_of_memory_errors: evicted_keys / 3,
            persistence,
            latest_fork: Duration::from_millis(fork),
            clients: 9,
            clients_max: sizes[3] / MIB % 40,
            rejected_connections: evicted_keys,
            cpu_time: Duration::from_secs(evicted_keys),
            is_cluster: flags[1],
            delayed_syncs: evicted_keys,
            operations: 100,
        }
    }
}

prop_compose! {
    fn any_operations()(
        (per_second, evicted_per_second) in (rate(0.0..90_000.0), rate(0.0..5.0)),
        cpu_share in option::of(share()),
        (rejected_connections, delayed_syncs) in (0..3u64, 0..3u64),
        commands in vec((select(&["KEYS", "EVAL", "BRPOP"][..]), rate(0.0..900.0), time(), share()), 0..3),
        window in select(&[0, 3, 10, 120][..]),
    ) -> RedisOperations {
        let command = |(command, per_second, mean, share): (&str, f64, Duration, f64)| CommandRate {
            command: command.to_owned(),
            per_second,
            mean,
            share,
        };
        RedisOperations {
            window: Duration::from_secs(window),
            per_second,
            evicted_per_second,
            cpu_share,
            rejected_connections,
            delayed_syncs,
            commands: commands.into_iter().map(command).collect(),
        }
    }
}

prop_compose! {
    pub(super) fn any_redis(name: &'static str)(
        info in any_info().boxed(),
        push_confirmation in option::weighted(0.3, (any::<bool>(), 0..3u64)),
        slow in fact(vec((time(), time()), 0..4)),
        lately in fact(any_operations()),
        cache_like_share in fact(share()),
        has_namespace in proptest::bool::weighted(0.1),
    ) -> RedisServer {
        let slow = slow.map(|all| all.into_iter().map(|(took, age)| SlowCommand { command: "LRANGE".to_owned(), took, age }).collect());
        RedisServer {
            name: name.to_owned(),
            info,
            push_confirmation: push_confirmation.map(|(disk, replicas)| PushConfirmation { disk, replicas }),
            slow_commands: slow,
            lately,
            cache_like_share,
            namespaces: if has_namespace { vec!["shop".to_owned()] } else { Vec::new() },
            ..RedisServer::default()
        }
    }
}

prop_compose! {
    fn any_settings()(
        max_connections in 1..600u32,
        superuser_reserved_connections in 0..8u32,
        sizes in [size(), size(), size()],
    ) -> PostgresSettings {
        PostgresSettings {
            max_connections,
            superuser_reserved_connections: superuser_reserved_connections.min(max_connections),
            shared_buffers_bytes: sizes[0],
            effective_cache_size_bytes: sizes[1],
            work_mem_bytes: sizes[2] / 64,
            random_page_cost: 1.1,
        }
    }
}

fn any_origins() -> impl Strategy<Value = Vec<SettingOrigin>> {
    let file = select(
        &[
            None,
            Some("/etc/postgresql.conf"),
            Some("/data/postgresql.auto.conf"),
            Some("/etc/conf.d/a.conf"),
        ][..],
    );
    let source = select(&["configuration file", "command line", "user", "database", "default"][..]);
    let origin = (select(&SETTINGS[..]), source, file);
    vec(origin, 0..4).prop_map(|all| {
        let origin = |(name, source, file): (&str, &str, Option<&str>)| SettingOrigin {
            name: name.to_owned(),
            source: source.to_owned(),
            file: file.map(str::to_owned),
        };
        all.into_iter().map(origin).collect()
    })
}

fn any_exceptions() -> impl Strategy<Value = Exceptions> {
    let holder = |kind: u8| Holder {
        role: (kind > 0).then(|| "shop".to_owned()),
        database: (kind != 1).then(|| "app".to_owned()),
    };
    let limits = (0..3u8, 1..400u32, 0..400u32);
    let settings = (1..3u8, select(&SETTINGS[..]), select(&["64MB", "1GB", "0", "1h", "odd"][..]));
    (vec(limits, 0..2), vec(settings, 0..3)).prop_map(move |(limits, settings)| Exceptions {
        limits: limits
            .into_iter()
            .map(|(kind, connections, open)| ConnectionLimit {
                holder: holder(kind),
                connections,
                open,
            })
            .collect(),
        settings: settings
            .into_iter()
            .map(|(kind, name, value)| ((kind, name), value))
            .collect::<BTreeMap<_, _>>()
            .into_iter()
            .map(|((kind, name), value)| (kind, name, value))
            .map(|(kind, name, value)| SettingException {
                holder: holder(kind),
                name: name.to_owned(),
                value: value.to_owned(),
            })
            .collect(),
    })
}

fn any_connections() -> impl Strategy<Value = DatabaseConnections> {
    const STATES: [SessionState; 5] = [
        SessionState::Active,
        SessionState::Idle,
        SessionState::IdleInTransaction,
        SessionState::Hidden,
        SessionState::Untracked,
    ];
    let all: Vec<_> =
        SERVICES.iter().flat_map(|it| STATES.iter().map(move |state| (*it, *state))).collect();
    let some = subsequence(all, 0..8);
    (some, vec((0..90u32, time()), 8)).prop_map(|(some, figures)| {
        let sessions = some.into_iter().zip(figures).map(|((service, state), (count, longest))| {
            Sessions { service: service.to_owned(), state, count, longest }
        });
        DatabaseConnections { sessions: sessions.collect() }
    })
}

fn any_lock_waits() -> impl Strategy<Value = Vec<LockWait>> {
    let wait = (1..6u32, 0..6u32, select(&SERVICES[..]), 0..5u8, time(), time(), any::<bool>());
    vec(wait, 0..6).prop_map(|all| {
        let of = |(waiting_pid, blocking_pid, service, state, since, waited, is_advisory): (
            u32,
            u32,
            &str,
            u8,
            Duration,
            Duration,
            bool,
        )| LockWait {
            waiting_pid,
            waiting_service: service.to_owned(),
            blocking_service: if state == 4 { "autovacuum worker" } else { "web" }.to_owned(),
            blocking_pid,
            blocking_state: match state {
                0 => Some((SessionState::IdleInTransaction, since)),
                1 => Some((SessionState::Active, since)),
                2 => Some((SessionState::Hidden, since)),
                _ => None,
            },
            blocking_event: (state == 1 && is_advisory).then(|| "SyncRep".to_owned()),
            relation: (!is_advisory).then(|| "statuses".to_owned()),
            is_advisory,
            is_of_row: state == 0,
            maintenance: (state == 3).then(|| "CREATE INDEX".to_owned()),
            waited,
        };
        all.into_iter().map(of).collect()
    })
}

prop_compose! {
    fn any_replication()(
        slots in vec((any::<bool>(), option::of(time()), size(), 0..3u8), 0..3),
        wal_bytes_max in size(),
        limit in prop_oneof![Just(SlotLimit::NotSupported), Just(SlotLimit::Unlimited), size().prop_map(SlotLimit::Bytes)],
    ) -> Replication {
        let slot = |(number, (active, inactive_for, held_bytes, state)): (usize, (bool, Option<Duration>, u64, u8))| ReplicationSlot {
            name: format!("standby'{number}"),
            active,
            inactive_for,
            held_bytes,
            state: [WalStatus::Kept, WalStatus::Unreserved, WalStatus::Lost][usize::from(state)],
        };
        Replication { slots: slots.into_iter().enumerate().map(slot).collect(), wal_bytes_max, limit }
    }
}

prop_compose! {
    fn any_commits()(
        names in select(&["", "a", "ANY 2 (a, b)"][..]),
        confirming in 0..3u32,
        waiting in 0..20u32,
        longest in time(),
    ) -> SynchronousCommit {
        let connected = (0..confirming).map(|it| format!("standby {it}")).collect();
        SynchronousCommit { standby_names: names.to_owned(), confirming, connected, waiting, longest }
    }
}

prop_compose! {
    fn any_reads()(
        window in select(&[0, 3, 10, 900][..]),
        (sequential_scans, sequential_rows, index_scans) in (count(), count(), count()),
    ) -> TableReads {
        TableReads { window: Duration::from_secs(window), sequential_scans, sequential_rows, index_scans }
    }
}

prop_compose! {
    fn any_table()(
        name in select(&["orders", "audit.events", "a'; $(b) \"c"][..]),
        (bytes, live_rows, dead_rows) in (size(), count(), count()),
        autovacuum in any::<bool>(),
        vacuumed_before in option::of(time()),
        lately in option::of(any_reads()),
    ) -> TableStatistics {
        TableStatistics { name: name.to_owned(), bytes, live_rows, dead_rows, autovacuum, vacuumed_before, lately }
    }
}

prop_compose! {
    fn any_upkeep()(
        autovacuum in any::<bool>(),
        (freeze_max_age, oldest_age) in (select(&[100_000, 200_000_000, 2_000_000_000][..]), 0..2_100_000_000_u64),
        oldest_transaction in option::of(time()),
        temporary in option::of((select(&[0, 10][..]), 0..90u64, size())),
    ) -> DatabaseUpkeep {
        let temporary_files = temporary.map(|(window, files, bytes)| TemporaryFiles {
            window: Duration::from_secs(window),
            files,
            bytes,
        });
        let oldest_database = "app".to_owned();
        DatabaseUpkeep { autovacuum, freeze_max_age, oldest_database, oldest_age, oldest_transaction, temporary_files }
    }
}

/// Programs that use the machine, Sidekiq among them.
pub(super) fn any_programs() -> impl Strategy<Value = Vec<BusyProgram>> {
    let program = (select(&["ruby", "postgres", "rustc", ""][..]), 1..60_000u32, rate(0.0..4.0));
    vec(program, 0..4).prop_map(|all| {
        let program = |(name, pid, cores): (&str, u32, f64)| BusyProgram {
            name: name.to_owned(),
            pid,
            cores,
        };
        all.into_iter().map(program).collect()
    })
}

prop_compose! {
    pub(super) fn any_postgres()(
        user in option::of(Just("weir".to_owned())),
        settings in fact(any_settings()),
        pending in subsequence(&SETTINGS[..4], 0..3),
        origins in any_origins(),
        read_only in option::weighted(0.2, select(&[ReadOnly::Standby, ReadOnly::Setting][..])),
        exceptions in fact(any_exceptions()),
        connections in fact(any_connections()),
        (host, is_said) in (fact((size(), size())), any::<bool>()),
        cache_hit_ratio in fact(share()),
        lock_waits in fact(any_lock_waits()),
        (replication, synchronous) in (fact(any_replication()), fact(any_commits())),
        (tables, upkeep) in (fact(vec(any_table(), 0..3)), fact(any_upkeep())),
        has_change in any::<bool>(),
    ) -> DatabaseObservation {
        let change = TableLockRequest { pid: 2, mode: "ACCESS EXCLUSIVE".to_owned(), statement: None };
        DatabaseObservation {
            user,
            settings,
            pending_restart: pending.into_iter().map(str::to_owned).collect(),
            origins,
            read_only,
            socket_folder: None,
            exceptions,
            connections,
            is_here: has_change,
            host: host.map(|(memory_bytes, share_bytes)| DatabaseHost { memory_bytes, share_bytes, is_said }),
            cache_hit_ratio,
            lock_waits,
            table_lock_requests: if has_change { vec![change] } else { Vec::new() },
            replication,
            synchronous,
            tables,
            upkeep,
            ..DatabaseObservation::default()
        }
    }
}

pub(super) fn any_access() -> impl Strategy<Value = PostgresAccess> {
    select(&["/run/postgresql", "127.0.0.1", "db.internal"][..]).prop_map(|host| PostgresAccess {
        host: host.to_owned(),
        port: "5432".to_owned(),
        ..PostgresAccess::default()
    })
}

prop_compose! {
    pub(super) fn any_machine()(
        cores in 0..65u32,
        memory in size(),
        available in size(),
        cores_idle in rate(0.0..8.0),
        oom_kills in prop_oneof![3 => Just(0), 1 => 0..9u64],
        (stolen_share, memory_stall_share) in (share(), option::of(share())),
    ) -> Machine {
        Machine { cores, memory_bytes: memory, memory_available_bytes: available.min(memory), cores_idle: cores_idle.min(f64::from(cores)), oom_kills, stolen_share, memory_stall_share }
    }
}

pub(super) fn any_cpu_limits() -> impl Strategy<Value = Vec<CpuLimit>> {
    let group = select(&["/", "/system.slice/sidekiq.service"][..]);
    let limit = (group, rate(0.0..9.0), 0..100u64, 0..100u64, vec(0..9u32, 0..8));
    let limit = limit.prop_map(|(group, cores, periods, throttled, pids)| CpuLimit {
        group: group.to_owned(),
        file: format!("/sys/fs/cgroup{group}/cpu.max"),
        services: vec!["sidekiq".to_owned()],
        pids,
        cores,
        periods,
        throttled_periods: throttled.min(periods),
    });
    vec(limit, 0..3)
}

pub(super) fn any_services() -> impl Strategy<Value = Vec<ConnectionPools>> {
    const KINDS: [(&str, &str); 6] = [
        ("web", "MAX_THREADS="),
        ("web", "DB_POOL="),
        ("streaming", "DB_POOL="),
        ("sidekiq push", "-c "),
        ("sidekiq push", "DB_POOL="),
        ("sidekiq", "RAILS_MAX_THREADS="),
    ];
    let some = subsequence(&KINDS[..], 0..=KINDS.len());
    (some, vec((0..60u32, 0..40u32, option::of(1..40u32)), KINDS.len())).prop_map(
        |(some, figures)| {
            let mut services: Vec<ConnectionPools> = Vec::new();
            for ((name, set_by), (processes, pool, threads)) in some.into_iter().zip(figures) {
                if !services.iter().any(|it| it.name == name) {
                    let (name, set_by) = (name.to_owned(), set_by.to_owned());
                    services.push(ConnectionPools { name, processes, pool, set_by, threads });
                }
            }
            services
        },
    )
}

prop_compose! {
    fn any_pool(number: usize)(
        mode in select(&["transaction", "session"][..]),
        clients_waiting in 0..60u32,
        longest_wait in time(),
        (active, idle) in (0..30u32, 0..5u32),
    ) -> ConnectionPool {
        ConnectionPool {
            database: "app".to_owned(),
            user: format!("shop{number}"),
            mode: mode.to_owned(),
            clients_active: active,
            clients_waiting,
            longest_wait,
            connections_active: active,
            connections_idle: idle,
            connections: active + idle,
        }
    }
}

prop_compose! {
    fn any_pgbouncer()(
        pools in [1, 2].map(|number| any_pool(number).boxed()),
        (pool_size, default_pool_size) in (1..30u32, 1..30u32),
        connections_max in prop_oneof![2 => Just(0), 1 => 1..60u32],
        is_paused in proptest::bool::weighted(0.1),
        timeout in select(&[0, 2, 120][..]),
    ) -> PgBouncer {
        let connections = pools.iter().map(|it| it.connections).sum();
        let database = PooledDatabase {
            name: "app".to_owned(),
            database: "app".to_owned(),
            pool_size,
            connections_max,
            connections,
            is_paused,
            ..PooledDatabase::default()
        };
        let query_wait_timeout = Duration::from_secs(timeout);
        PgBouncer {
            pools: pools.to_vec(),
            databases: vec![database],
            settings: PgBouncerSettings { default_pool_size, query_wait_timeout, ..PgBouncerSettings::default() },
            ..PgBouncer::default()
        }
    }
}

/// No pooler, one that was queried, or one of which only its connections are known.
pub(super) fn any_pooler() -> impl Strategy<Value = (Option<Pooler>, Fact<PgBouncer>)> {
    let pooler = |connections| Pooler {
        name: "pgbouncer".to_owned(),
        shown_by: "it holds connections".to_owned(),
        connections,
        may_serve_another: false,
    };
    prop_oneof![
        2 => Just((None, Fact::NotAsked)),
        1 => option::of(1..300u32).prop_map(move |most| (Some(pooler(most)), Fact::NotAsked)),
        2 => any_pgbouncer().prop_map(move |it| (Some(pooler(it.connections_max(None))), Fact::Known(it))),
    ]
}
