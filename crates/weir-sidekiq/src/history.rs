//! What Sidekiq has counted before the sample: jobs by day, and runs by class and minute.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_advisor::observation::{ClassHistory, ClassRuns, DayCounts, RunCounts};

use crate::questions::RedisReply;
use crate::snapshot::Read;

/// Days that are read, with today. Sidekiq keeps five years.
pub(crate) const DAYS: u64 = 8;
/// Minutes of a period. A class that runs once a minute then has ten runs.
pub(crate) const PERIOD_MINUTES: u64 = 10;
/// How long before the sample the earlier period begins. Sidekiq keeps eight hours.
pub(crate) const EARLIER_BEFORE: Duration = Duration::from_secs(70 * 60);
/// Classes of a period, those with the most runs first. Sidekiq counts each class that ever ran in it.
const CLASSES_MAX: usize = 500;

/// Adds up the runs of two shards.
pub(crate) fn joined_classes(mut one: ClassHistory, other: ClassHistory) -> ClassHistory {
    add(&mut one.recent, other.recent);
    add(&mut one.earlier, other.earlier);
    one
}

/// Adds up the days of two shards.
pub(crate) fn joined_days(one: Vec<DayCounts>, other: Vec<DayCounts>) -> Vec<DayCounts> {
    let sum = |(one, other): (DayCounts, DayCounts)| DayCounts {
        processed: one.processed.saturating_add(other.processed),
        failed: one.failed.saturating_add(other.failed),
        ..one
    };
    one.into_iter().zip(other).map(sum).collect()
}

fn add(all: &mut ClassRuns, more: ClassRuns) {
    for (class, more) in more {
        let counts = all.entry(class).or_default();
        counts.processed = counts.processed.saturating_add(more.processed);
        counts.failed = counts.failed.saturating_add(more.failed);
        counts.took = counts.took.saturating_add(more.took);
    }
}

/// Adds up the hashes of a period's minutes, whose fields are `Class|p`, `Class|f` and `Class|ms`.
pub(crate) fn runs(minutes: impl IntoIterator<Item = Read<RedisReply>>) -> Read<ClassRuns> {
    let mut all = ClassRuns::new();
    for minute in minutes {
        let fields: BTreeMap<String, String> = minute?.read()?;
        for (field, value) in fields {
            count(&mut all, &field, &value);
        }
    }
    Ok(with_most_runs(all))
}

fn count(all: &mut ClassRuns, field: &str, value: &str) {
    let Some((class, kind)) = field.rsplit_once('|').filter(|(class, _)| !class.is_empty()) else {
        // The sums over all classes have no name of a class.
        return;
    };
    let Ok(number) = value.parse::<u64>() else { return };
    let more = match kind {
        "p" => RunCounts { processed: number, ..RunCounts::default() },
        "f" => RunCounts { failed: number, ..RunCounts::default() },
        "ms" => RunCounts { took: Duration::from_millis(number), ..RunCounts::default() },
        _ => return,
    };
    add(all, ClassRuns::from([(class.to_owned(), more)]));
}

fn with_most_runs(all: ClassRuns) -> ClassRuns {
    let mut classes: Vec<_> = all.into_iter().collect();
    classes.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.processed));
    classes.truncate(CLASSES_MAX);
    classes.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_classes_are_added_and_sums_are_left_out() {
        let mut all = ClassRuns::new();
        for (field, value) in [
            ("A::B|p", "7"),
            ("A::B|f", "2"),
            ("A::B|ms", "1500"),
            ("A::B|p", "3"),
            ("p", "100"),
            ("|p", "9"),
            ("C|p", "many"),
            ("C|x", "5"),
        ] {
            count(&mut all, field, value);
        }
        let expected = RunCounts { processed: 10, failed: 2, took: Duration::from_millis(1_500) };
        assert_eq!(all, ClassRuns::from([("A::B".to_owned(), expected)]));
    }

    #[test]
    fn classes_beyond_the_limit_are_those_with_the_fewest_runs() {
        let runs = |processed| RunCounts { processed, ..RunCounts::default() };
        let many = (0..CLASSES_MAX as u64 + 3).map(|it| (format!("Class{it}"), runs(it)));
        let kept = with_most_runs(many.collect());
        assert_eq!(kept.len(), CLASSES_MAX);
        assert_eq!(kept.values().map(|it| it.processed).min(), Some(3));
    }

    #[test]
    fn shards_add_up() {
        let day = |processed, failed| DayCounts { processed, failed, ..DayCounts::default() };
        let joined = joined_days(vec![day(5, 1), day(7, 0)], vec![day(2, 2), day(1, 1)]);
        assert_eq!(joined, [day(7, 3), day(8, 1)]);
        let runs = |processed| {
            let counts = RunCounts { processed, ..RunCounts::default() };
            let recent = ClassRuns::from([("A".to_owned(), counts)]);
            ClassHistory { recent, ..ClassHistory::default() }
        };
        assert_eq!(joined_classes(runs(3), runs(4)), runs(7));
    }
}
