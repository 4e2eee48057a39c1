//! The application's database: connections by service, lock waits, statements by time.

mod pools;

use askama::Template;
use weir_advisor::observation::{
    DatabaseConnections, DatabaseObservation, Fact, LockWait, PostgresSettings, SessionState,
    StatementTimes, is_nearly_full,
};

use self::pools::PoolRow;
use super::super::frame::Section;
use super::super::request::{PageRequest, PageResult};
use super::charted::{ChartFigure, ChartedPage, PageCharts};
use super::{MissingFact, age, displayable, latest};
use crate::console::Console;
use crate::figures;
use crate::page_error::PageError;

const CHARTS: [ChartFigure; 3] = [
    ChartFigure {
        series: "connections_max:Limit,connections:Open,connections_active:Active,connections_idle:Idle,connections_idle_in_transaction:Idle in transaction",
        unit: "count",
        name: "Connections to the database",
        caption: "Connections",
    },
    ChartFigure {
        series: "cache_hit_percent:Cache hits",
        unit: "count",
        name: "Cache hits in percent",
        caption: "Cache hits, %",
    },
    ChartFigure {
        series: "lock_wait_seconds:Longest wait",
        unit: "duration",
        name: "Longest wait for a lock",
        caption: "Longest wait for a lock",
    },
];

#[derive(Template)]
#[template(path = "postgres_live.html")]
struct PostgresLive {
    /// None: there is no snapshot yet.
    age: Option<String>,
    /// Whether Postgres is observed.
    is_asked: bool,
    missing_facts: Vec<MissingFact>,
    tiles: Vec<Tile>,
    ledger: Vec<ServiceConnections>,
    pools: Vec<PoolRow>,
    waits: Vec<(String, String, u32)>,
    locks: Vec<LockRow>,
    statements: Vec<StatementRow>,
    settings: Vec<(&'static str, String)>,
    pending: Vec<String>,
}

pub(super) struct Tile {
    pub(super) name: &'static str,
    pub(super) value: String,
    pub(super) is_bad: bool,
}

struct ServiceConnections {
    service: String,
    open: u32,
    active: u32,
    idle: u32,
    in_transaction: u32,
    hidden: u32,
    longest_in_transaction: Option<String>,
}

struct LockRow {
    waiting: String,
    blocking: String,
    relation: String,
    waited: String,
}

struct StatementRow {
    text: String,
    calls: u64,
    mean: String,
    total: String,
    share: String,
}

/// `GET /postgres`
pub(in crate::pages) async fn page(request: PageRequest) -> PageResult {
    let page = ChartedPage {
        section: Section::Postgres,
        title: "Postgres".to_owned(),
        path: "/postgres",
        fields: &[],
        charts: PageCharts::of_all(&CHARTS),
    };
    page.response(&request, PostgresLive::read(&request.console)?.render())
}

impl PostgresLive {
    fn read(console: &Console) -> Result<Self, PageError> {
        let snapshot = latest(console)?;
        let fact = snapshot.as_ref().map(|snapshot| &snapshot.observation.postgres);
        let pgbouncer = snapshot.as_ref().map(|snapshot| &snapshot.observation.pgbouncer);
        let empty = DatabaseObservation::default();
        let postgres = fact.and_then(Fact::known).unwrap_or(&empty);
        let missing = [
            fact.and_then(Fact::missing),
            pgbouncer.and_then(Fact::missing),
            postgres.settings.missing(),
            postgres.connections.missing(),
            postgres.cache_hit_ratio.missing(),
            postgres.lock_waits.missing(),
            postgres.statements.missing(),
            postgres.replication.missing(),
        ];
        let connections = postgres.connections.known();
        let slice = |waits: &Fact<Vec<_>>| waits.known().cloned().unwrap_or_default();
        Ok(Self {
            age: snapshot.as_ref().map(|snapshot| age(console, snapshot)),
            is_asked: fact.is_none_or(|fact| !matches!(fact, Fact::NotAsked)),
            missing_facts: missing.into_iter().flatten().map(MissingFact::new).collect(),
            tiles: tiles(postgres),
            ledger: connections.map(ledger).unwrap_or_default(),
            pools: pgbouncer.and_then(Fact::known).map(pools::rows).unwrap_or_default(),
            waits: slice(&postgres.waits)
                .into_iter()
                .map(|wait| (displayable(&wait.kind), displayable(&wait.event), wait.count))
                .collect(),
            locks: postgres.lock_waits.known().into_iter().flatten().map(LockRow::new).collect(),
            statements: postgres
                .statements
                .known()
                .into_iter()
                .flatten()
                .map(StatementRow::new)
                .collect(),
            settings: postgres.settings.known().map(settings).unwrap_or_default(),
            pending: postgres.pending_restart.iter().map(|name| displayable(name)).collect(),
        })
    }
}

fn tiles(postgres: &DatabaseObservation) -> Vec<Tile> {
    let unknown = || "–".to_owned();
    let settings = postgres.settings.known();
    let open = postgres.connections.known().map(DatabaseConnections::open);
    let ceiling = settings.map(|settings| settings.usable_connections());
    let is_full = open.zip(ceiling).is_some_and(|(open, ceiling)| is_nearly_full(open, ceiling));
    let idle_in_transaction = postgres
        .connections
        .known()
        .map(|connections| connections.in_state(SessionState::IdleInTransaction));
    let waits = postgres.lock_waits.known().map(Vec::len);
    let tile = |name, value: Option<String>, is_bad| Tile {
        name,
        value: value.unwrap_or_else(unknown),
        is_bad,
    };
    let of = |count: u32| figures::count(u64::from(count));
    vec![
        tile("Connections", open.map(of), is_full),
        tile("Connection limit", ceiling.map(of), false),
        tile(
            "Idle in transaction",
            idle_in_transaction.map(of),
            idle_in_transaction.is_some_and(|idle_in_transaction| idle_in_transaction > 0),
        ),
        tile(
            "Cache hits",
            postgres
                .cache_hit_ratio
                .known()
                .map(|cache_hit_ratio| figures::percent(*cache_hit_ratio)),
            false,
        ),
        tile("Lock waits", waits.map(figures::number), waits.is_some_and(|waits| waits > 0)),
    ]
}

/// Returns the connections by service, the most first.
fn ledger(connections: &DatabaseConnections) -> Vec<ServiceConnections> {
    let row = |service: &str| {
        let of = |state| connections.of(service, state);
        let sessions = connections.sessions.iter().filter(|session| session.service == service);
        let idle_in_transaction =
            sessions.clone().find(|session| session.state == SessionState::IdleInTransaction);
        ServiceConnections {
            service: displayable(service),
            open: sessions.map(|sessions| sessions.count).sum(),
            active: of(SessionState::Active),
            idle: of(SessionState::Idle),
            in_transaction: of(SessionState::IdleInTransaction),
            hidden: of(SessionState::Hidden) + of(SessionState::Untracked),
            longest_in_transaction: idle_in_transaction.map(|idle_in_transaction| {
                figures::duration(idle_in_transaction.longest.as_secs_f64())
            }),
        }
    };
    connections.services().into_iter().map(row).collect()
}

impl LockRow {
    fn new(wait: &LockWait) -> Self {
        let state = wait
            .blocking_state
            .filter(|(state, _)| !matches!(state, SessionState::Hidden | SessionState::Untracked));
        let state_text = state.map_or_else(String::new, |(state, since)| {
            format!(", {} for {}", state.words(), figures::duration(since.as_secs_f64()))
        });
        let (blocking, pid) = (displayable(&wait.blocking_service), wait.blocking_pid);
        Self {
            waiting: displayable(&wait.waiting_service),
            blocking: format!("{blocking} (pid {pid}){state_text}"),
            relation: match &wait.relation {
                Some(relation) => displayable(relation),
                None if wait.is_advisory => "advisory lock".to_owned(),
                None => "–".to_owned(),
            },
            waited: figures::duration(wait.waited.as_secs_f64()),
        }
    }
}

impl StatementRow {
    fn new(statement: &StatementTimes) -> Self {
        Self {
            text: displayable(&statement.text),
            calls: statement.calls,
            mean: figures::duration(statement.mean().as_secs_f64()),
            total: figures::duration(statement.total.as_secs_f64()),
            share: figures::percent(statement.share),
        }
    }
}

fn settings(settings: &PostgresSettings) -> Vec<(&'static str, String)> {
    vec![
        ("shared_buffers", figures::bytes(settings.shared_buffers_bytes)),
        ("effective_cache_size", figures::bytes(settings.effective_cache_size_bytes)),
        ("work_mem", figures::bytes(settings.work_mem_bytes)),
        ("max_connections", settings.max_connections.to_string()),
        ("random_page_cost", settings.random_page_cost.to_string()),
    ]
}
