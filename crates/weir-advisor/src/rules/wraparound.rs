//! Transaction IDs are so old that a wraparound comes closer.

use crate::finding::{Finding, Severity};
use crate::observation::{DatabaseUpkeep, Observation};
use crate::wording::count;

pub(crate) const NAME: &str = "wraparound";

/// Autovacuum begins at `autovacuum_freeze_max_age`, and should have ended long before twice that.
const FACTOR: u64 = 2;
/// Whatever `autovacuum_freeze_max_age` is: more than half of all transaction IDs.
const WARNING_AGE: u64 = 1_200_000_000;
/// From this age, vacuum leaves out everything else (`vacuum_failsafe_age`).
const CRITICAL_AGE: u64 = 1_600_000_000;
/// Three million before this, Postgres assigns no more transaction IDs.
const LAST_AGE: u64 = 2_147_483_647;

/// Shows the tables that keep the age.
const TABLES: &str = "SELECT c.oid::regclass AS table, age(c.relfrozenxid) AS age, \
                      pg_size_pretty(pg_table_size(c.oid)) AS size FROM pg_class c WHERE c.relkind IN \
                      ('r', 't', 'm') ORDER BY 2 DESC LIMIT 5";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let upkeep = observation.postgres.known().and_then(|it| it.upkeep.known());
    upkeep.and_then(|upkeep| found(observation, upkeep)).into_iter().collect()
}

fn found(observation: &Observation, upkeep: &DatabaseUpkeep) -> Option<Finding> {
    let from = upkeep.freeze_max_age.saturating_mul(FACTOR).min(WARNING_AGE);
    let age = upkeep.oldest_age;
    if upkeep.freeze_max_age == 0 || age < from {
        return None;
    }
    let severity = if age >= CRITICAL_AGE { Severity::Critical } else { Severity::Warning };
    let evidence = format!(
        "the oldest transaction IDs of database {} are {} old; autovacuum begins at {}, and Postgres \
         stops at {}",
        upkeep.oldest_database,
        count(age),
        count(upkeep.freeze_max_age),
        count(LAST_AGE)
    );
    let off = if upkeep.autovacuum { "" } else { " Autovacuum is off." };
    let finding = Finding::new(NAME, severity, "transaction IDs of Postgres", evidence);
    Some(
        finding
            .leads_to(format!(
                "At the end, the database rejects every write until it is vacuumed.{off} Autovacuum does \
                 not get to the end, or something keeps it: a transaction that is open for days, a prepared \
                 transaction, or a replication slot. The command shows the oldest tables of the database that \
                 doctor is connected to: VACUUM (FREEZE, VERBOSE) of each makes it young."
            ))
            .next(observation.psql(TABLES)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    fn severity(age: u64, freeze: u64) -> Option<Severity> {
        let mut observation = healthy::observation();
        let upkeep = observation.postgres.known_mut().upkeep.known_mut();
        (upkeep.oldest_age, upkeep.freeze_max_age) = (age, freeze);
        check(&observation).first().map(|it| it.severity)
    }

    #[test]
    fn an_age_that_autovacuum_should_have_ended_is_found() {
        assert_eq!(severity(399_999_999, 200_000_000), None);
        assert_eq!(severity(400_000_000, 200_000_000), Some(Severity::Warning));
        assert_eq!(severity(1_199_999_999, 1_500_000_000), None, "autovacuum is to begin later");
        assert_eq!(severity(1_200_000_000, 1_500_000_000), Some(Severity::Warning));
        assert_eq!(severity(1_600_000_000, 200_000_000), Some(Severity::Critical));
    }
}
