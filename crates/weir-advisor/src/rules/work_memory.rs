//! All sessions together may use more memory for sorts and hashes than there is.

use crate::database_settings::Size;
use crate::finding::{Finding, Severity};
use crate::observation::{DatabaseHost, DatabaseObservation, Observation, PostgresSettings};
use crate::plan;
use crate::wording::{bytes, number};

pub(crate) const NAME: &str = "work-memory";

/// Unit of plain numbers.
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Postgres' default, and PgTune's minimum.
const FLOOR_BYTES: u64 = 4 * MIB;

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(postgres) = observation.postgres.known() else { return Vec::new() };
    let (Some(settings), Some(host)) = (postgres.settings.known(), postgres.host.known()) else {
        return Vec::new();
    };
    let sizes = Size::all(postgres, ("work_mem", settings.work_mem_bytes), KIB);
    let cores = observation.machine.known().map_or(1, |machine| machine.cores);
    sizes.iter().filter_map(|size| found((postgres, settings), *host, cores, size)).collect()
}

fn found(
    (postgres, settings): (&DatabaseObservation, &PostgresSettings),
    host: DatabaseHost,
    cores: u32,
    size: &Size<'_>,
) -> Option<Finding> {
    let sessions = u64::from(settings.max_connections);
    let all = size.bytes.saturating_mul(sessions);
    if size.bytes <= FLOOR_BYTES || all <= host.memory_bytes {
        return None;
    }
    let recommended = plan::work_mem(&host.machine(cores, settings.max_connections));
    let evidence = format!(
        "{} for each of {} is {}; the database may use {}",
        bytes(size.bytes),
        number(sessions, "session", "sessions"),
        bytes(all),
        bytes(host.memory_bytes)
    );
    let finding = Finding::new(NAME, Severity::Warning, size.subject(), evidence).leads_to(
        "If all sessions sort at once, memory runs out, and the kernel may kill the database.",
    );
    // Memory that others need now may leave less than the share that the value is computed from.
    Some(match recommended / MIB * MIB < size.bytes {
        true => size.change(finding, postgres, &format!("{}MB", recommended / MIB)),
        false => finding.next("weir plan"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;
    use crate::observation::{Holder, SettingException};

    #[test]
    fn what_a_role_has_instead_is_changed_for_that_role() {
        let mut observation = healthy::observation();
        let setting = |role: &str, name: &str, value: &str| SettingException {
            holder: Holder { role: Some(role.to_owned()), database: None },
            name: name.to_owned(),
            value: value.to_owned(),
        };
        observation.postgres.known_mut().exceptions.known_mut().settings = vec![
            setting("shop", "work_mem", "1048576"),
            setting("small", "work_mem", "8MB"),
            setting("odd", "work_mem", "much"),
            setting("shop", "statement_timeout", "1GB"),
        ];
        let findings = check(&observation);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].subject, "work_mem of role shop");
        let line = &findings[0].line_change().unwrap().line;
        assert_eq!(line, r#"ALTER ROLE "shop" SET work_mem = '10MB';"#);
    }

    #[test]
    fn no_less_than_postgres_ships_with_is_recommended() {
        let mut observation = healthy::observation();
        let settings = observation.postgres.known_mut().settings.known_mut();
        (settings.work_mem_bytes, settings.max_connections) = (5 * MIB, 2_000);
        assert_eq!(check(&observation).remove(0).line_change().unwrap().line, "work_mem = 4MB");
    }

    #[test]
    fn all_sessions_together_must_fit() {
        for (work_mem_mib, expected) in [(4, None), (40, None), (64, Some("work_mem = 10MB"))] {
            let mut observation = healthy::observation();
            let settings = observation.postgres.known_mut().settings.known_mut();
            settings.work_mem_bytes = work_mem_mib * MIB;
            let line = check(&observation)
                .pop()
                .map(|finding| finding.line_change().unwrap().line.clone());
            assert_eq!(line.as_deref(), expected, "{work_mem_mib}");
        }
    }

    #[test]
    fn no_larger_value_is_suggested_where_others_leave_little_memory() {
        let mut observation = healthy::observation();
        observation.postgres.known_mut().settings.known_mut().work_mem_bytes = 8 * MIB;
        observation.postgres.known_mut().host.known_mut().memory_bytes = 256 * MIB;
        let finding = check(&observation).remove(0);
        assert_eq!((finding.line_change(), finding.next_step()), (None, Some("weir plan")));
    }
}
