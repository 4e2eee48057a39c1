//! Postgres with the memory it ships with.
//!
//! Source of the rule: PgTune (a quarter of the memory for shared buffers, three quarters for what
//! the planner takes to be cached). Below a sixteenth, which PgTune gives on a desktop, nobody has
//! tuned.

use crate::database_settings::{self, Size};
use crate::finding::{Finding, Severity};
use crate::observation::{Observation, Postgres, PostgresSettings};
use crate::wording::{bytes, percent};

pub(crate) const NAME: &str = "untuned-database";

const UNTUNED_SHARE: u64 = 16;
const RECOMMENDED_SHARE: u64 = 4;
/// Beyond half, blocks are kept twice: here and in the kernel's cache.
const SHARE_MAX: u64 = 2;
const SHIPPED_BYTES: u64 = 128 << 20;
const MIB: u64 = 1 << 20;
/// What a number without a unit counts where Postgres counts blocks.
const BLOCK_BYTES: u64 = 8_192;
/// Jobs that wait, from which on the database's slowness is felt.
const BACKLOG_MIN: u64 = 1_000;

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(postgres) = observation.postgres.known() else { return Vec::new() };
    let Some(settings) = postgres.settings.known() else { return Vec::new() };
    let memory = postgres.host.known().map(|host| host.memory_bytes);
    let behind = observation.jobs.known().is_some_and(|jobs| jobs.backlog() >= BACKLOG_MIN);
    let severity = if behind { Severity::Critical } else { Severity::Warning };
    let buffers = match memory {
        Some(memory) => against_machine(postgres, settings, memory, severity),
        None => as_shipped(settings, severity),
    };
    let planner = memory.map(|memory| planner(postgres, settings, memory)).unwrap_or_default();
    buffers.into_iter().chain(planner).collect()
}

fn against_machine(
    postgres: &Postgres,
    settings: &PostgresSettings,
    memory: u64,
    severity: Severity,
) -> Option<Finding> {
    let buffers = settings.shared_buffers_bytes;
    let (severity, consequence) = if buffers < memory / UNTUNED_SHARE {
        (severity, "The database reads from disk what it could keep; more threads make it slower.")
    } else if buffers > memory / SHARE_MAX {
        (Severity::Warning, "Little is left for sessions and the kernel's cache.")
    } else {
        return None;
    };
    let share = percent(buffers as f64 / memory as f64);
    let evidence =
        format!("{} is {share} of the {} that the database may use", bytes(buffers), bytes(memory));
    let finding = Finding::new(NAME, severity, "shared_buffers", evidence).leads_to(consequence);
    let value = format!("{}MB", memory / RECOMMENDED_SHARE / MIB);
    Some(database_settings::change(finding, postgres, ("shared_buffers", &value), true))
}

fn as_shipped(settings: &PostgresSettings, severity: Severity) -> Option<Finding> {
    (settings.shared_buffers_bytes <= SHIPPED_BYTES).then(|| {
        let evidence = "128 MB or less, what Postgres ships with for the smallest machine";
        let consequence = "On a larger machine the database reads from disk what it could keep.";
        Finding::new(NAME, severity, "shared_buffers", evidence)
            .leads_to(consequence)
            .next("weir doctor --postgres-memory SIZE")
    })
}

fn planner(postgres: &Postgres, settings: &PostgresSettings, memory: u64) -> Vec<Finding> {
    // Half of the recommendation, or more than there is.
    let right = memory / 8 * 3..=memory;
    let seen = ("effective_cache_size", settings.effective_cache_size_bytes);
    let sizes = Size::all(postgres, seen, BLOCK_BYTES).into_iter();
    let found = |size: Size<'_>| {
        let evidence = format!("{} for a machine with {}", bytes(size.bytes), bytes(memory));
        let value = format!("{}MB", memory / 4 * 3 / MIB);
        let finding = Finding::new(NAME, Severity::Notice, size.subject(), evidence)
            .leads_to("The planner misjudges what an index costs.");
        size.change(finding, postgres, &value)
    };
    sizes.filter(|size| !right.contains(&size.bytes)).map(found).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;
    use crate::observation::{DatabaseHost, Fact};

    fn with(buffers_mib: u64, memory_gib: u64) -> Observation {
        let mut observation = healthy::observation();
        let postgres = observation.postgres.known_mut();
        postgres.settings.known_mut().shared_buffers_bytes = buffers_mib << 20;
        postgres.settings.known_mut().effective_cache_size_bytes = (memory_gib << 30) / 4 * 3;
        postgres.host = Fact::Known(DatabaseHost { memory_bytes: memory_gib << 30, is_said: true });
        observation
    }

    #[test]
    fn stock_buffers_on_a_big_machine_name_the_line() {
        let finding = check(&with(128, 8)).remove(0);
        assert_eq!(finding.severity, Severity::Warning);
        let change = finding.change.unwrap();
        assert_eq!((change.line.as_str(), change.restart), ("shared_buffers = 2048MB", true));
    }

    #[test]
    fn they_are_critical_while_jobs_are_behind() {
        let mut observation = with(128, 8);
        for (length, severity) in [(900, Severity::Warning), (1_000, Severity::Critical)] {
            observation.jobs.known_mut().queue_mut("push").length = length;
            assert_eq!(check(&observation)[0].severity, severity, "{length}");
        }
    }

    #[test]
    fn what_fits_the_machine_is_fine() {
        for (buffers_mib, memory_gib) in [(2_048, 8), (512, 8), (128, 1), (4_096, 8)] {
            assert_eq!(check(&with(buffers_mib, memory_gib)), [], "{buffers_mib} {memory_gib}");
        }
        assert_eq!(check(&with(5_000, 8)).len(), 1);
        assert_eq!(check(&with(500, 8)).len(), 1);
    }

    #[test]
    fn without_the_machine_only_the_shipped_value_is_suspicious() {
        let mut observation = with(128, 8);
        observation.postgres.known_mut().host = Fact::NotAsked;
        let next = check(&observation).remove(0).next;
        assert_eq!(next.as_deref(), Some("weir doctor --postgres-memory SIZE"));
        observation.postgres.known_mut().settings.known_mut().shared_buffers_bytes = 256 << 20;
        assert_eq!(check(&observation), []);
    }

    #[test]
    fn the_planner_is_told_of_the_cache() {
        let mut observation = with(2_048, 8);
        let settings = observation.postgres.known_mut().settings.known_mut();
        settings.effective_cache_size_bytes = 1 << 30;
        let finding = check(&observation).remove(0);
        assert_eq!(finding.severity, Severity::Notice);
        assert_eq!(finding.change.unwrap().line, "effective_cache_size = 6144MB");
    }
}
