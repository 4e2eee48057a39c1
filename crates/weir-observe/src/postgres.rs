//! Two looks at Postgres: what it says of itself, and who holds its connections.
//!
//! - [`PostgresEndpoint`]: where it is and how to get in; `tls`: certificates from files;
//! - `connection`: in the simple protocol; `session`: one that only asks, each question in a read-only transaction with limits
//!   of its own; a pooler in between does not mind;
//! - `settings`, `exceptions`, `activity`, `locks`, `slots`, `cache`, `host`, `statements`: what is asked, and what the answers mean;
//! - `error`, `away`: why it was not seen, and what would let it be;
//! - `titles`: who holds its connections when there is none left to ask by.

mod activity;
mod away;
mod cache;
mod connection;
mod endpoint;
mod error;
mod exceptions;
mod host;
mod locks;
mod session;
mod settings;
mod slots;
mod statements;
mod titles;
mod tls;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use weir_advisor::observation::{
    ClientProcess, DatabaseConnections, DatabaseHost, DatabaseObservation, Fact, Missing,
    MissingReason,
};

use self::activity::Backend;
use self::cache::Blocks;
pub(crate) use self::connection::PostgresConnection;
pub use self::endpoint::PostgresEndpoint;
pub use self::error::PostgresError;
pub(crate) use self::error::{MAX_CLIENT_CONN, missing};
use self::host::Whereabouts;
use self::session::PostgresSession;
use self::settings::ReportedSettings;
use crate::environment::StartEnvironment;

/// A database to look at.
#[derive(Clone, Debug)]
pub struct PostgresSource {
    /// Where it is.
    pub endpoint: PostgresEndpoint,
    /// What a look may cost it.
    pub limits: PostgresLimits,
    /// Memory that it may use; none: what others leave of this machine, if it runs here.
    pub memory_bytes: Option<u64>,
}

/// Ceilings of a look at Postgres.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostgresLimits {
    /// Until a connection is there.
    pub connect_timeout: Duration,
    /// Until a question is answered; Postgres itself ends it (`statement_timeout`).
    pub statement_timeout: Duration,
    /// Until a lock of the catalog is had (`lock_timeout`).
    pub lock_timeout: Duration,
    /// Sessions that are looked at.
    pub sessions_max: u32,
    /// Waits for locks that are looked at.
    pub lock_waits_max: u32,
    /// Kinds of statements that are looked at, where `pg_stat_statements` is there; 0: nobody asks.
    pub statements_max: u32,
}

impl Default for PostgresLimits {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(5),
            lock_timeout: Duration::from_secs(1),
            // More sessions than anybody sets max_connections to.
            sessions_max: 20_000,
            lock_waits_max: 500,
            statements_max: 0,
        }
    }
}

/// A database, as far as it could be seen.
#[derive(Debug)]
pub(crate) struct Database {
    source: PostgresSource,
    seen: Result<(PostgresSession, Fact<Blocks>), Missing>,
}

impl Database {
    /// The first look: counters only.
    pub(crate) async fn sample(source: &PostgresSource, proc: Option<&Path>) -> Self {
        let seen = match PostgresSession::open(&source.endpoint, &source.limits).await {
            Ok(mut session) => {
                let blocks = cache::blocks(&mut session).await;
                Ok((session, blocks))
            }
            Err(error) => {
                let mut missing = error::unreachable(&source.endpoint, &error);
                if let Some(ledger) = ledger_without_asking(source, proc, &missing) {
                    missing.reason = format!("{}; held by {ledger}", missing.reason);
                }
                Err(missing)
            }
        };
        Self { source: source.clone(), seen }
    }

    /// The second: all there is. `names` are services by the number of a process on this machine.
    pub(crate) async fn sample_again(
        &mut self,
        proc: Option<&Path>,
        names: &BTreeMap<u32, String>,
    ) -> Fact<DatabaseObservation> {
        let (session, before) = match &mut self.seen {
            Ok(seen) => seen,
            Err(missing) => return Fact::Unknown(missing.clone()),
        };
        let Whereabouts { local, other_port } = host::whereabouts(session, proc).await;
        // Not one answer: all that follows would wait as long.
        if let Some(after) = session.silent_for() {
            return Fact::Unknown(error::silent(&self.source.endpoint, after));
        }
        let (backends, waits) = activity::backends(session).await;
        let mut owners = BTreeMap::new();
        let backends = backends.map(|mut backends| {
            owners = activity::name(&mut backends, local.as_ref(), proc, names);
            backends
        });
        let statements = statements::statements(session).await;
        let ReportedSettings { settings, pending_restart, origins, read_only } =
            settings::settings(session).await;
        let exceptions = exceptions::exceptions(session).await;
        let blocks = cache::blocks(session).await;
        let cache_hit_ratio = cache::hit_ratio(before, blocks.clone());
        // A database that is asked little needs more than one window to say something.
        if cache_hit_ratio != Fact::NotAsked || before.known().is_none() {
            *before = blocks;
        }
        let said =
            |memory_bytes| DatabaseHost { memory_bytes, share_bytes: memory_bytes, is_said: true };
        let given = self.source.memory_bytes.map(said);
        let lock_waits = locks::waits(session, backends.known().map(Vec::as_slice)).await;
        let replication = slots::replication(session).await;
        Fact::Known(DatabaseObservation {
            settings,
            pending_restart,
            read_only,
            origins,
            exceptions,
            connections: connections(backends),
            clients: clients(proc, owners),
            other_port,
            user: session.user().map(str::to_owned),
            host: given.map_or_else(|| host::host(local.as_ref()), Fact::Known),
            cache_hit_ratio,
            lock_waits,
            waits,
            statements,
            replication,
        })
    }

    /// Questions that it was asked up to now.
    pub(crate) fn questions(&self) -> u64 {
        self.seen.as_ref().map_or(0, |(session, _)| session.questions())
    }

    /// Leaves it.
    pub(crate) async fn close(self) {
        if let Ok((session, _)) = self.seen {
            session.close().await;
        }
    }
}

/// One that does not answer.
pub(crate) fn late(source: &PostgresSource, after: Duration) -> Missing {
    error::unreachable(&source.endpoint, &PostgresError::Deadline(after))
}

/// With every slot taken it can't be asked; on this machine it can be seen.
fn ledger_without_asking(
    source: &PostgresSource,
    proc: Option<&Path>,
    missing: &Missing,
) -> Option<String> {
    let is_full =
        matches!(missing.obstacle, MissingReason::SlotsExhausted | MissingReason::LimitReached);
    let here = is_full && source.endpoint.is_loopback();
    proc.filter(|_| here).and_then(|proc| titles::ledger(proc, source.endpoint.port()))
}

/// What the processes that hold connections were started with.
fn clients(proc: Option<&Path>, owners: BTreeMap<u32, String>) -> Vec<ClientProcess> {
    let Some(proc) = proc else { return Vec::new() };
    let client = |(pid, service): (u32, String)| {
        let started = StartEnvironment::read(proc, pid);
        ClientProcess { service, pid, pool: started.pool, threads: started.web_threads() }
    };
    owners.into_iter().map(client).collect()
}

fn connections(backends: Fact<Vec<Backend>>) -> Fact<DatabaseConnections> {
    backends.map(|backends| DatabaseConnections { sessions: activity::sessions(&backends) })
}
