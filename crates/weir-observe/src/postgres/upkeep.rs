//! Reads whether autovacuum runs, how old the oldest transaction IDs are, and how much was written to
//! temporary files between two samples.

use std::time::Duration;

use tokio_postgres::SimpleQueryRow;
use weir_advisor::observation::{DatabaseUpkeep, Fact, TemporaryFiles};
use weir_base::clock::Timestamp;

use super::session::PostgresSession;

const WHAT: &str = "Postgres' autovacuum, temporary files and age of transactions";

/// Every role may read all of it, but for the transactions of other users, which need `pg_monitor`.
/// `backend_xmin` marks those that may still see dead rows.
const QUESTION: &str = "SELECT current_setting('autovacuum') = 'on' AND current_setting('track_counts') = 'on' \
    AS autovacuum, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS at, \
    current_setting('autovacuum_freeze_max_age') AS freeze, \
    d.datname AS oldest, age(d.datfrozenxid) AS age, s.temp_files AS files, s.temp_bytes AS bytes, \
    (SELECT max(extract(epoch FROM clock_timestamp() - xact_start))::bigint FROM pg_stat_activity \
    WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() \
    AND coalesce(backend_type, '') <> 'autovacuum worker') AS transaction \
    FROM pg_database d, pg_stat_database s WHERE s.datname = current_database() \
    ORDER BY age(d.datfrozenxid) / 1000000 DESC, d.datname = current_database() DESC LIMIT 1";

/// A sample.
#[derive(Clone, Debug)]
pub(super) struct UpkeepSample {
    /// By the clock of the database.
    at: Timestamp,
    upkeep: DatabaseUpkeep,
    files: u64,
    bytes: u64,
}

/// Takes a sample.
pub(super) async fn sample(session: &mut PostgresSession) -> Fact<UpkeepSample> {
    match session.query(QUESTION).await {
        Ok(rows) => rows.first().and_then(read).map_or(Fact::NotAsked, Fact::Known),
        Err(error) => Fact::Unknown(session.missing(WHAT, &error)),
    }
}

/// Returns the state of the later sample, with the temporary files since the earlier one.
pub(super) fn upkeep(
    before: &Fact<UpkeepSample>,
    now: &Fact<UpkeepSample>,
) -> Fact<DatabaseUpkeep> {
    let Fact::Known(now) = now else {
        return now.missing().map_or(Fact::NotAsked, |missing| Fact::Unknown(missing.clone()));
    };
    let written = |before: &UpkeepSample| {
        Some(TemporaryFiles {
            window: now.at.since(before.at),
            files: now.files.checked_sub(before.files)?,
            bytes: now.bytes.checked_sub(before.bytes)?,
        })
    };
    let temporary_files = before.known().and_then(written);
    Fact::Known(DatabaseUpkeep { temporary_files, ..now.upkeep.clone() })
}

fn read(row: &SimpleQueryRow) -> Option<UpkeepSample> {
    let number = |name: &str| row.get(name)?.parse::<u64>().ok();
    let upkeep = DatabaseUpkeep {
        autovacuum: row.get("autovacuum") == Some("t"),
        freeze_max_age: number("freeze")?,
        oldest_database: row.get("oldest")?.to_owned(),
        oldest_age: number("age")?,
        oldest_transaction: number("transaction").map(Duration::from_secs),
        temporary_files: None,
    };
    let at = Timestamp::from_micros(number("at")?);
    Some(UpkeepSample { at, upkeep, files: number("files")?, bytes: number("bytes")? })
}
