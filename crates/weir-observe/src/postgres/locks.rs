//! Reads sessions that wait for locks of others.

use std::time::Duration;

use tokio_postgres::SimpleQueryRow;
use weir_advisor::observation::{Fact, LockWait, TableLockRequest};

use super::activity::Backend;
use super::session::PostgresSession;

const WHAT: &str = "waits for locks";
const UNKNOWN: &str = "another service";

/// Every role may read `pg_locks` and `pg_blocking_pids`. `waitstart` exists since version 14 and
/// is read by name, so that the query also works in earlier versions. It begins again for a row each
/// time that another session gets it, so that the age of the statement is read there. Of a statement, only the words
/// that say which change of a table it is are read, because it may contain user data.
const QUESTION: &str = "SELECT l.pid, b.blocker, \
    CASE WHEN l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
    THEN l.relation::regclass::text END AS relation, l.locktype = 'advisory' AS advisory, \
    greatest(extract(epoch FROM clock_timestamp() - \
    CASE WHEN l.locktype IN ('transactionid', 'tuple') \
    THEN coalesce(a.state_change, (to_jsonb(l) ->> 'waitstart')::timestamptz) \
    ELSE coalesce((to_jsonb(l) ->> 'waitstart')::timestamptz, a.state_change) END), 0)::bigint AS seconds, \
    l.locktype IN ('transactionid', 'tuple') AS of_row, l.locktype = 'virtualxid' AS of_end, \
    CASE WHEN l.locktype = 'relation' THEN l.mode END AS table_mode, \
    upper(substring(a.query from '(?i)^\\s*((?:alter|create|drop|reindex) +[a-z]+|lock|vacuum|cluster|truncate)')) AS statement, \
    k.backend_type AS kind FROM (SELECT * FROM pg_locks WHERE NOT granted LIMIT $MAX) l \
    LEFT JOIN pg_stat_activity a ON a.pid = l.pid \
    CROSS JOIN LATERAL unnest(pg_blocking_pids(l.pid)) AS b (blocker) \
    LEFT JOIN pg_stat_activity k ON k.pid = b.blocker LIMIT $MAX";

/// Returns the waits, and those of them that are for the lock of a whole table.
pub(super) async fn waits(
    session: &mut PostgresSession,
    backends: Option<&[Backend]>,
) -> (Fact<Vec<LockWait>>, Vec<TableLockRequest>) {
    let question = QUESTION.replace("$MAX", &session.limits().lock_waits_max.to_string());
    match session.query(&question).await {
        Ok(rows) => {
            let waits = rows.iter().filter_map(|row| wait(row, backends)).collect();
            let mut requests: Vec<_> = rows.iter().filter_map(table_lock_request).collect();
            // A session has a row for each session that blocks it.
            requests.dedup_by_key(|request| request.pid);
            (Fact::Known(waits), requests)
        }
        Err(error) => (Fact::Unknown(session.missing(WHAT, &error)), Vec::new()),
    }
}

fn table_lock_request(row: &SimpleQueryRow) -> Option<TableLockRequest> {
    let mode = match row.get("table_mode")? {
        "ShareLock" => "SHARE",
        "ShareRowExclusiveLock" => "SHARE ROW EXCLUSIVE",
        "ExclusiveLock" => "EXCLUSIVE",
        "AccessExclusiveLock" => "ACCESS EXCLUSIVE",
        // Those of queries and of changes of rows.
        _ => return None,
    };
    let statement = row.get("statement").map(str::to_owned);
    Some(TableLockRequest { pid: row.get("pid")?.parse().ok()?, mode: mode.to_owned(), statement })
}

fn wait(row: &SimpleQueryRow, backends: Option<&[Backend]>) -> Option<LockWait> {
    let number = |name: &str| row.get(name)?.parse::<u32>().ok();
    let backend = |pid: u32| backends.unwrap_or_default().iter().find(|backend| backend.pid == pid);
    let service = |pid: u32, otherwise: &str| {
        backend(pid).map_or_else(|| otherwise.to_owned(), |backend| backend.service.clone())
    };
    let (waiting_pid, blocking_pid) = (number("pid")?, number("blocker")?);
    // Other processes have no service, such as autovacuum or replication.
    let kind = row.get("kind").filter(|kind| *kind != "client backend").unwrap_or(UNKNOWN);
    Some(LockWait {
        waiting_pid,
        waiting_service: service(waiting_pid, UNKNOWN),
        blocking_service: service(blocking_pid, kind),
        blocking_pid,
        blocking_state: backend(blocking_pid).map(|backend| (backend.state, backend.since)),
        blocking_event: backend(blocking_pid).and_then(|backend| backend.event.clone()),
        relation: row.get("relation").map(str::to_owned),
        is_advisory: row.get("advisory") == Some("t"),
        is_of_row: row.get("of_row") == Some("t"),
        maintenance: (row.get("of_end") == Some("t"))
            .then(|| row.get("statement").unwrap_or("a maintenance command").to_owned()),
        waited: Duration::from_secs(u64::from(number("seconds").unwrap_or_default())),
    })
}
