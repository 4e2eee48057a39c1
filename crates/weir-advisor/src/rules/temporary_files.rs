//! Statements sort or hash on disk, because `work_mem` is too small for them.

use crate::finding::{Finding, Severity};
use crate::observation::{Observation, TemporaryFiles};
use crate::wording::{bytes, number};

pub(crate) const NAME: &str = "temporary-files";

/// A report sorts on disk once in a while.
const FILES_MIN: u64 = 3;
const BYTES_PER_SECOND_MIN: f64 = 1e6;
/// So much per second keeps a disk of a small machine busy.
const BYTES_PER_SECOND_WARNING: f64 = 20e6;

/// Shows statements that read or write temporary files now, and how many bytes the database has
/// written.
const STATEMENTS: &str = "SELECT pid, application_name, now() - query_start AS took, wait_event, \
                          left(query, 300) AS query FROM pg_stat_activity WHERE state = 'active' AND \
                          pid <> pg_backend_pid() ORDER BY wait_event LIKE 'BufFile%' DESC, query_start LIMIT 5";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let upkeep = observation.postgres.known().and_then(|it| it.upkeep.known());
    let files = upkeep.and_then(|it| it.temporary_files);
    files.and_then(|files| found(observation, files)).into_iter().collect()
}

fn found(observation: &Observation, files: TemporaryFiles) -> Option<Finding> {
    let seconds = files.window.as_secs_f64();
    let per_second = files.bytes as f64 / seconds.max(f64::MIN_POSITIVE);
    if seconds <= 0.0 || files.files < FILES_MIN || per_second < BYTES_PER_SECOND_MIN {
        return None;
    }
    let severity = match per_second >= BYTES_PER_SECOND_WARNING {
        true => Severity::Warning,
        false => Severity::Notice,
    };
    let settings = observation.postgres.known().and_then(|it| it.settings.known());
    let work_mem = settings.map(|it| format!("; work_mem is {}", bytes(it.work_mem_bytes)));
    let evidence = format!(
        "{} with {} were written in {}, {} each on average{}",
        number(files.files, "temporary file", "temporary files"),
        bytes(files.bytes),
        crate::wording::duration(files.window),
        bytes(files.bytes / files.files),
        work_mem.unwrap_or_default()
    );
    let finding = Finding::new(NAME, severity, "temporary files of Postgres", evidence);
    Some(
        finding
            .leads_to(
                "Sorts and hashes that do not fit into work_mem go to disk, which is slower and takes its \
                 bandwidth from all other statements. The command shows statements in progress: an index \
                 or a LIMIT often ends such a sort. If it is needed, raise work_mem for the role that runs \
                 it (ALTER ROLE .. SET work_mem), not for all: each sort of each session may take so much.",
            )
            .next(observation.psql(STATEMENTS)),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::healthy;

    fn with(files: u64, bytes: u64) -> Option<Finding> {
        let mut observation = healthy::observation();
        let window = Duration::from_secs(10);
        observation.postgres.known_mut().upkeep.known_mut().temporary_files =
            Some(TemporaryFiles { window, files, bytes });
        check(&observation).pop()
    }

    #[test]
    fn what_goes_to_disk_all_the_time_is_found() {
        for (files, bytes, severity) in [
            (40, 400 << 20, Some(Severity::Warning)),
            (3, 12 << 20, Some(Severity::Notice)),
            (2, 900 << 20, None),
            (40, 9_000_000, None),
        ] {
            assert_eq!(with(files, bytes).map(|it| it.severity), severity, "{files} {bytes}");
        }
        let expected = "40 temporary files with 400 MB were written in 10 s, 10 MB each on average; \
                        work_mem is 10 MB";
        assert_eq!(with(40, 400 << 20).unwrap().evidence, expected);
    }
}
