//! The application's database.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::{Exceptions, Fact, Replication};
use crate::plan::{DatabaseWorkload, PostgresMachine, Storage};

/// What Postgres says. Each part needs rights of its own.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DatabaseObservation {
    /// Who asked it, if that is known.
    pub user: Option<String>,
    /// As `SHOW` tells them.
    pub settings: Fact<PostgresSettings>,
    /// Settings in its files that wait for a restart (`pg_settings.pending_restart`).
    pub pending_restart: Vec<String>,
    /// Where settings come from that are not as Postgres ships.
    pub origins: Vec<SettingOrigin>,
    /// Why nothing can be written; none: it can.
    pub read_only: Option<ReadOnly>,
    /// What roles and databases have instead.
    pub exceptions: Fact<Exceptions>,
    /// Its sessions.
    pub connections: Fact<DatabaseConnections>,
    /// Processes of this machine that hold some of them, as far as that can be seen.
    pub clients: Vec<ClientProcess>,
    /// The port that it listens on, where the address that was given has another one.
    pub other_port: Option<u16>,
    /// What it runs on.
    pub host: Fact<DatabaseHost>,
    /// Blocks found in shared buffers, of all that were asked for, lately. From 0 to 1.
    pub cache_hit_ratio: Fact<f64>,
    /// Sessions that wait for others.
    pub lock_waits: Fact<Vec<LockWait>>,
    /// What busy sessions wait for. Of some databases nobody asks.
    pub waits: Fact<Vec<SessionWait>>,
    /// The statements that took most time. Not asked for where `pg_stat_statements` is not there.
    pub statements: Fact<Vec<StatementTimes>>,
    /// What it keeps for replicas and subscriptions.
    pub replication: Fact<Replication>,
}

impl DatabaseObservation {
    /// Settings that have another value after a restart. Of one on the command line, Postgres says that it
    /// waits whenever a file has another value, which the command line will hide again.
    pub fn waiting_for_restart(&self) -> impl Iterator<Item = &str> {
        let fixed = |name: &str| {
            self.origins.iter().any(|it| it.name == name && it.source == "command line")
        };
        self.pending_restart.iter().map(String::as_str).filter(move |name| !fixed(name))
    }
}

/// Why a database takes no writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadOnly {
    /// It replays what a primary writes (`in_hot_standby`, since version 14).
    Standby,
    /// `default_transaction_read_only`, for more than one role.
    Setting,
}

/// Where the value of a setting comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SettingOrigin {
    /// The setting.
    pub name: String,
    /// `pg_settings.source`: "configuration file", "command line", "user".
    pub source: String,
    /// `pg_settings.sourcefile`; none: no file, or not to be seen.
    pub file: Option<String>,
}

/// A process of this machine that holds connections to the database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClientProcess {
    /// Whose it is.
    pub service: String,
    /// Its number.
    pub pid: u32,
    /// `DB_POOL` in its environment; none: not set, or not to be seen.
    pub pool: Option<u32>,
    /// Its threads, as its environment has them.
    pub threads: Option<u32>,
}

/// Busy sessions that wait for the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SessionWait {
    /// `pg_stat_activity.wait_event_type`: "IO", "Lock", "`LWLock`".
    pub kind: String,
    /// `wait_event`: "`DataFileRead`".
    pub event: String,
    /// Sessions.
    pub count: u32,
}

/// One kind of statement since the statistics were reset (`pg_stat_statements`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StatementTimes {
    /// Without any value that somebody has written.
    pub text: String,
    /// How often it was executed.
    pub calls: u64,
    /// How long all of that took.
    pub total: Duration,
    /// Of the time of all statements of the database: from 0 to 1.
    pub share: f64,
}

impl StatementTimes {
    /// How long one took on average.
    #[must_use]
    pub fn mean(&self) -> Duration {
        let calls = u32::try_from(self.calls).unwrap_or(u32::MAX);
        self.total.checked_div(calls).unwrap_or_default()
    }
}

/// Settings that matter for a job system.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PostgresSettings {
    /// Ceiling of sessions.
    pub max_connections: u32,
    /// Of those, kept for superusers and, since version 16, for a role (`reserved_connections`).
    pub superuser_reserved_connections: u32,
    /// Its own cache.
    pub shared_buffers_bytes: u64,
    /// What the planner takes to be cached, the kernel's cache included.
    pub effective_cache_size_bytes: u64,
    /// For one sort or hash.
    pub work_mem_bytes: u64,
    /// Cost of a random read against a sequential one.
    pub random_page_cost: f64,
}

impl PostgresSettings {
    /// Sessions that who is no superuser can have.
    #[must_use]
    pub const fn usable_connections(&self) -> u32 {
        self.max_connections.saturating_sub(self.superuser_reserved_connections)
    }
}

/// Free slots below which a deploy, which starts new processes before it ends the old ones, may be
/// refused: of the 15 that `weir plan` leaves Postgres keeps 3 for superusers, so a plan whose pools are
/// all open is met with silence.
const FREE_MIN: u32 = 12;
/// A small server has a tenth of its slots to spare.
const FREE_SHARE: f64 = 0.1;

/// Whether so few of the usable slots are left that a deploy may be refused.
#[must_use]
pub fn is_nearly_full(open: u32, usable: u32) -> bool {
    let free = f64::from(usable.saturating_sub(open));
    free < (FREE_SHARE * f64::from(usable)).min(f64::from(FREE_MIN))
}

/// The database's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DatabaseHost {
    /// Memory that the database may take for its own: on a mixed host its share only.
    pub memory_bytes: u64,
    /// What settings are reckoned from: the same at every look. What was said, what its control group allows,
    /// or its share of a machine that others use as well.
    pub share_bytes: u64,
    /// Somebody has said so; otherwise it is what others leave at the moment.
    pub is_said: bool,
}

impl DatabaseHost {
    /// As settings are reckoned for it, by the rules of a plan.
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

/// All sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DatabaseConnections {
    /// By service and state.
    pub sessions: Vec<Sessions>,
}

/// Sessions of one service in one state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sessions {
    /// Whose they are, by address and process rather than `application_name`.
    pub service: String,
    /// What they do.
    pub state: SessionState,
    /// So many.
    pub count: u32,
    /// How long the oldest has been in that state.
    pub longest: Duration,
}

/// `pg_stat_activity.state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// It runs a statement.
    Active,
    /// It waits for its client.
    Idle,
    /// It waits for its client with a transaction open.
    IdleInTransaction,
    /// NULL to who lacks `pg_monitor`.
    Hidden,
}

impl SessionState {
    /// As people say it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Idle => "idle",
            Self::IdleInTransaction => "idle in transaction",
            Self::Hidden => "hidden",
        }
    }

    /// As labels name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Idle => "idle",
            Self::IdleInTransaction => "idle_in_transaction",
            Self::Hidden => "hidden",
        }
    }
}

/// A session that waits for another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LockWait {
    /// The session that waits.
    pub waiting_pid: u32,
    /// Who waits.
    pub waiting_service: String,
    /// For whom.
    pub blocking_service: String,
    /// The session that it waits for; 0: a prepared transaction, which has none.
    pub blocking_pid: u32,
    /// What that session does, and since when; none: it is no client's, or not told.
    pub blocking_state: Option<(SessionState, Duration)>,
    /// What that session waits for itself, other than a lock (`wait_event`): "`SyncRep`".
    pub blocking_event: Option<String>,
    /// What is locked.
    pub relation: Option<String>,
    /// How long.
    pub waited: Duration,
}

impl DatabaseConnections {
    /// All of them.
    #[must_use]
    pub fn open(&self) -> u32 {
        self.sessions.iter().map(|sessions| sessions.count).sum()
    }

    /// Whose they are, each once, most first.
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

    /// "web 60 (55 idle), sidekiq 25": most first.
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

    /// Those of one service in one state.
    #[must_use]
    pub fn of(&self, service: &str, state: SessionState) -> u32 {
        let sessions = self.sessions.iter();
        let sessions = sessions.filter(|it| it.service == service && it.state == state);
        sessions.map(|sessions| sessions.count).sum()
    }

    /// Those in one state.
    #[must_use]
    pub fn in_state(&self, state: SessionState) -> u32 {
        let sessions = self.sessions.iter().filter(|sessions| sessions.state == state);
        sessions.map(|sessions| sessions.count).sum()
    }
}
