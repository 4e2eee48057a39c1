//! Many jobs are dying now. A large dead set alone is at most a notice.

use crate::finding::{Finding, Severity};
use crate::observation::{JobSet, Observation};
use crate::wording;

use super::retry_flood::most_common;

pub(crate) const NAME: &str = "dead-flood";

/// Sidekiq's default for `dead_max_jobs`.
const CAPACITY: u64 = 10_000;
/// 90 % of the capacity.
const NEARLY_FULL: u64 = CAPACITY / 10 * 9;
/// Dead jobs per hour. At that rate, the whole set is replaced in four days.
const FLOOD: u64 = CAPACITY / 100;

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    let set = &jobs.dead;
    let is_flood = set.died_lately >= FLOOD;
    if set.size >= NEARLY_FULL || is_flood { vec![found(set, is_flood)] } else { Vec::new() }
}

fn found(set: &JobSet, is_flood: bool) -> Finding {
    let recent = match set.died_lately {
        0 => "none of them within the last hour".to_owned(),
        some => format!("{} of them within the last hour", wording::count(some)),
    };
    // A larger set means that `dead_max_jobs` was raised.
    let fit = match set.size > CAPACITY {
        true => String::new(),
        false => format!(", by default at most {}", wording::count(CAPACITY)),
    };
    let sample = set.sample.known().and_then(most_common);
    let sample = sample.map(|sample| format!("; {sample}")).unwrap_or_default();
    let evidence = format!("{} dead jobs{fit}; {recent}{sample}", wording::count(set.size));
    let is_full = set.size >= NEARLY_FULL;
    let severity = if is_flood && is_full { Severity::Warning } else { Severity::Notice };
    Finding::new(NAME, severity, "the dead set", evidence)
        .leads_to("When the set is full, each new dead job deletes the oldest one.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    #[test]
    fn a_full_set_warns_while_jobs_die_and_is_history_otherwise() {
        for (size, died_lately, expected) in [
            (8_999, 99, None),
            (8_999, 100, Some(Severity::Notice)),
            (9_000, 99, Some(Severity::Notice)),
            (9_000, 100, Some(Severity::Warning)),
            (10_000, 0, Some(Severity::Notice)),
        ] {
            let mut observation = healthy::observation();
            let set = &mut observation.jobs.known_mut().dead;
            (set.size, set.died_lately) = (size, died_lately);
            let severity = check(&observation).first().map(|finding| finding.severity);
            assert_eq!(severity, expected, "{size} {died_lately}");
        }
    }

    #[test]
    fn what_died_lately_is_said_and_what_fits_only_where_it_is_known() {
        let evidence = |size, died_lately| {
            let mut observation = healthy::observation();
            let set = &mut observation.jobs.known_mut().dead;
            (set.size, set.died_lately) = (size, died_lately);
            check(&observation).remove(0).evidence
        };
        let expected =
            "9,500 dead jobs, by default at most 10,000; 1,200 of them within the last hour";
        assert_eq!(evidence(9_500, 1_200), expected);
        assert_eq!(evidence(50_000, 0), "50,000 dead jobs; none of them within the last hour");
    }
}
