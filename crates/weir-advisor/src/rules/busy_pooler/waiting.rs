//! Clients are waiting for a connection of a PgBouncer, by its own statistics.

use std::time::Duration;

use super::{NAME, are_mostly_idle, held_by_transactions, without_free_slots};
use crate::finding::{Finding, Severity};
use crate::observation::{
    ConnectionPool, Observation, PgBouncer, PooledDatabase, PostgresSettings, SessionState,
};
use crate::rules::lock_waits;
use crate::wording::{duration, number};

/// In transaction mode connections are released within milliseconds, so a longer wait means a
/// shortage.
const WAIT_MIN: Duration = Duration::from_secs(1);
/// Maximum number of findings, because pools usually wait for the same reason.
const FINDINGS_MAX: usize = 5;

/// PgBouncer's file of settings is read then.
const RELOAD: &str = "PgBouncer reads changed settings after RELOAD in its own database.";

/// Why a pool has no connection for its waiting clients.
enum Why<'a> {
    Paused(&'a PooledDatabase),
    /// The database's pools have reached their common limit.
    DatabaseFull(&'a PooledDatabase),
    PoolFull(&'a PooledDatabase),
    /// The pool is below its limits, so the database or a limit of the user prevents new
    /// connections.
    NoneOpened(Option<&'a PooledDatabase>),
}

/// Reports whether clients have waited for a database that is paused.
pub(super) fn is_paused(pgbouncer: &PgBouncer) -> bool {
    let is_it = |pool: &ConnectionPool| matches!(why(pgbouncer, pool), Why::Paused(_));
    pgbouncer.pools.iter().any(|pool| is_late(pool) && is_it(pool))
}

fn is_late(pool: &ConnectionPool) -> bool {
    pool.clients_waiting > 0 && pool.longest_wait >= WAIT_MIN
}

pub(super) fn found(observation: &Observation, pgbouncer: &PgBouncer) -> Vec<Finding> {
    // Pools are sorted by wait, longest first.
    let late = pgbouncer.pools.iter().filter(|pool| is_late(pool)).take(FINDINGS_MAX);
    late.map(|pool| of(observation, pgbouncer, pool)).collect()
}

fn of(observation: &Observation, pgbouncer: &PgBouncer, pool: &ConnectionPool) -> Finding {
    let why = why(pgbouncer, pool);
    let evidence = format!("{}: {}", waiting(pool), words(&why, pool));
    let subject = format!("pool {}/{} of {}", pool.database, pool.user, name(observation));
    let deadline = pgbouncer.settings.query_wait_timeout;
    let is_soon_rejected = !deadline.is_zero() && pool.longest_wait >= deadline / 2;
    // Nothing ends a pause but an operator.
    let severity = match is_soon_rejected || matches!(why, Why::Paused(_)) {
        true => Severity::Critical,
        false => Severity::Warning,
    };
    let finding = Finding::new(NAME, severity, subject, evidence)
        .since(pool.longest_wait, "maxwait in SHOW POOLS")
        .leads_to(consequence(pool, deadline));
    if lock_waits::holds_up(observation, name(observation)) {
        return finding.adding(
            "Its connections wait for a lock: end that wait first. More connections would wait \
             as well.",
        );
    }
    match idle_in_transaction(observation, &why) {
        Some(stuck) => {
            let evidence = format!("{}; {stuck}", finding.evidence);
            held_by_transactions(observation, Finding { evidence, ..finding }, name(observation))
        }
        None => remedied(finding, observation, pgbouncer, pool, &why),
    }
}

/// Returns how many of the pooler's sessions are idle in a transaction, if nearly all are and the pool
/// has as many connections as it may open.
fn idle_in_transaction(observation: &Observation, why: &Why<'_>) -> Option<String> {
    let connections = observation.postgres.known()?.connections.known()?;
    let of = |state| connections.of(name(observation), state);
    let (active, stuck) = (of(SessionState::Active), of(SessionState::IdleInTransaction));
    let is_full = matches!(why, Why::PoolFull(_) | Why::DatabaseFull(_));
    let are = if stuck == 1 { "is" } else { "are" };
    (is_full && are_mostly_idle(active, stuck)).then(|| {
        format!(
            "{stuck} of {} busy sessions in Postgres {are} idle in a transaction",
            active + stuck
        )
    })
}

fn name(observation: &Observation) -> &str {
    observation.pooler.as_ref().map_or("pgbouncer", |pooler| pooler.name.as_str())
}

fn waiting(pool: &ConnectionPool) -> String {
    let longest = duration(pool.longest_wait);
    match pool.clients_waiting {
        1 => format!("1 client has waited for a connection for {longest}"),
        many => {
            let clients = number(many, "client waits", "clients wait");
            format!("{clients} for a connection, the longest for {longest}")
        }
    }
}

fn why<'a>(pgbouncer: &'a PgBouncer, pool: &ConnectionPool) -> Why<'a> {
    match pgbouncer.database(&pool.database) {
        Some(database) if database.is_paused => Why::Paused(database),
        Some(database) if pool.connections >= database.pool_size => Why::PoolFull(database),
        Some(database) if database.is_full() => Why::DatabaseFull(database),
        database => Why::NoneOpened(database),
    }
}

fn words(why: &Why<'_>, pool: &ConnectionPool) -> String {
    let ConnectionPool { connections, connections_active: active, .. } = pool;
    let some = |connections: u32| number(connections, "connection", "connections");
    match why {
        Why::Paused(database) => format!("{} is paused (PAUSE)", database.name),
        Why::PoolFull(database) => {
            let used = match (active, connections) {
                (1, 1) => "its one connection is in use".to_owned(),
                (1, all) => format!("1 of its {all} connections is in use"),
                (used, all) => format!("{used} of its {} are in use", some(*all)),
            };
            format!("{used}, of at most {}", database.pool_max())
        }
        Why::DatabaseFull(PooledDatabase { name, connections, connections_max, .. }) => format!(
            "all pools of {name} together have {}, of at most {connections_max} \
             (max_db_connections)",
            some(*connections)
        ),
        Why::NoneOpened(Some(database)) => {
            let has = some(*connections);
            format!("it has {has} of at most {}, and gets no more", database.pool_max())
        }
        Why::NoneOpened(None) => format!("it has {}", some(*connections)),
    }
}

fn consequence(pool: &ConnectionPool, deadline: Duration) -> String {
    let refused = match deadline.is_zero() {
        true => "They wait without a limit (query_wait_timeout = 0).".to_owned(),
        false => {
            format!(
                "Clients that have waited for {} are rejected (query_wait_timeout).",
                duration(deadline)
            )
        }
    };
    match pool.mode.as_str() {
        "session" => format!(
            "{refused} pool_mode = session: a client keeps its connection until it disconnects, \
             even while idle."
        ),
        _ => refused,
    }
}

fn remedied(
    finding: Finding,
    observation: &Observation,
    pgbouncer: &PgBouncer,
    pool: &ConnectionPool,
    why: &Why<'_>,
) -> Finding {
    let name = name(observation);
    let (database, allowed, sharing) = match why {
        Why::Paused(database) => {
            let line = format!("RESUME {};", database.name);
            return finding.change(format!("{name}'s own database (psql -d pgbouncer)"), line);
        }
        Why::NoneOpened(_) => {
            return finding.advise(format!(
                "see {name}'s log for why the database opens no more; or max_user_connections was \
                 reached"
            ));
        }
        Why::DatabaseFull(database) => (database, database.connections_max, 1),
        Why::PoolFull(database) => (database, database.pool_size, sharing(pgbouncer, database)),
    };
    // The remaining connections of the database are shared by all pools with the same setting.
    let Some(free) = observation.free_slots() else { return finding.next("weir plan") };
    let room = usable(observation) / sharing.max(1);
    let more = wanted(pool, allowed).min(free / sharing.max(1)).min(room.saturating_sub(allowed));
    if more == 0 {
        return without_free_slots(finding);
    }
    let enough = allowed.saturating_add(more);
    let line = match why {
        Why::DatabaseFull(_) => format!("max_db_connections = {enough}"),
        _ if has_default(pgbouncer, database) => format!("default_pool_size = {enough}"),
        _ => format!("pool_size={enough} in the line of {} under [databases]", database.name),
    };
    let of_all = database.connections_max;
    let is_met_next = matches!(why, Why::PoolFull(_)) && (1..enough).contains(&of_all);
    let consequence = format!("{} {RELOAD}", finding.consequence);
    let finding = finding.leads_to(consequence).change(format!("{name}'s settings"), line);
    let finding = finding.adds_connections(more.saturating_mul(sharing));
    match is_met_next {
        true => finding.also(format!("max_db_connections = {enough}")),
        false => finding,
    }
}

/// Returns how many connections the database accepts at most, whatever PgBouncer may open.
fn usable(observation: &Observation) -> u32 {
    let settings = observation.postgres.known().and_then(|postgres| postgres.settings.known());
    settings.map_or(u32::MAX, PostgresSettings::usable_connections)
}

/// Returns the desired number of additional connections: as many as there are, or in session mode
/// one per waiting client if that is more.
fn wanted(pool: &ConnectionPool, allowed: u32) -> u32 {
    match pool.mode.as_str() {
        "session" => allowed.max(pool.clients_waiting),
        _ => allowed,
    }
}

fn has_default(pgbouncer: &PgBouncer, database: &PooledDatabase) -> bool {
    database.pool_size == pgbouncer.settings.default_pool_size
}

/// Returns how many pools get their size from the same line.
fn sharing(pgbouncer: &PgBouncer, database: &PooledDatabase) -> u32 {
    let is_default = has_default(pgbouncer, database);
    let has_same = |pool: &&ConnectionPool| match pgbouncer.database(&pool.database) {
        Some(other) => other.name == database.name || (is_default && has_default(pgbouncer, other)),
        None => false,
    };
    u32::try_from(pgbouncer.pools.iter().filter(has_same).count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Confidence;
    use crate::healthy::{self, sessions};
    use crate::observation::{Fact, LockWait, PgBouncerSettings, Pooler};

    fn pool(user: &str, waiting: u32, longest_wait: Duration) -> ConnectionPool {
        ConnectionPool {
            database: "app".to_owned(),
            user: user.to_owned(),
            mode: "transaction".to_owned(),
            clients_waiting: waiting,
            longest_wait,
            connections_active: 20,
            connections: 20,
            ..ConnectionPool::default()
        }
    }

    fn pgbouncer(waiting: u32, seconds: u64) -> PgBouncer {
        PgBouncer {
            pools: vec![pool("shop", waiting, Duration::from_secs(seconds))],
            databases: vec![PooledDatabase {
                name: "app".to_owned(),
                pool_size: 20,
                connections: 20,
                ..PooledDatabase::default()
            }],
            settings: PgBouncerSettings {
                default_pool_size: 20,
                query_wait_timeout: Duration::from_secs(120),
                ..PgBouncerSettings::default()
            },
            ..PgBouncer::default()
        }
    }

    /// Returns a database with 197 slots, `open` of which are in use.
    fn observed(pgbouncer: PgBouncer, open: u32) -> Observation {
        let mut observation = healthy::observation();
        observation.postgres.known_mut().connections.known_mut().sessions =
            vec![sessions("pgbouncer", SessionState::Active, open)];
        observation.pooler = Some(Pooler { name: "pgbouncer".to_owned(), ..Pooler::default() });
        observation.pgbouncer = Fact::Known(pgbouncer);
        observation
    }

    fn all(pgbouncer: PgBouncer, open: u32) -> Vec<Finding> {
        super::super::check(&observed(pgbouncer, open))
    }

    fn only(pgbouncer: PgBouncer) -> Finding {
        all(pgbouncer, 20).pop().unwrap()
    }

    fn line(finding: Finding) -> String {
        finding.line_change().unwrap().line.clone()
    }

    #[test]
    fn who_waits_is_told_with_how_long_and_which_pool_is_too_small() {
        let finding = only(pgbouncer(7, 12));
        assert_eq!(finding.subject, "pool app/shop of pgbouncer");
        assert_eq!(finding.since.as_ref().unwrap().ago(), Duration::from_secs(12));
        assert_eq!(finding.confidence, Confidence::Certain);
        assert_eq!(finding.line_change().unwrap().connections_added, 20);
        let expected = "7 clients wait for a connection, the longest for 12 s: 20 of its 20 connections are in \
                        use, of at most 20";
        assert_eq!((finding.severity, finding.evidence.as_str()), (Severity::Warning, expected));
        assert_eq!(
            finding.consequence,
            format!(
                "Clients that have waited for 2 min are rejected (query_wait_timeout). {RELOAD}"
            )
        );
        assert_eq!(line(finding), "default_pool_size = 40");
        assert_eq!(only(pgbouncer(1, 60)).severity, Severity::Critical, "half of it is over");
        let first = "1 client has waited for a connection for 59 s:";
        assert!(only(pgbouncer(1, 59)).evidence.starts_with(first));
        let mut one = pgbouncer(1, 59);
        (one.databases[0].pool_size, one.pools[0].connections) = (1, 1);
        one.pools[0].connections_active = 1;
        let why = "its one connection is in use, of at most 1";
        assert!(only(one).evidence.ends_with(why));
    }

    #[test]
    fn a_pool_whose_connections_wait_for_a_lock_is_not_enlarged() {
        let mut observation = observed(pgbouncer(7, 12), 20);
        let (waited, waiting_service) = (Duration::from_secs(30), "pgbouncer".to_owned());
        *observation.postgres.known_mut().lock_waits.known_mut() =
            vec![LockWait { waited, waiting_service, ..LockWait::default() }];
        let finding = super::super::check(&observation).pop().unwrap();
        assert_eq!((finding.line_change(), finding.next_step()), (None, None));
        assert!(finding.consequence.contains("end that wait first"), "{}", finding.consequence);
    }

    #[test]
    fn a_pool_that_open_transactions_hold_is_not_enlarged() {
        let mut observation = observed(pgbouncer(7, 12), 0);
        observation.postgres.known_mut().connections.known_mut().sessions =
            vec![sessions("pgbouncer", SessionState::IdleInTransaction, 20)];
        let finding = super::super::check(&observation).pop().unwrap();
        let why = "of at most 20; 20 of 20 busy sessions in Postgres are idle in a transaction";
        assert!(finding.evidence.ends_with(why), "{}", finding.evidence);
        assert_eq!(finding.line_change(), None);
        assert!(finding.next_step().unwrap().contains("FROM pg_stat_activity"));
        assert!(finding.consequence.contains("The application holds them"));
    }

    #[test]
    fn in_session_mode_the_line_has_a_connection_for_each_client() {
        let mut session = pgbouncer(50, 12);
        "session".clone_into(&mut session.pools[0].mode);
        assert_eq!(line(only(session)), "default_pool_size = 70");
    }

    #[test]
    fn who_waits_for_its_turn_or_nobody_is_no_finding_however_busy_all_are() {
        assert_eq!(all(pgbouncer(0, 0), 20), []);
        let mut turn = pgbouncer(7, 0);
        turn.pools[0].longest_wait = Duration::from_millis(900);
        assert_eq!(all(turn, 20), []);
    }

    #[test]
    fn what_the_database_has_left_is_for_all_pools_of_the_line() {
        let finding = all(pgbouncer(7, 12), 178).pop().unwrap();
        assert_eq!(
            line(finding),
            "default_pool_size = 27",
            "19 slots of 197 are free, and 12 are kept so"
        );
        let mut two = pgbouncer(7, 12);
        two.pools.push(pool("jobs", 0, Duration::ZERO));
        assert_eq!(line(all(two.clone(), 178).pop().unwrap()), "default_pool_size = 23");
        two.databases[0].pool_size = 5;
        two.databases[0].connections_max = 6;
        let finding = only(two);
        let expected = "in pgbouncer's settings: max_db_connections = 10";
        assert_eq!(finding.actions[1].to_string(), expected);
        assert_eq!(line(finding), "pool_size=10 in the line of app under [databases]");
        let full = all(pgbouncer(7, 12), 185).pop().unwrap();
        assert_eq!((full.line_change(), full.next_step()), (None, Some("weir plan")));
        assert!(full.consequence.contains("has no connection slots for more"), "{full:?}");
    }

    #[test]
    fn a_limit_of_the_database_a_pause_and_a_database_that_refuses_are_told_apart() {
        let mut limited = pgbouncer(7, 12);
        limited.databases[0].pool_size = 30;
        limited.databases[0].connections_max = 20;
        assert_eq!(line(only(limited)), "max_db_connections = 40");
        let mut paused = pgbouncer(7, 12);
        paused.databases[0].is_paused = true;
        let finding = only(paused);
        assert!(finding.evidence.ends_with("app is paused (PAUSE)"), "{finding:?}");
        assert_eq!(finding.severity, Severity::Critical, "no client gets on");
        assert_eq!(line(finding), "RESUME app;");
        let mut refused = pgbouncer(7, 12);
        refused.pools[0].connections = 3;
        let finding = only(refused);
        assert!(finding.evidence.ends_with("it has 3 connections of at most 20, and gets no more"));
        assert!(
            finding.line_change().is_none() && finding.next_step().unwrap().starts_with("see ")
        );
    }

    #[test]
    fn without_the_database_s_own_figures_no_size_is_guessed() {
        let mut observation = healthy::observation();
        observation.postgres = Fact::NotAsked;
        observation.pgbouncer = Fact::Known(pgbouncer(7, 12));
        let finding = super::super::check(&observation).pop().unwrap();
        assert_eq!((finding.line_change(), finding.next_step()), (None, Some("weir plan")));
    }
}
