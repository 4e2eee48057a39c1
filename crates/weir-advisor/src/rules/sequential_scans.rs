//! The database reads a large table from end to end, again and again.

use crate::finding::{Finding, Severity};
use crate::observation::{Observation, TableReads, TableStatistics};
use crate::sql;
use crate::wording::{self, bytes, count, number};

pub(crate) const NAME: &str = "sequential-scans";

/// Reading a smaller table takes a millisecond or two, with an index or without.
const ROWS_PER_SCAN_MIN: f64 = 10_000.0;
/// A report reads a table once, by several processes.
const SCANS_MIN: u64 = 10;
/// About a tenth of a core.
const ROWS_PER_SECOND_MIN: f64 = 200_000.0;
/// About half a core.
const ROWS_PER_SECOND_WARNING: f64 = 1_000_000.0;
/// Tables that are named, those with the most rows first.
const NAMED_MAX: usize = 3;

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let postgres = observation.postgres.known();
    let tables = postgres.and_then(|it| it.tables.known()).map(Vec::as_slice).unwrap_or_default();
    let mut scanned: Vec<_> = tables.iter().filter_map(|it| Some((it, often(it)?))).collect();
    scanned.sort_by_key(|(_, reads)| std::cmp::Reverse(reads.sequential_rows));
    scanned.truncate(NAMED_MAX);
    scanned.into_iter().map(|(table, reads)| found(observation, table, reads)).collect()
}

/// Returns the reads of a table that is often read from end to end.
fn often(table: &TableStatistics) -> Option<TableReads> {
    let reads = table.lately?;
    let seconds = reads.window.as_secs_f64();
    let rows = reads.sequential_rows as f64;
    let is_often = seconds > 0.0
        && reads.sequential_scans >= SCANS_MIN
        && rows >= ROWS_PER_SCAN_MIN * reads.sequential_scans as f64
        && rows >= ROWS_PER_SECOND_MIN * seconds;
    is_often.then_some(reads)
}

fn found(observation: &Observation, table: &TableStatistics, reads: TableReads) -> Finding {
    let seconds = reads.window.as_secs_f64();
    let rows_per_second = reads.sequential_rows as f64 / seconds;
    let severity = match rows_per_second >= ROWS_PER_SECOND_WARNING {
        true => Severity::Warning,
        false => Severity::Notice,
    };
    let size = if table.bytes > 0 { format!(" ({})", bytes(table.bytes)) } else { String::new() };
    let millis = u64::try_from(reads.window.as_millis()).unwrap_or(u64::MAX).max(1);
    let evidence = format!(
        "{} sequential scans in {} read {} each{size}, {} rows/s; {}",
        count(reads.sequential_scans),
        wording::duration(reads.window),
        number(reads.sequential_rows / reads.sequential_scans.max(1), "row", "rows"),
        count(reads.sequential_rows.saturating_mul(1_000) / millis),
        match reads.index_scans {
            0 => "no index of it was used".to_owned(),
            scans => format!("its indexes were used {} times", count(scans)),
        }
    );
    let subject = format!("table {}", table.name);
    Finding::new(NAME, severity, subject, evidence)
        .leads_to(
            "An index is most likely missing: on the columns by which the statements select rows, unless \
             they need most rows of the table. The command shows statements that run on it now; EXPLAIN \
             says which condition filters them, and CREATE INDEX CONCURRENTLY adds an index without \
             locking the table.",
        )
        .next(observation.psql(&statements(&table.name)))
}

/// Selects the statements in progress that name the table.
fn statements(table: &str) -> String {
    let name = table.rsplit('.').next().unwrap_or(table);
    let pattern = sql::literal(&format!("%{name}%"));
    format!(
        "SELECT pid, now() - query_start AS took, left(query, 300) AS query FROM pg_stat_activity WHERE \
         state = 'active' AND pid <> pg_backend_pid() AND query ILIKE {pattern} ORDER BY 2 DESC LIMIT 5"
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::healthy;

    fn with(scans: u64, rows: u64) -> Option<Finding> {
        let mut observation = healthy::observation();
        let table = &mut observation.postgres.known_mut().tables.known_mut()[0];
        table.name = "orders".to_owned();
        let window = Duration::from_secs(10);
        let (sequential_scans, sequential_rows, index_scans) = (scans, rows, 0);
        table.lately = Some(TableReads { window, sequential_scans, sequential_rows, index_scans });
        check(&observation).pop()
    }

    #[test]
    fn large_tables_that_are_read_again_and_again_are_found() {
        for (scans, rows, severity) in [
            (100, 20_000_000, Some(Severity::Warning)),
            (20, 3_000_000, Some(Severity::Notice)),
            (9, 90_000_000, None),
            (2_000, 19_000_000, None),
            (20, 1_900_000, None),
        ] {
            assert_eq!(with(scans, rows).map(|it| it.severity), severity, "{scans} {rows}");
        }
        let finding = with(100, 20_000_000).unwrap();
        let expected = "100 sequential scans in 10 s read 200,000 rows each (4 GB), 2,000,000 rows/s; no \
                        index of it was used";
        assert_eq!(
            (finding.subject.as_str(), finding.evidence.as_str()),
            ("table orders", expected)
        );
        assert!(finding.next_step().unwrap().contains("ILIKE '%orders%'"));
    }

    #[test]
    fn a_name_cannot_leave_the_statement() {
        assert!(statements("a'; $(b)").contains("ILIKE '%a''; $(b)%' ORDER"));
    }
}
