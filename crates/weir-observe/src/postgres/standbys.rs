//! Reads whether commits wait for synchronous standbys.

use std::time::Duration;

use tokio_postgres::SimpleQueryRow;
use weir_advisor::observation::{Fact, SynchronousCommit};

use super::session::PostgresSession;

const WHAT: &str = "commits that wait for a standby";

/// Every role may read the setting. Without `pg_monitor`, the states of standbys are NULL, but a role
/// sees its own sessions wait: then no wait is reported, unless no standby is connected.
const QUESTION: &str = "SELECT current_setting('synchronous_standby_names') AS names, \
    (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')) AS confirming, \
    (SELECT string_agg(application_name, E'\\n') FROM pg_stat_replication) AS connected, \
    count(*) AS waiting, \
    coalesce(greatest(max(extract(epoch FROM clock_timestamp() - state_change)), 0), 0)::bigint \
    AS seconds FROM pg_stat_activity WHERE wait_event = 'SyncRep' \
    AND NOT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state IS NULL)";

pub(super) async fn synchronous(session: &mut PostgresSession) -> Fact<SynchronousCommit> {
    match session.query(QUESTION).await {
        Ok(rows) => rows.first().map_or(Fact::NotAsked, |row| Fact::Known(commit(row))),
        Err(error) => Fact::Unknown(session.missing(WHAT, &error)),
    }
}

fn commit(row: &SimpleQueryRow) -> SynchronousCommit {
    let number = |name| row.get(name).and_then(|text| text.parse::<u32>().ok()).unwrap_or_default();
    let connected = row.get("connected").unwrap_or_default();
    SynchronousCommit {
        standby_names: row.get("names").unwrap_or_default().trim().to_owned(),
        confirming: number("confirming"),
        connected: connected.lines().map(str::to_owned).collect(),
        waiting: number("waiting"),
        longest: Duration::from_secs(u64::from(number("seconds"))),
    }
}
