//! Memory that all sessions together may take for sorts and hashes.

use crate::database_settings;
use crate::finding::{Finding, Severity};
use crate::observation::Observation;
use crate::wording::bytes;

pub(crate) const NAME: &str = "work-memory";

const MIB: u64 = 1 << 20;
/// What Postgres ships with, and PgTune's floor.
const FLOOR_BYTES: u64 = 4 * MIB;
/// Statements of an application hold some sorts or hashes at once, as PgTune reckons.
const PER_SESSION: u64 = 3;

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(postgres) = observation.postgres.known() else { return Vec::new() };
    let (Some(settings), Some(host)) = (postgres.settings.known(), postgres.host.known()) else {
        return Vec::new();
    };
    let sessions = u64::from(settings.max_connections);
    let all = settings.work_mem_bytes.saturating_mul(sessions);
    if settings.work_mem_bytes <= FLOOR_BYTES || all <= host.memory_bytes {
        return Vec::new();
    }
    let left = host.memory_bytes.saturating_sub(settings.shared_buffers_bytes);
    let recommended = (left / (sessions * PER_SESSION).max(1)).max(FLOOR_BYTES);
    let evidence = format!(
        "{} for each of {sessions} sessions is {}, the database may use {}",
        bytes(settings.work_mem_bytes),
        bytes(all),
        bytes(host.memory_bytes)
    );
    let finding = Finding::new(NAME, Severity::Warning, "work_mem", evidence)
        .leads_to("Under load the kernel ends the database for want of memory.");
    let value = format!("{}MB", recommended / MIB);
    vec![database_settings::change(finding, postgres, ("work_mem", &value), false)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    #[test]
    fn no_less_than_postgres_ships_with_is_recommended() {
        let mut observation = healthy::observation();
        let settings = observation.postgres.known_mut().settings.known_mut();
        (settings.work_mem_bytes, settings.max_connections) = (5 * MIB, 2_000);
        assert_eq!(check(&observation).remove(0).change.unwrap().line, "work_mem = 4MB");
    }

    #[test]
    fn all_sessions_together_must_fit() {
        for (work_mem_mib, expected) in [(4, None), (40, None), (64, Some("work_mem = 10MB"))] {
            let mut observation = healthy::observation();
            let settings = observation.postgres.known_mut().settings.known_mut();
            settings.work_mem_bytes = work_mem_mib * MIB;
            let line = check(&observation).pop().map(|finding| finding.change.unwrap().line);
            assert_eq!(line.as_deref(), expected, "{work_mem_mib}");
        }
    }
}
