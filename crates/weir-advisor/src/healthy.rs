//! A healthy system, in which each rule's test changes one thing.

use std::time::Duration;

use crate::flow::Flow;
use crate::observation::{
    AppendFsync, Capsule, ClassHistory, ConnectionPools, CpuLimit, DatabaseConnections,
    DatabaseHost, DatabaseObservation, DatabaseUpkeep, DayCounts, Exceptions, Fact, Goodput,
    JobProcess, Keyspace, Machine, MemoryGrowth, Observation, ObservedQueue, Ordering, Persistence,
    PostgresSettings, ProcessPlace, ProcessPresence, RedisInfo, RedisOperations, RedisServer,
    Replication, ReplicationSlot, RequestPath, RunCounts, SessionState, Sessions,
    SidekiqObservation, SlotLimit, SynchronousCommit, TableReads, TableStatistics, TemporaryFiles,
    Throughput, WeightedQueue,
};

const GIB: u64 = 1 << 30;

/// Returns Mastodon on one machine with 4 cores and 8 GB, configured by its documentation and
/// PgTune.
pub(crate) fn observation() -> Observation {
    Observation {
        jobs: Fact::Known(jobs()),
        shards: Vec::new(),
        redis: vec![Fact::Known(redis())],
        redis_access: Vec::new(),
        postgres: Fact::Known(postgres()),
        postgres_access: None,
        machine: Fact::Known(Machine {
            cores: 4,
            memory_bytes: 8 * GIB,
            memory_available_bytes: 3 * GIB,
            cores_idle: 2.0,
            oom_kills: 0,
            stolen_share: 0.01,
            memory_stall_share: Some(0.0),
        }),
        programs: Vec::new(),
        cpu_limits: vec![CpuLimit {
            group: "/".to_owned(),
            cores: 3.0,
            periods: 90,
            throttled_periods: 4,
            services: vec!["sidekiq".to_owned()],
            pids: vec![1],
            ..CpuLimit::default()
        }],
        services: Fact::Known(vec![
            service("web", 2, 5, "MAX_THREADS="),
            service("streaming", 1, 10, "DB_POOL="),
            service("sidekiq", 1, 25, "-c "),
            service("sidekiq scheduler", 1, 5, "-c "),
        ]),
        pooler: None,
        pgbouncer: Fact::NotAsked,
        pushed_queues: Fact::Known(
            QUEUES.iter().map(|(name, _)| *name).chain(["scheduler"]).map(str::to_owned).collect(),
        ),
        goodput: Fact::Known(vec![Throughput {
            of: "Sidekiq".to_owned(),
            threads_now: 30,
            place: "the command lines of Sidekiq's processes".to_owned(),
            levels: vec![
                Goodput { threads: 20, jobs_per_second: 15.0, deviation: 0.2 },
                Goodput { threads: 30, jobs_per_second: 20.0, deviation: 0.2 },
            ],
        }]),
        own_findings: Fact::Known(Vec::new()),
        requests: Fact::Known(vec![RequestPath {
            app: "web".to_owned(),
            inside: Duration::from_millis(60),
            waiting: Duration::from_millis(2),
            outside: Duration::from_millis(70),
            workers: 2,
            slots: 2,
            busy_peak: 1,
            busy_peak_of_day: Some(1),
        }]),
        cut: Vec::new(),
    }
}

const QUEUES: [(&str, u32); 6] =
    [("default", 8), ("push", 6), ("ingress", 4), ("mailers", 2), ("pull", 1), ("fasp", 1)];

fn jobs() -> SidekiqObservation {
    let names = QUEUES.iter().map(|(name, _)| *name).chain(["scheduler"]);
    SidekiqObservation {
        queues: names.map(queue).collect(),
        processes: vec![
            process(1, 25, Ordering::Weighted, &QUEUES),
            process(2, 5, Ordering::Strict, &[("scheduler", 0)]),
        ],
        processed: Fact::Known(100_000),
        failed: Fact::Known(100),
        days: Fact::Known((0..8).map(day).collect()),
        classes: Fact::Known(ClassHistory {
            period: Duration::from_secs(600),
            earlier_ended_before: Duration::from_secs(4_200),
            recent: [("Delivery".to_owned(), runs(1_200, 3))].into(),
            earlier: [("Delivery".to_owned(), runs(900, 1))].into(),
        }),
        ..SidekiqObservation::default()
    }
}

/// Returns a day with one failure in a thousand jobs; 0 is today at noon.
fn day(back: u32) -> DayCounts {
    let hours = if back == 0 { 12 } else { 24 };
    DayCounts {
        date: format!("2026-11-{:02}", 30 - back),
        passed: Duration::from_secs(hours * 3_600),
        processed: hours * 1_000,
        failed: hours,
    }
}

/// Returns runs of 50 ms.
pub(crate) fn runs(processed: u64, failed: u64) -> RunCounts {
    let took = Duration::from_millis(50 * processed.saturating_sub(failed));
    RunCounts { processed, failed, took }
}

fn queue(name: &str) -> ObservedQueue {
    let window = Duration::from_secs(10);
    ObservedQueue {
        name: name.to_owned(),
        pushed: true,
        length: 3,
        latency: Duration::from_millis(200),
        flow: Fact::Known(Flow {
            window,
            before: 2,
            after: 3,
            arrivals_per_second: 2.0,
            deviation: None,
        }),
        ..ObservedQueue::default()
    }
}

/// Returns a process with one capsule.
pub(crate) fn process(
    pid: u32,
    concurrency: u32,
    ordering: Ordering,
    queues: &[(&str, u32)],
) -> JobProcess {
    let queue =
        |(name, weight): &(&str, u32)| WeightedQueue { name: (*name).to_owned(), weight: *weight };
    JobProcess {
        identity: format!("shop:{pid}:0123456789ab"),
        hostname: "shop".to_owned(),
        pid,
        busy: 1,
        beat_age: Duration::from_secs(4),
        capsules: vec![Capsule {
            name: "default".to_owned(),
            concurrency,
            ordering,
            queues: queues.iter().map(queue).collect(),
        }],
        presence: ProcessPresence::Seen,
        place: ProcessPlace::Here,
        cores_used: Fact::Known(0.3),
        round_trip: Some(Duration::from_micros(300)),
        rss_bytes: Some(350 << 20),
        growth: Some(MemoryGrowth { bytes: 1 << 20, over: Duration::from_secs(10) }),
        ..JobProcess::default()
    }
}

fn redis() -> RedisServer {
    RedisServer {
        name: "127.0.0.1:6379".to_owned(),
        info: RedisInfo {
            keyspaces: vec![Keyspace { database: 0, keys: 40 }],
            used_memory_bytes: GIB / 8,
            client_memory_bytes: GIB / 1024,
            system_memory_bytes: 8 * GIB,
            maxmemory_bytes: 0,
            maxmemory_policy: "noeviction".to_owned(),
            persistence: Persistence {
                append_only: true,
                append_fsync: Some(AppendFsync::Always),
                snapshots: Some(true),
                last_snapshot_ok: true,
                last_append_ok: true,
                changes_since_snapshot: 10,
                folder_is_gone: false,
            },
            latest_fork: Duration::from_millis(3),
            clients: 60,
            clients_max: 10_000,
            ..RedisInfo::default()
        },
        slow_commands: Fact::Known(Vec::new()),
        cache_like_share: Fact::Known(0.1),
        lately: Fact::Known(RedisOperations {
            window: Duration::from_secs(10),
            per_second: 900.0,
            cpu_share: Some(0.04),
            ..RedisOperations::default()
        }),
        ..RedisServer::default()
    }
}

fn postgres() -> DatabaseObservation {
    DatabaseObservation {
        user: Some("weir".to_owned()),
        settings: Fact::Known(PostgresSettings {
            max_connections: 200,
            superuser_reserved_connections: 3,
            shared_buffers_bytes: 2 * GIB,
            effective_cache_size_bytes: 6 * GIB,
            work_mem_bytes: 10 << 20,
            random_page_cost: 1.1,
        }),
        pending_restart: Vec::new(),
        origins: Vec::new(),
        read_only: None,
        socket_folder: None,
        exceptions: Fact::Known(Exceptions::default()),
        connections: Fact::Known(DatabaseConnections {
            sessions: vec![
                sessions("web", SessionState::Idle, 8),
                sessions("sidekiq", SessionState::Active, 12),
            ],
        }),
        clients: Vec::new(),
        other_port: None,
        is_here: false,
        host: Fact::Known(DatabaseHost {
            memory_bytes: 8 * GIB,
            share_bytes: 8 * GIB,
            is_said: true,
        }),
        cache_hit_ratio: Fact::Known(0.998),
        lock_waits: Fact::Known(Vec::new()),
        table_lock_requests: Vec::new(),
        waits: Fact::Known(Vec::new()),
        statements: Fact::NotAsked,
        replication: Fact::Known(Replication {
            slots: vec![ReplicationSlot {
                name: "standby".to_owned(),
                active: true,
                held_bytes: 16 << 20,
                ..ReplicationSlot::default()
            }],
            wal_bytes_max: GIB,
            limit: SlotLimit::Unlimited,
        }),
        synchronous: Fact::Known(SynchronousCommit::default()),
        tables: Fact::Known(vec![table("statuses"), table("accounts")]),
        upkeep: Fact::Known(DatabaseUpkeep {
            autovacuum: true,
            freeze_max_age: 200_000_000,
            oldest_database: "postgres".to_owned(),
            oldest_age: 150_000_000,
            oldest_transaction: Some(Duration::from_secs(1)),
            temporary_files: Some(TemporaryFiles {
                window: Duration::from_secs(10),
                files: 0,
                bytes: 0,
            }),
        }),
    }
}

/// Returns a large table that is read through its indexes.
pub(crate) fn table(name: &str) -> TableStatistics {
    TableStatistics {
        name: name.to_owned(),
        bytes: 4 * GIB,
        live_rows: 8_000_000,
        dead_rows: 300_000,
        autovacuum: true,
        vacuumed_before: Some(Duration::from_secs(7_200)),
        lately: Some(TableReads {
            window: Duration::from_secs(10),
            sequential_scans: 0,
            sequential_rows: 0,
            index_scans: 12_000,
        }),
    }
}

/// Returns `count` sessions of a service.
pub(crate) fn sessions(service: &str, state: SessionState, count: u32) -> Sessions {
    Sessions { service: service.to_owned(), state, count, longest: Duration::from_secs(1) }
}

/// Returns a service of several processes with a pool each.
pub(crate) fn service(name: &str, processes: u32, pool: u32, set_by: &str) -> ConnectionPools {
    let (name, set_by) = (name.to_owned(), set_by.to_owned());
    ConnectionPools { name, processes, pool, set_by, threads: None }
}

impl<T> Fact<T> {
    /// Returns the value for a test to change.
    pub(crate) fn known_mut(&mut self) -> &mut T {
        match self {
            Self::Known(value) => value,
            _ => panic!("the healthy system knows this"),
        }
    }
}

impl SidekiqObservation {
    /// Lets no job be pushed, taken or completed between the samples, as in a Redis that rejects writes.
    pub(crate) fn stand_still(&mut self) {
        for queue in &mut self.queues {
            let flow = queue.flow.known_mut();
            (flow.before, flow.arrivals_per_second) = (flow.after, 0.0);
        }
    }

    /// Returns the queue for a test to change.
    pub(crate) fn queue_mut(&mut self, name: &str) -> &mut ObservedQueue {
        self.queues.iter_mut().find(|queue| queue.name == name).unwrap()
    }
}
