//! Reads tables that are read sequentially or have dead rows, and what was read of them between two
//! samples.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio_postgres::SimpleQueryRow;
use weir_advisor::observation::{Fact, TableReads, TableStatistics};
use weir_base::clock::Timestamp;

use super::session::PostgresSession;

const WHAT: &str = "Postgres' statistics of tables";
/// Tables with the most rows that were read sequentially or are dead.
const TABLES_MAX: u32 = 200;
/// Tables with fewer such rows since the last reset of the statistics cost nothing.
const ROWS_MIN: u32 = 1_000;

/// Every role may read all of it. `relpages` is of the last vacuum or analyze: `pg_relation_size`
/// would wait for a lock on the table.
const QUESTION: &str = "SELECT s.schemaname, s.relname, s.n_live_tup AS live, s.n_dead_tup AS dead, \
    greatest(c.relpages, 0)::bigint * current_setting('block_size')::bigint AS bytes, \
    NOT EXISTS (SELECT FROM unnest(c.reloptions) AS option \
    WHERE option ~* '^autovacuum_enabled=(off|of|false|fals|fal|fa|f|no|n|0)$') AS autovacuum, \
    extract(epoch FROM clock_timestamp() - greatest(s.last_vacuum, s.last_autovacuum))::bigint AS vacuumed, \
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS at, \
    s.seq_scan AS scans, s.seq_tup_read AS rows, coalesce(s.idx_scan, 0) AS index_scans \
    FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid \
    WHERE s.n_dead_tup >= $MIN OR s.seq_tup_read >= $MIN \
    ORDER BY s.seq_tup_read + s.n_dead_tup DESC LIMIT $MAX";

/// A sample of the counters.
#[derive(Clone, Debug)]
pub(super) struct TableCounters {
    /// By the clock of the database.
    at: Timestamp,
    tables: BTreeMap<String, (TableStatistics, Counters)>,
}

#[derive(Clone, Copy, Debug)]
struct Counters {
    scans: u64,
    rows: u64,
    index_scans: u64,
}

/// Takes a sample.
pub(super) async fn counters(session: &mut PostgresSession) -> Fact<TableCounters> {
    let question = QUESTION.replace("$MIN", &ROWS_MIN.to_string());
    match session.query(&question.replace("$MAX", &TABLES_MAX.to_string())).await {
        Ok(rows) => {
            let at = rows.first().and_then(|row| row.get("at")?.parse().ok()).unwrap_or_default();
            let (at, tables) =
                (Timestamp::from_micros(at), rows.iter().filter_map(table).collect());
            Fact::Known(TableCounters { at, tables })
        }
        Err(error) => Fact::Unknown(session.missing(WHAT, &error)),
    }
}

/// Returns the tables of the later sample, with what was read since the earlier one.
pub(super) fn tables(
    before: &Fact<TableCounters>,
    now: &Fact<TableCounters>,
) -> Fact<Vec<TableStatistics>> {
    let Fact::Known(now) = now else {
        return now.missing().map_or(Fact::NotAsked, |missing| Fact::Unknown(missing.clone()));
    };
    let before = before.known();
    let table = |(name, (table, counters)): (&String, &(TableStatistics, Counters))| {
        let lately = before.and_then(|before| {
            let (_, earlier) = before.tables.get(name)?;
            reads(earlier, counters, now.at.since(before.at))
        });
        TableStatistics { lately, ..table.clone() }
    };
    Fact::Known(now.tables.iter().map(table).collect())
}

/// Returns `None` if the statistics were reset meanwhile.
fn reads(before: &Counters, now: &Counters, window: Duration) -> Option<TableReads> {
    Some(TableReads {
        window,
        sequential_scans: now.scans.checked_sub(before.scans)?,
        sequential_rows: now.rows.checked_sub(before.rows)?,
        index_scans: now.index_scans.checked_sub(before.index_scans)?,
    })
}

fn table(row: &SimpleQueryRow) -> Option<(String, (TableStatistics, Counters))> {
    let number = |name: &str| row.get(name)?.parse::<u64>().ok();
    let name = match row.get("schemaname")? {
        "public" => row.get("relname")?.to_owned(),
        schema => format!("{schema}.{}", row.get("relname")?),
    };
    let table = TableStatistics {
        name: name.clone(),
        bytes: number("bytes")?,
        live_rows: number("live")?,
        dead_rows: number("dead")?,
        autovacuum: row.get("autovacuum") == Some("t"),
        // A clock that was set back makes it negative.
        vacuumed_before: number("vacuumed").map(Duration::from_secs),
        lately: None,
    };
    let counters = Counters {
        scans: number("scans")?,
        rows: number("rows")?,
        index_scans: number("index_scans")?,
    };
    Some((name, (table, counters)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_of_the_statistics_shows_no_reads() {
        let counters = |scans, rows| Counters { scans, rows, index_scans: 5 };
        let window = Duration::from_secs(10);
        let seen = reads(&counters(10, 1_000), &counters(12, 9_000), window).unwrap();
        assert_eq!((seen.sequential_scans, seen.sequential_rows, seen.index_scans), (2, 8_000, 0));
        assert_eq!(reads(&counters(10, 1_000), &counters(2, 9_000), window), None);
    }
}
