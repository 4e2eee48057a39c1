//! Postgres has a cache far too small, or too large, for its machine.
//!
//! Follows PgTune: a quarter of the memory for shared buffers, three quarters as
//! `effective_cache_size`. A wrong size alone does no harm; the severity depends on the share of
//! blocks that were read from outside the cache.

use crate::database_settings::{self, Size};
use crate::finding::{Finding, Severity};
use crate::observation::{DatabaseHost, DatabaseObservation, Observation, PostgresSettings};
use crate::plan::{self, postgres_size};
use crate::wording::{bytes, percent};

pub(crate) const NAME: &str = "untuned-database";

/// Below the recommended size divided by this, the setting counts as untuned.
const UNTUNED_SHARE: u64 = 4;
/// Above the memory divided by this, blocks are cached twice: here and by the kernel.
const SHARE_MAX: u64 = 2;
const SHIPPED_BYTES: u64 = 128 << 20;
/// Unit of plain numbers for settings in blocks.
const BLOCK_BYTES: u64 = 8_192;
/// Number of waiting jobs from which a slow database matters.
const BACKLOG_MIN: u64 = 1_000;
/// A healthy database finds 99 % of blocks in its cache; below 95 % it mostly waits for the disk.
const HITS_FINE: f64 = 0.99;
const HITS_BAD: f64 = 0.95;

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(postgres) = observation.postgres.known() else { return Vec::new() };
    let Some(settings) = postgres.settings.known() else { return Vec::new() };
    let host = postgres.host.known();
    let is_behind = observation.jobs.known().is_some_and(|jobs| jobs.backlog() >= BACKLOG_MIN);
    let harm = Harm::of(postgres, is_behind);
    let buffers = buffers(postgres, settings, &harm);
    let planner = host.map(|host| planner(postgres, settings, host)).unwrap_or_default();
    buffers.into_iter().chain(planner).collect()
}

fn buffers(
    postgres: &DatabaseObservation,
    settings: &PostgresSettings,
    harm: &Harm,
) -> Option<Finding> {
    match postgres.host.known() {
        Some(host) => against_machine(postgres, settings, host, harm),
        None => as_shipped(settings, harm),
    }
}

/// Reports whether this rule reports that the cache is too small.
pub(super) fn has_too_small_cache(observation: &Observation) -> bool {
    let postgres = observation.postgres.known();
    let settings = postgres.and_then(|postgres| Some((postgres, postgres.settings.known()?)));
    settings.is_some_and(|(postgres, settings)| {
        let harm = Harm::of(postgres, false);
        let found = buffers(postgres, settings, &harm);
        found.is_some_and(|finding| finding.consequence.starts_with(harm.words.as_str()))
    })
}

/// The observed effect of a cache that is too small.
struct Harm {
    severity: Severity,
    words: String,
}

impl Harm {
    fn of(postgres: &DatabaseObservation, is_behind: bool) -> Self {
        let Some(hits) = postgres.cache_hit_ratio.known() else {
            let words = "Too few blocks were requested to tell whether this does harm.";
            return Self { severity: Severity::Notice, words: words.to_owned() };
        };
        let found = format!("{:.1} % of blocks were found in it", hits * 100.0);
        let (severity, words) = if *hits >= HITS_FINE {
            (Severity::Notice, format!("It does no harm now: {found}."))
        } else {
            let severity = match is_behind && *hits < HITS_BAD {
                true => Severity::Critical,
                false => Severity::Warning,
            };
            let words = format!(
                "Only {found}: the database reads the others from the kernel or the disk, and more \
                 threads make it slower."
            );
            (severity, words)
        };
        Self { severity, words }
    }
}

fn against_machine(
    postgres: &DatabaseObservation,
    settings: &PostgresSettings,
    host: &DatabaseHost,
    harm: &Harm,
) -> Option<Finding> {
    let buffers = settings.shared_buffers_bytes;
    let right = plan::shared_buffers(&host.machine(1, settings.max_connections));
    let is_shipped = buffers <= SHIPPED_BYTES && right >= UNTUNED_SHARE * SHIPPED_BYTES;
    let is_too_small = is_shipped || buffers < right / UNTUNED_SHARE;
    let is_larger = |value: u64| !is_too_small && value >= buffers;
    let (severity, consequence) = if is_too_small {
        (harm.severity, harm.words.as_str())
    } else if buffers > host.memory_bytes / SHARE_MAX {
        (Severity::Warning, "Little is left for sessions and the kernel's cache.")
    } else {
        return None;
    };
    let share = percent(buffers as f64 / host.memory_bytes.max(1) as f64);
    let evidence = format!(
        "{} is {share} of the {} that the database may use",
        bytes(buffers),
        bytes(host.memory_bytes)
    );
    let finding = Finding::new(NAME, severity, "shared_buffers", evidence).leads_to(consequence);
    // The memory that is left now may be less than the share that the value is computed from, and a share
    // of some megabytes is rounded to none.
    if right == 0 || is_larger(right) {
        return Some(finding.next("weir plan"));
    }
    let value = postgres_size(right);
    Some(database_settings::change(finding, postgres, ("shared_buffers", &value), true))
}

fn as_shipped(settings: &PostgresSettings, harm: &Harm) -> Option<Finding> {
    (settings.shared_buffers_bytes <= SHIPPED_BYTES).then(|| {
        let evidence = "at most 128 MB, the default of Postgres, for the smallest machine";
        let consequence = format!(
            "{} Run the suggested command there to find its memory, and pass that to doctor with \
             --postgres-memory.",
            harm.words
        );
        Finding::new(NAME, harm.severity, "shared_buffers", evidence)
            .leads_to(consequence)
            .next("grep MemTotal /proc/meminfo")
    })
}

fn planner(
    postgres: &DatabaseObservation,
    settings: &PostgresSettings,
    host: &DatabaseHost,
) -> Vec<Finding> {
    let memory = host.memory_bytes.max(host.share_bytes);
    let recommended = plan::effective_cache_size(&host.machine(1, settings.max_connections));
    // A share of some megabytes is rounded to none.
    if recommended == 0 {
        return Vec::new();
    }
    // Values from half of the recommendation up to all memory are accepted.
    let right = recommended / 2..=memory;
    let seen = ("effective_cache_size", settings.effective_cache_size_bytes);
    let sizes = Size::all(postgres, seen, BLOCK_BYTES).into_iter();
    let found = |size: Size<'_>| {
        let evidence = format!("{} for a machine with {}", bytes(size.bytes), bytes(memory));
        let finding = Finding::new(NAME, Severity::Notice, size.subject(), evidence)
            .leads_to("The planner misestimates the cost of an index.");
        size.change(finding, postgres, &postgres_size(recommended))
    };
    sizes.filter(|size| !right.contains(&size.bytes)).map(found).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;
    use crate::observation::Fact;

    fn with(buffers_mib: u64, memory_gib: u64) -> Observation {
        let mut observation = healthy::observation();
        let postgres = observation.postgres.known_mut();
        postgres.settings.known_mut().shared_buffers_bytes = buffers_mib << 20;
        postgres.settings.known_mut().effective_cache_size_bytes = (memory_gib << 30) / 4 * 3;
        let bytes = memory_gib << 30;
        let host = DatabaseHost { memory_bytes: bytes, share_bytes: bytes, is_said: true };
        postgres.host = Fact::Known(host);
        observation
    }

    #[test]
    fn stock_buffers_on_a_big_machine_name_the_line() {
        let finding = check(&with(128, 8)).remove(0);
        let change = finding.line_change().cloned().unwrap();
        assert_eq!((change.line.as_str(), change.restart), ("shared_buffers = 2GB", true));
    }

    #[test]
    fn how_bad_they_are_is_what_was_measured_and_not_their_size() {
        for (hits, length, expected) in [
            (Some(1.0), 200_000, Severity::Notice),
            (Some(0.99), 200_000, Severity::Notice),
            (None, 200_000, Severity::Notice),
            (Some(0.97), 200_000, Severity::Warning),
            (Some(0.7), 900, Severity::Warning),
            (Some(0.7), 1_000, Severity::Critical),
        ] {
            let mut observation = with(128, 8);
            observation.jobs.known_mut().queue_mut("push").length = length;
            observation.postgres.known_mut().cache_hit_ratio =
                hits.map_or(Fact::NotAsked, Fact::Known);
            assert_eq!(check(&observation)[0].severity, expected, "{hits:?} {length}");
        }
    }

    #[test]
    fn the_value_is_that_of_a_plan_and_the_same_at_every_look() {
        // A machine with 23.5 GB, where the memory that other processes leave varies slightly.
        let total = 23_500_000 * 1_024;
        let share_bytes = plan::postgres_share(total);
        let lines: std::collections::BTreeSet<String> = [21_272, 21_080, 20_824]
            .into_iter()
            .map(|left_mib: u64| {
                let mut observation = with(128, 8);
                let memory_bytes = left_mib << 20;
                let host = DatabaseHost { memory_bytes, share_bytes, is_said: false };
                observation.postgres.known_mut().host = Fact::Known(host);
                check(&observation).remove(0).line_change().unwrap().line.clone()
            })
            .collect();
        let machine = plan::PostgresMachine {
            memory_bytes: plan::postgres_share(total),
            cores: 4,
            connections: 200,
            workload: plan::DatabaseWorkload::Oltp,
            storage: plan::Storage::Ssd,
        };
        let planned = plan::postgres_settings(&machine);
        let planned = planned.iter().find(|it| it.name == "shared_buffers").unwrap();
        assert_eq!(lines, [format!("shared_buffers = {}", planned.value)].into());
        assert_eq!(planned.value, "1536MB");
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
        let next = check(&observation).remove(0).next_step().map(str::to_owned);
        assert_eq!(next.as_deref(), Some("grep MemTotal /proc/meminfo"));
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
        assert_eq!(finding.line_change().unwrap().line, "effective_cache_size = 6GB");
    }

    #[test]
    fn a_cache_that_is_too_large_is_not_to_become_larger() {
        let mut observation = healthy::observation();
        let host = observation.postgres.known_mut().host.known_mut();
        // Others leave 3 GB of the 8 GB that the value is computed from.
        host.memory_bytes = 3 << 30;
        let finding = check(&observation).remove(0);
        assert_eq!(finding.consequence, "Little is left for sessions and the kernel's cache.");
        assert_eq!((finding.line_change(), finding.next_step()), (None, Some("weir plan")));
    }
}
