//! Jobs are scheduled for a time in the far future, most often because milliseconds were passed as
//! seconds.

use crate::finding::{Confidence, Finding, Severity};
use crate::observation::{Fact, FarAhead, Observation};
use crate::wording::{count, number};

pub(crate) const NAME: &str = "far-scheduled";

/// The scheduled set in Redis.
const KEY: &str = "schedule";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    let FarAhead { jobs: far, as_millis, after_unix_seconds } = jobs.scheduled.far_ahead;
    if far == 0 {
        return Vec::new();
    }
    let all = number(jobs.scheduled.size.max(far), "scheduled job", "scheduled jobs");
    let are = if far == 1 { "is" } else { "are" };
    let evidence = format!("{} of {all} {are} due in more than ten years", count(far));
    let (severity, cause) = match as_millis {
        0 => (Severity::Notice, "If that is not meant, correct the code that schedules".to_owned()),
        _ => (
            Severity::Warning,
            format!(
                "Most likely milliseconds were passed as seconds, which perform_at and perform_in \
                 take: read as milliseconds, the times of {} are within ten years of now. Correct \
                 the code that schedules",
                if as_millis >= far { "all".to_owned() } else { count(as_millis) }
            ),
        ),
    };
    let them = if far == 1 { "it" } else { "them" };
    let consequence = format!(
        "No process runs {them} before that time. {cause} {them}. The command counts {them}."
    );
    // That the times are wrong is a guess from their values.
    let confidence = if as_millis == 0 { Confidence::Possible } else { Confidence::Likely };
    let finding = Finding::new(NAME, severity, "the scheduled set", evidence)
        .with_confidence(confidence)
        .leads_to(consequence);
    let redis = observation.redis.first().and_then(Fact::known);
    let command = |cli: &str| format!("{cli} ZCOUNT {KEY} {after_unix_seconds} +inf");
    vec![match redis {
        Some(redis) => finding.next(observation.redis_command(&redis.name, command)),
        None => finding,
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    fn with(jobs: u64, as_millis: u64) -> Option<Finding> {
        let mut observation = healthy::observation();
        let set = &mut observation.jobs.known_mut().scheduled;
        set.size = 6_003;
        set.far_ahead = FarAhead { jobs, as_millis, after_unix_seconds: 2_095_000_000 };
        check(&observation).pop()
    }

    #[test]
    fn milliseconds_that_were_passed_as_seconds_are_a_warning() {
        let finding = with(6_000, 6_000).unwrap();
        assert_eq!(finding.severity, Severity::Warning);
        let expected = "6,000 of 6,003 scheduled jobs are due in more than ten years";
        assert_eq!(finding.evidence, expected);
        assert!(finding.consequence.contains("milliseconds were passed as seconds"), "{finding:?}");
        assert!(finding.consequence.contains("the times of all are within ten years"));
        let expected = "redis-cli -h 127.0.0.1 -p 6379 ZCOUNT schedule 2095000000 +inf";
        assert_eq!(finding.next_step(), Some(expected));
        assert_eq!(finding.line_change(), None);
        let some = with(6_000, 20).unwrap();
        assert!(some.consequence.contains("the times of 20 are within ten years"), "{some:?}");
    }

    #[test]
    fn other_times_in_the_far_future_are_a_notice_without_a_guess() {
        let finding = with(1, 0).unwrap();
        assert_eq!(finding.severity, Severity::Notice);
        let expected = "1 of 6,003 scheduled jobs is due in more than ten years";
        assert_eq!(finding.evidence, expected);
        assert!(!finding.consequence.contains("milliseconds"), "{finding:?}");
        assert!(finding.consequence.starts_with("No process runs it before that time."));
        assert_eq!(with(0, 0), None);
    }
}
