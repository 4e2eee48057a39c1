//! Many jobs fail and wait for a retry.

use crate::finding::{Finding, Severity};
use crate::flow::{Drain, Flow};
use crate::observation::{Fact, JobSample, JobSet, Observation, RedisServer, SidekiqObservation};
use crate::wording::{self, percent};

pub(crate) const NAME: &str = "retry-flood";

/// Some thousands are normal with unreachable remote servers.
const SIZE_MIN: u64 = 10_000;
/// Minimum size if it is growing.
const GROWING_SIZE_MIN: u64 = 1_000;
/// Minimum size if nearly all jobs have the same error.
const ONE_CAUSE_SIZE_MIN: u64 = 100;
const ONE_CAUSE_SHARE: f64 = 0.9;
/// Minimum share of the second most common error. It may have the same cause as the first.
const SECOND_SHARE_MIN: f64 = 0.2;
/// Minimum growth between two samples, because failing jobs leave the set and return all the time.
const GROWTH_SHARE: f64 = 0.01;

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    let set = &jobs.retries;
    let grows = set.flow.known().is_some_and(grows);
    let flood = set.size >= SIZE_MIN || is_growing(set);
    let refused = observation.redis.first().and_then(Fact::known).and_then(|it| refused(it, jobs));
    if flood {
        let usual =
            || "They return to their queues, to fail again unless the cause has ended.".to_owned();
        return vec![found(set, grows).leads_to(refused.unwrap_or_else(usual))];
    }
    let has_one_cause = set.size >= ONE_CAUSE_SIZE_MIN && set.sample.known().is_some_and(one_cause);
    let notice = |finding: Finding| Finding { severity: Severity::Notice, ..finding };
    let cause = format!("Nearly all fail with the same error. {}", refused.unwrap_or_default());
    let cause = cause.trim_end();
    has_one_cause.then(|| notice(found(set, grows)).leads_to(cause)).into_iter().collect()
}

/// Reports whether most errors are the same. Unreachable remote servers cause various errors; the
/// application or its database cause one.
fn one_cause(sample: &JobSample) -> bool {
    let most = sample.errors.iter().map(|share| share.count).max().unwrap_or_default();
    most as f64 >= ONE_CAUSE_SHARE * sample.size as f64
}

/// Reports whether the set is large and growing.
pub(crate) fn is_growing(set: &JobSet) -> bool {
    set.size >= GROWING_SIZE_MIN && set.flow.known().is_some_and(grows)
}

fn grows(flow: &Flow) -> bool {
    let growth = flow.after.saturating_sub(flow.before) as f64;
    flow.drain() == Drain::Grows && growth >= GROWTH_SHARE * flow.before as f64
}

fn found(set: &JobSet, grows: bool) -> Finding {
    let growth = if grows { " and the number is growing" } else { "" };
    let sample = set.sample.known().and_then(most_common);
    let sample = sample.map(|sample| format!("; {sample}")).unwrap_or_default();
    let evidence =
        format!("{} failed jobs wait for a retry{growth}{sample}", wording::count(set.size));
    Finding::new(NAME, Severity::Warning, "the retry set", evidence)
}

/// Says what becomes of the jobs of a Redis that rejects writes. A full one still allows Sidekiq to
/// remove a due job from the set, but neither the push to its queue that follows nor a return to the
/// set.
fn refused(redis: &RedisServer, jobs: &SidekiqObservation) -> Option<String> {
    let why = redis.refuses_writes_of(jobs)?;
    Some(match redis.rejects_only_growth() {
        true => format!(
            "Each is lost once it is due, because Redis allows its removal from the set, but not \
             the push to its queue: {why}. Make room in Redis first."
        ),
        false => format!("They stay in the set while Redis rejects writes: {why}."),
    })
}

/// Describes what most jobs of a sample have in common.
pub(super) fn most_common(sample: &JobSample) -> Option<String> {
    let error = sample.errors.iter().max_by_key(|share| share.count)?;
    let share = percent(error.count as f64 / sample.size.max(1) as f64);
    let class = sample.classes.iter().max_by_key(|share| share.count);
    let class = class.map(|class| format!(", most often {}", class.name)).unwrap_or_default();
    // Messages differ in details, such as an address.
    let message = sample.error_messages.get(&error.name);
    let message = message.map(|it| format!(" (for example: {it})")).unwrap_or_default();
    let second = second(sample, &error.name).unwrap_or_default();
    Some(format!("{share} of a sample with {}{message}{second}{class}", error.name))
}

/// Describes the second most common error, if it is common: ", 40 % with IOError".
fn second(sample: &JobSample, first: &str) -> Option<String> {
    let others = sample.errors.iter().filter(|share| share.name != first);
    let error = others.max_by_key(|share| share.count)?;
    let share = error.count as f64 / sample.size.max(1) as f64;
    (share >= SECOND_SHARE_MIN).then(|| format!(", {} with {}", percent(share), error.name))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::healthy;
    use crate::observation::SampleShare;

    fn with(before: u64, size: u64) -> Vec<Finding> {
        check(&flood(before, size))
    }

    fn flood(before: u64, size: u64) -> Observation {
        let mut observation = healthy::observation();
        let set = &mut observation.jobs.known_mut().retries;
        set.size = size;
        let window = Duration::from_secs(10);
        set.flow = Fact::Known(Flow {
            window,
            before,
            after: size,
            arrivals_per_second: 1.0,
            deviation: None,
        });
        let share = |name: &str, count| SampleShare { name: name.to_owned(), count };
        set.sample = Fact::Known(JobSample {
            size: 200,
            classes: vec![share("DeliveryWorker", 190)],
            errors: vec![share("HTTP::TimeoutError", 150)],
            ..JobSample::default()
        });
        observation
    }

    #[test]
    fn a_redis_that_rejects_writes_takes_no_job_back() {
        let mut observation = flood(12_000, 12_000);
        let consequence = |it: &Observation| check(it).remove(0).consequence;
        assert!(consequence(&observation).starts_with("They return to their queues"));
        let redis = observation.redis[0].known_mut();
        redis.info.maxmemory_bytes = redis.info.used_memory_bytes;
        assert!(consequence(&observation).starts_with("Each is lost once it is due"));
        observation.redis[0].known_mut().info.persistence.last_append_ok = false;
        assert!(consequence(&observation).starts_with("They stay in the set while Redis rejects"));
    }

    #[test]
    fn a_flood_names_the_error() {
        let expected = "12,000 failed jobs wait for a retry; 75 % of a sample with HTTP::TimeoutError, most often DeliveryWorker";
        assert_eq!(with(12_000, 12_000)[0].evidence, expected);
    }

    #[test]
    fn the_message_of_the_most_frequent_error_is_shown() {
        let mut observation = flood(12_000, 12_000);
        let sample = observation.jobs.known_mut().retries.sample.known_mut();
        let message = |class: &str, text: &str| (class.to_owned(), text.to_owned());
        sample.error_messages = [
            message("HTTP::TimeoutError", "connect timed out after 10 s"),
            message("IOError", "closed stream"),
        ]
        .into();
        let expected = "12,000 failed jobs wait for a retry; 75 % of a sample with HTTP::TimeoutError (for \
                        example: connect timed out after 10 s), most often DeliveryWorker";
        assert_eq!(check(&observation)[0].evidence, expected);
    }

    #[test]
    fn a_second_error_that_is_common_is_named() {
        let mut observation = flood(12_000, 12_000);
        let sample = observation.jobs.known_mut().retries.sample.known_mut();
        sample.errors[0].count = 120;
        for (count, is_named) in [(80, true), (39, false)] {
            let name = "ActiveRecord::RecordNotFound".to_owned();
            let sample = observation.jobs.known_mut().retries.sample.known_mut();
            sample.errors.truncate(1);
            sample.errors.push(SampleShare { name, count });
            let evidence = check(&observation).remove(0).evidence;
            let second = "HTTP::TimeoutError, 40 % with ActiveRecord::RecordNotFound, most often";
            assert_eq!(evidence.contains(second), is_named, "{evidence}");
        }
    }

    #[test]
    fn thousands_are_usual_unless_they_become_more() {
        assert_eq!(with(5_000, 5_000), []);
        assert_eq!(with(4_500, 5_000).len(), 1);
        assert_eq!(with(100, 900), []);
        assert_eq!(with(500, 1_500).len(), 1);
        assert_eq!(with(5_000, 5_040), []);
        assert_eq!(with(5_000, 5_060).len(), 1);
    }

    #[test]
    fn a_hundred_with_one_error_are_worth_a_notice() {
        let of = |size: u64, same: u64| {
            let mut observation = healthy::observation();
            let set = &mut observation.jobs.known_mut().retries;
            set.size = size;
            let share = |name: &str, count| SampleShare { name: name.to_owned(), count };
            let errors = vec![share("NameError", same), share("IOError", 100 - same)];
            set.sample = Fact::Known(JobSample { size: 100, errors, ..JobSample::default() });
            check(&observation).pop()
        };
        let finding = of(240, 95).unwrap();
        let expected = "240 failed jobs wait for a retry; 95 % of a sample with NameError";
        assert_eq!((finding.severity, finding.evidence.as_str()), (Severity::Notice, expected));
        assert_eq!(of(240, 80), None);
        assert_eq!(of(99, 95), None);
    }
}
