//! The application's database.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::{DatabaseUpkeep, Exceptions, Fact, Replication, SynchronousCommit, TableStatistics};
use crate::plan::{DatabaseWorkload, PostgresMachine, Storage};

/// State of the Postgres server. Each part needs different privileges.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DatabaseObservation {
    /// The observer's user name, if known.
    pub user: Option<String>,
    /// Settings from `SHOW`.
    pub settings: Fact<PostgresSettings>,
    /// Settings that were changed in files and need a restart (`pg_settings.pending_restart`).
    pub pending_restart: Vec<String>,
    /// Sources of the settings that differ from the defaults.
    pub origins: Vec<SettingOrigin>,
    /// The folder of its Unix socket, if the server's settings name one.
    pub socket_folder: Option<String>,
    /// Why it accepts no writes, or `None` if it does.
    pub read_only: Option<ReadOnly>,
    /// Limits and settings of single roles and databases.
    pub exceptions: Fact<Exceptions>,
    /// Its sessions.
    pub connections: Fact<DatabaseConnections>,
    /// Local processes with connections to the database, as far as visible.
    pub clients: Vec<ClientProcess>,
    /// The port that the server listens on, if it differs from the configured one.
    pub other_port: Option<u16>,
    /// Whether the server is known to run on this machine.
    pub is_here: bool,
    /// The server's machine.
    pub host: Fact<DatabaseHost>,
    /// Share of requested blocks found in shared buffers recently, from 0 to 1.
    pub cache_hit_ratio: Fact<f64>,
    /// Sessions that are blocked by others.
    pub lock_waits: Fact<Vec<LockWait>>,
    /// Those of them that wait for the lock of a whole table.
    pub table_lock_requests: Vec<TableLockRequest>,
    /// What busy sessions are waiting for. Not queried on every database.
    pub waits: Fact<Vec<SessionWait>>,
    /// Statements by total time. Not queried without `pg_stat_statements`.
    pub statements: Fact<Vec<StatementTimes>>,
    /// Replication slots and their limits.
    pub replication: Fact<Replication>,
    /// Commits that wait for a standby.
    pub synchronous: Fact<SynchronousCommit>,
    /// Tables that are read sequentially or have dead rows.
    pub tables: Fact<Vec<TableStatistics>>,
    /// Autovacuum, the age of transactions, and temporary files.
    pub upkeep: Fact<DatabaseUpkeep>,
}

impl DatabaseObservation {
    /// Returns the settings that will change at a restart. Leaves out those fixed on the command
    /// line: Postgres reports them as pending whenever a file differs, but the command line wins
    /// again after a restart.
    pub fn waiting_for_restart(&self) -> impl Iterator<Item = &str> {
        let fixed = |name: &str| {
            self.origins.iter().any(|it| it.name == name && it.source == "command line")
        };
        self.pending_restart.iter().map(String::as_str).filter(move |name| !fixed(name))
    }
}

/// Why a database accepts no writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadOnly {
    /// It is a standby (`in_hot_standby`, since version 14).
    Standby,
    /// `default_transaction_read_only` is set for more than one role.
    Setting,
}

/// The source of a setting's value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SettingOrigin {
    /// Name of the setting.
    pub name: String,
    /// `pg_settings.source`: "configuration file", "command line", "user".
    pub source: String,
    /// `pg_settings.sourcefile`, or `None` if there is no file or it is not visible.
    pub file: Option<String>,
}

/// A local process with connections to the database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClientProcess {
    /// The service that the process belongs to.
    pub service: String,
    /// Its process ID.
    pub pid: u32,
    /// `DB_POOL` in its environment, or `None` if not set or not visible.
    pub pool: Option<u32>,
    /// The number of threads set in its environment.
    pub threads: Option<u32>,
}

/// Busy sessions that are waiting for the same event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SessionWait {
    /// `pg_stat_activity.wait_event_type`: "IO", "Lock", "`LWLock`".
    pub kind: String,
    /// `wait_event`: "`DataFileRead`".
    pub event: String,
    /// Number of sessions.
    pub count: u32,
}

/// Statistics of a normalized statement since the last reset (`pg_stat_statements`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StatementTimes {
    /// The statement's text without literal values.
    pub text: String,
    /// Number of executions.
    pub calls: u64,
    /// Total execution time.
    pub total: Duration,
    /// Share of the total time of all statements of the database, from 0 to 1.
    pub share: f64,
}

impl StatementTimes {
    /// Returns the mean execution time.
    #[must_use]
    pub fn mean(&self) -> Duration {
        let calls = u32::try_from(self.calls).unwrap_or(u32::MAX);
        self.total.checked_div(calls).unwrap_or_default()
    }
}

/// Settings that matter to a job system.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PostgresSettings {
    /// Maximum number of sessions.
    pub max_connections: u32,
    /// Slots reserved for superusers and, since version 16, for a role (`reserved_connections`).
    pub superuser_reserved_connections: u32,
    /// Size of the shared buffer cache.
    pub shared_buffers_bytes: u64,
    /// The planner's estimate of cached data, including the kernel's cache.
    pub effective_cache_size_bytes: u64,
    /// Memory per sort or hash.
    pub work_mem_bytes: u64,
    /// Cost of a random read relative to a sequential one.
    pub random_page_cost: f64,
}

impl PostgresSettings {
    /// Returns the number of sessions available to users other than superusers.
    #[must_use]
    pub const fn usable_connections(&self) -> u32 {
        self.max_connections.saturating_sub(self.superuser_reserved_connections)
    }
}

/// With fewer free slots than this, a deploy that starts new processes before it stops the old ones
/// may fail. `weir plan` leaves 15 slots, of which Postgres reserves 3 for superusers, so a plan
/// with all pools open causes no finding.
const FREE_MIN: u32 = 12;
/// For small servers, the limit is a tenth of the slots instead.
const FREE_SHARE: f64 = 0.1;

/// Reports whether a deploy may fail because too few of the usable slots are free.
#[must_use]
pub fn is_nearly_full(open: u32, usable: u32) -> bool {
    usable.saturating_sub(open) < slots_to_keep_free(usable)
}

/// Returns the lowest limit with which `connections` leave enough slots free.
#[must_use]
pub fn limit_for(connections: u32) -> u32 {
    let mut limits = connections..=connections.saturating_add(2 * FREE_MIN);
    limits.find(|limit| !is_nearly_full(connections, *limit)).unwrap_or(u32::MAX)
}

/// Returns how many of the usable slots are to stay free for psql, migrations and deploys.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most FREE_MIN, and not negative"
)]
pub fn slots_to_keep_free(usable: u32) -> u32 {
    (FREE_SHARE * f64::from(usable)).min(f64::from(FREE_MIN)).ceil() as u32
}

/// The machine of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DatabaseHost {
    /// Memory that the database may use. On a shared machine, only its share.
    pub memory_bytes: u64,
    /// Basis for recommended settings, which must not vary from sample to sample: the configured
    /// size, the limit of its control group, or the database's share of a machine with other
    /// services.
    pub share_bytes: u64,
    /// Whether `memory_bytes` was configured. Otherwise it is what other processes leave now.
    pub is_said: bool,
}

impl DatabaseHost {
    /// Returns the machine as input for computing settings by the rules of a plan.
    #[must_use]
    pub const fn machine(&self, cores: u32, connections: u32) -> PostgresMachine {
        PostgresMachine {
            memory_bytes: self.share_bytes,
            cores,
            connections,
            workload: DatabaseWorkload::Oltp,
            storage: Storage::Ssd,
        }
    }
}

/// All open sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DatabaseConnections {
    /// Sessions by service and state.
    pub sessions: Vec<Sessions>,
}

/// Sessions of one service in one state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sessions {
    /// The service, determined by address and process rather than by `application_name`.
    pub service: String,
    /// Their state.
    pub state: SessionState,
    /// Number of sessions.
    pub count: u32,
    /// Time that the oldest has been in that state.
    pub longest: Duration,
}

/// `pg_stat_activity.state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// It is executing a statement.
    Active,
    /// It is waiting for its client.
    Idle,
    /// It is waiting for its client inside a transaction.
    IdleInTransaction,
    /// NULL, because the observer lacks `pg_monitor`.
    Hidden,
    /// Not recorded, because `track_activities` is off.
    Untracked,
}

impl SessionState {
    /// Returns the state in words, for people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Idle => "idle",
            Self::IdleInTransaction => "idle in transaction",
            Self::Hidden => "hidden",
            Self::Untracked => "not recorded",
        }
    }

    /// Returns the name used in labels.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Idle => "idle",
            Self::IdleInTransaction => "idle_in_transaction",
            Self::Hidden => "hidden",
            Self::Untracked => "untracked",
        }
    }
}

/// A session that waits for the lock of a whole table that a change of the table needs. Other
/// sessions wait behind it, even those that need only weak locks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TableLockRequest {
    /// Process ID of the session.
    pub pid: u32,
    /// The mode as Postgres' manual writes it: "ACCESS EXCLUSIVE".
    pub mode: String,
    /// The first words of its statement, if that is a change of a table and visible: "ALTER TABLE".
    pub statement: Option<String>,
}

/// A session that is blocked by another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LockWait {
    /// Process ID of the blocked session.
    pub waiting_pid: u32,
    /// Service of the blocked session.
    pub waiting_service: String,
    /// Service of the blocking session.
    pub blocking_service: String,
    /// Process ID of the blocking session; 0 for a prepared transaction, which has none.
    pub blocking_pid: u32,
    /// State of the blocking session and its duration. `None` if it has no client or is not
    /// visible.
    pub blocking_state: Option<(SessionState, Duration)>,
    /// What the blocking session itself is waiting for, other than a lock (`wait_event`):
    /// "`SyncRep`".
    pub blocking_event: Option<String>,
    /// The locked relation.
    pub relation: Option<String>,
    /// The lock is an advisory one (`pg_locks.locktype`), which an application takes by a number.
    pub is_advisory: bool,
    /// It waits for a row, or for the transaction that has changed it.
    pub is_of_row: bool,
    /// It is a command that waits for a transaction of another session to end (`virtualxid`), such as
    /// CREATE INDEX CONCURRENTLY: the first words of its statement, as far as visible. No job does that.
    pub maintenance: Option<String>,
    /// How long it has been blocked. For a row, how long its statement has been running: Postgres
    /// counts the wait anew for each session that has the row in turn.
    pub waited: Duration,
}

impl DatabaseConnections {
    /// Returns the number of open sessions.
    #[must_use]
    pub fn open(&self) -> u32 {
        self.sessions.iter().map(|sessions| sessions.count).sum()
    }

    /// Returns the services, those with the most sessions first.
    #[must_use]
    pub fn services(&self) -> Vec<&str> {
        let mut open: BTreeMap<&str, u32> = BTreeMap::new();
        for sessions in &self.sessions {
            *open.entry(&sessions.service).or_default() += sessions.count;
        }
        let mut services: Vec<_> = open.into_iter().collect();
        services.sort_by_key(|(_, open)| std::cmp::Reverse(*open));
        services.into_iter().map(|(service, _)| service).collect()
    }

    /// Describes the sessions by service, largest first: "web 60 (55 idle), sidekiq 25".
    #[must_use]
    pub fn ledger(&self) -> String {
        let line = |service: &str| {
            let of = self.sessions.iter().filter(|sessions| sessions.service == service);
            let open: u32 = of.map(|sessions| sessions.count).sum();
            match self.of(service, SessionState::Idle) {
                0 => format!("{service} {open}"),
                idle => format!("{service} {open} ({idle} idle)"),
            }
        };
        self.services().into_iter().map(line).collect::<Vec<_>>().join(", ")
    }

    /// Returns the number of one service's sessions in one state.
    #[must_use]
    pub fn of(&self, service: &str, state: SessionState) -> u32 {
        let sessions = self.sessions.iter();
        let sessions = sessions.filter(|it| it.service == service && it.state == state);
        sessions.map(|sessions| sessions.count).sum()
    }

    /// Returns the number of sessions in one state.
    #[must_use]
    pub fn in_state(&self, state: SessionState) -> u32 {
        let sessions = self.sessions.iter().filter(|sessions| sessions.state == state);
        sessions.map(|sessions| sessions.count).sum()
    }
}
