//! Takes two samples of Postgres, and finds out which services hold its connections.
//!
//! - [`PostgresEndpoint`]: address and credentials; `tls`: certificates from files;
//! - `connection`: a connection with the simple protocol; `session`: a read-only connection that
//!   executes each query in a transaction with its own timeouts, so that it also works through a
//!   pooler;
//! - `settings`, `exceptions`, `activity`, `locks`, `slots`, `standbys`, `cache`, `tables`, `upkeep`, `host`,
//!   `statements`: the queries and their results;
//! - `job_sessions`: busy sessions by class of jobs, for the autopilot;
//! - `lease`: a lease, which is the only thing that is written;
//! - [`PostgresLimits`]: timeouts and maximum numbers of rows;
//! - `error`, `error_kind`: errors and their kinds; `missing`: reasons for failures, with remedies;
//! - `titles`: lists the holders of connections when the database has no free slot for a query.

mod activity;
mod cache;
mod connection;
mod endpoint;
mod error;
mod error_kind;
mod exceptions;
mod host;
mod job_sessions;
mod lease;
mod limits;
mod locks;
mod missing;
mod session;
mod settings;
mod slots;
mod standbys;
mod statements;
mod tables;
mod titles;
mod tls;
mod upkeep;

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
pub(crate) use self::error_kind::PostgresErrorKind;
use self::host::Whereabouts;
pub use self::job_sessions::{JobSession, JobSessions, JobSessionsReader};
pub use self::lease::{LeaseRow, LeaseRowInForce, PostgresLease};
pub use self::limits::PostgresLimits;
pub(crate) use self::missing::{connecting, missing};
use self::session::PostgresSession;
use self::settings::ReportedSettings;
use self::tables::TableCounters;
use self::upkeep::UpkeepSample;
use crate::environment::StartEnvironment;

/// A database to observe.
#[derive(Clone, Debug)]
pub struct PostgresSource {
    /// Its address.
    pub endpoint: PostgresEndpoint,
    /// Limits of the cost of a sample.
    pub limits: PostgresLimits,
    /// Memory that it may use, or `None` for what other processes leave if it runs on this machine.
    pub memory_bytes: Option<u64>,
}

/// A database with its session, as far as it could be reached.
#[derive(Debug)]
pub(crate) struct Database {
    source: PostgresSource,
    seen: Result<(PostgresSession, DatabaseCounters), Missing>,
}

/// Counters of the first of two samples.
#[derive(Debug)]
struct DatabaseCounters {
    blocks: Fact<Blocks>,
    tables: Fact<TableCounters>,
    upkeep: Fact<UpkeepSample>,
}

impl DatabaseCounters {
    async fn sample(session: &mut PostgresSession) -> Self {
        Self {
            blocks: cache::blocks(session).await,
            tables: tables::counters(session).await,
            upkeep: upkeep::sample(session).await,
        }
    }
}

impl Database {
    /// Takes the first sample, which consists of counters only.
    pub(crate) async fn sample(source: &PostgresSource, proc: Option<&Path>) -> Self {
        let seen = match PostgresSession::open(&source.endpoint, &source.limits).await {
            Ok(mut session) => {
                let counters = DatabaseCounters::sample(&mut session).await;
                Ok((session, counters))
            }
            Err(error) => {
                let mut missing = missing::unreachable(&source.endpoint, &error);
                if let Some(ledger) = ledger_without_asking(source, proc, &missing) {
                    missing.reason = format!("{}; held by {ledger}", missing.reason);
                }
                Err(missing)
            }
        };
        Self { source: source.clone(), seen }
    }

    /// Takes the second sample, with all data. `names` are services by local process ID.
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
        // The session does not respond, so each further query would time out as well.
        if let Some(after) = session.silent_for() {
            return Fact::Unknown(missing::silent(&self.source.endpoint, after));
        }
        let (backends, waits) = activity::backends(session).await;
        let mut owners = BTreeMap::new();
        let backends = backends.map(|mut backends| {
            owners = activity::name(&mut backends, local.as_ref(), proc, names);
            backends
        });
        let statements = statements::statements(session).await;
        let ReportedSettings { settings, pending_restart, origins, read_only, socket_folder } =
            settings::settings(session).await;
        let exceptions = exceptions::exceptions(session).await;
        let now = DatabaseCounters::sample(session).await;
        let cache_hit_ratio = cache::hit_ratio(&before.blocks, now.blocks.clone());
        let tables = tables::tables(&before.tables, &now.tables);
        let upkeep = upkeep::upkeep(&before.upkeep, &now.upkeep);
        // A database with little traffic needs more than one window for a hit ratio.
        let keeps_blocks = cache_hit_ratio == Fact::NotAsked && before.blocks.known().is_some();
        let blocks = if keeps_blocks { before.blocks.clone() } else { now.blocks.clone() };
        *before = DatabaseCounters { blocks, ..now };
        let configured =
            |memory_bytes| DatabaseHost { memory_bytes, share_bytes: memory_bytes, is_said: true };
        let given = self.source.memory_bytes.map(configured);
        let (lock_waits, table_lock_requests) =
            locks::waits(session, backends.known().map(Vec::as_slice)).await;
        let replication = slots::replication(session).await;
        let synchronous = standbys::synchronous(session).await;
        Fact::Known(DatabaseObservation {
            settings,
            pending_restart,
            read_only,
            socket_folder,
            origins,
            exceptions,
            connections: connections(backends),
            clients: clients(proc, owners),
            other_port,
            is_here: local.is_some(),
            user: session.user().map(str::to_owned),
            host: given.map_or_else(|| host::host(local.as_ref()), Fact::Known),
            cache_hit_ratio,
            lock_waits,
            table_lock_requests,
            waits,
            statements,
            replication,
            synchronous,
            tables,
            upkeep,
        })
    }

    /// Returns the number of queries so far.
    pub(crate) fn questions(&self) -> u64 {
        self.seen.as_ref().map_or(0, |(session, _)| session.questions())
    }

    /// Closes the session.
    pub(crate) async fn close(self) {
        if let Ok((session, _)) = self.seen {
            session.close().await;
        }
    }
}

/// Returns the reason for a timeout.
pub(crate) fn late(source: &PostgresSource, after: Duration) -> Missing {
    missing::unreachable(&source.endpoint, &PostgresError::Deadline(after))
}

/// Lists the holders of connections by local process titles when no slot is free for a query.
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

/// Reads the environments of the processes that hold connections.
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
