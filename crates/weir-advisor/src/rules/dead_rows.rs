//! Dead rows stay in a table, because autovacuum is off or an old transaction may still see them.

use std::time::Duration;

use crate::database_settings;
use crate::finding::{Finding, Severity};
use crate::observation::{DatabaseObservation, DatabaseUpkeep, Observation, TableStatistics};
use crate::sql;
use crate::wording::{self, bytes, count, percent};

pub(crate) const NAME: &str = "dead-rows";

/// Autovacuum begins at a fifth of the rows, and small tables cost nothing.
const SHARE_MIN: f64 = 0.2;
const ROWS_MIN: u64 = 10_000;
/// As many dead rows as live ones: autovacuum does not keep up, or may not remove them.
const SHARE_HELD: f64 = 1.0;
const ROWS_HELD_MIN: u64 = 100_000;
/// Transactions of jobs and requests end sooner.
const OLD_TRANSACTION: Duration = Duration::from_secs(1_800);
/// Tables that are named, those with the most dead rows first.
const NAMED_MAX: usize = 3;

/// Shows who may still see dead rows.
const HOLDERS: &str = "SELECT pid, usename, application_name, state, now() - xact_start AS open, \
                       left(query, 100) AS query FROM pg_stat_activity WHERE backend_xmin IS NOT NULL \
                       ORDER BY xact_start LIMIT 5";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(postgres) = observation.postgres.known() else { return Vec::new() };
    let (Some(tables), Some(upkeep)) = (postgres.tables.known(), postgres.upkeep.known()) else {
        return Vec::new();
    };
    let mut tables: Vec<&TableStatistics> = tables.iter().collect();
    tables.sort_by_key(|table| std::cmp::Reverse(table.dead_rows));
    let found = |table: &&TableStatistics| found(observation, postgres, upkeep, table);
    tables.iter().filter_map(found).take(NAMED_MAX).collect()
}

fn found(
    observation: &Observation,
    postgres: &DatabaseObservation,
    upkeep: &DatabaseUpkeep,
    table: &TableStatistics,
) -> Option<Finding> {
    let share = table.dead_rows as f64 / table.live_rows.max(1) as f64;
    let is_off = !upkeep.autovacuum || !table.autovacuum;
    if is_off && table.dead_rows >= ROWS_MIN && share >= SHARE_MIN {
        return Some(off(postgres, upkeep, table));
    }
    let oldest = upkeep.oldest_transaction.filter(|age| *age >= OLD_TRANSACTION)?;
    let is_held = table.dead_rows >= ROWS_HELD_MIN && share >= SHARE_HELD;
    is_held.then(|| held(observation, table, oldest))
}

/// Reports a table that nothing vacuums, with the line that turns autovacuum on.
fn off(
    postgres: &DatabaseObservation,
    upkeep: &DatabaseUpkeep,
    table: &TableStatistics,
) -> Finding {
    let (what, whose) = match table.autovacuum {
        true => ("autovacuum is off", "Postgres"),
        false => ("autovacuum is off for it (autovacuum_enabled)", "it"),
    };
    let evidence = format!("{}; {what}", evidence(table));
    let finding = Finding::new(NAME, Severity::Warning, format!("table {}", table.name), evidence);
    let finding = finding.leads_to(format!(
        "The table and its indexes grow, each scan reads the dead rows as well, and the planner's \
         statistics age: statements become slower and slower. The line turns autovacuum on for {whose}; \
         its first run may take a while. VACUUM removes the rows at once and locks nothing; the file does \
         not become smaller, but its space is used again."
    ));
    match (table.autovacuum, upkeep.autovacuum) {
        (false, _) => {
            let line =
                format!("ALTER TABLE {} RESET (autovacuum_enabled);", qualified(&table.name));
            finding.change("psql, as a superuser or the owner of the table", line)
        }
        (true, _) => database_settings::change(finding, postgres, ("autovacuum", "on"), false),
    }
}

/// Reports a table whose dead rows an old transaction keeps.
fn held(observation: &Observation, table: &TableStatistics, oldest: Duration) -> Finding {
    let age = wording::duration(oldest);
    let evidence = format!("{}; a transaction has been open for {age}", evidence(table));
    Finding::new(NAME, Severity::Notice, format!("table {}", table.name), evidence)
        .leads_to(
            "No vacuum removes rows that an open transaction may still see. Statements on the table become \
             slower until it ends. The command shows the oldest ones.",
        )
        .next(observation.psql(HOLDERS))
}

fn evidence(table: &TableStatistics) -> String {
    let size = if table.bytes > 0 { format!(" in {}", bytes(table.bytes)) } else { String::new() };
    let vacuumed = match table.vacuumed_before {
        Some(before) => format!("last vacuum {} ago", wording::duration(before)),
        None => "never vacuumed".to_owned(),
    };
    format!(
        "{} dead rows, {} of its {} live ones{size}; {vacuumed}",
        count(table.dead_rows),
        percent(table.dead_rows as f64 / table.live_rows.max(1) as f64),
        count(table.live_rows)
    )
}

/// Quotes a name with its schema, if it has one.
fn qualified(name: &str) -> String {
    match name.split_once('.') {
        Some((schema, table)) => format!("{}.{}", sql::identifier(schema), sql::identifier(table)),
        None => sql::identifier(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    fn with(change: impl FnOnce(&mut TableStatistics, &mut DatabaseUpkeep)) -> Option<Finding> {
        let mut observation = healthy::observation();
        let postgres = observation.postgres.known_mut();
        let table = &mut postgres.tables.known_mut()[0];
        (table.live_rows, table.dead_rows) = (100_000, 20_000);
        change(table, postgres.upkeep.known_mut());
        check(&observation).pop()
    }

    #[test]
    fn dead_rows_matter_where_nothing_removes_them() {
        assert_eq!(with(|_, _| {}), None, "autovacuum does");
        let finding = with(|table, _| table.autovacuum = false).unwrap();
        let expected = "20,000 dead rows, 20 % of its 100,000 live ones in 4 GB; last vacuum 2 h ago; \
                        autovacuum is off for it (autovacuum_enabled)";
        assert_eq!(finding.evidence, expected);
        let line = "ALTER TABLE \"statuses\" RESET (autovacuum_enabled);";
        assert_eq!(finding.line_change().unwrap().line, line);
        let finding = with(|_, upkeep| upkeep.autovacuum = false).unwrap();
        assert_eq!(finding.line_change().unwrap().line, "autovacuum = on");
        let few = with(|table, _| {
            (table.autovacuum, table.dead_rows) = (false, 9_999);
        });
        assert_eq!(few, None);
    }

    #[test]
    fn an_old_transaction_keeps_them_whatever_autovacuum_does() {
        let held = |dead, seconds| {
            with(|table, upkeep| {
                table.dead_rows = dead;
                upkeep.oldest_transaction = Some(Duration::from_secs(seconds));
            })
        };
        let finding = held(100_000, 7_200).unwrap();
        assert!(finding.evidence.ends_with("; a transaction has been open for 2 h"));
        assert_eq!(finding.severity, Severity::Notice);
        assert_eq!(held(99_999, 7_200), None);
        assert_eq!(held(100_000, 60), None);
    }

    #[test]
    fn a_table_is_named_with_its_schema() {
        assert_eq!(qualified("audit.ev\"ents"), "\"audit\".\"ev\"\"ents\"");
    }
}
