//! Most jobs fail. Counts all failures, including jobs without retries, which leave no other trace.
//! Some errors show the cause (`signature`). A smaller part that is not retried is found as well (`lost`).

mod lost;
mod signature;

use crate::finding::{Finding, Severity};
use crate::observation::{Fact, Observation, RedisServer, SidekiqObservation};
use crate::rules::retry_flood;
use crate::wording::{self, percent};

pub(crate) const NAME: &str = "failing-jobs";

/// Sidekiq has taken a job from its queue before it runs, and puts one that fails into the retry set
/// with ZADD.
const LOST: &str = "They are lost as well: Redis rejects the command that puts a failed job into \
                    the retry set, because its memory is full (OOM). Make room in Redis first.";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let redis = observation.redis.first().and_then(Fact::known);
    // What Redis rejects is lost for that reason, which other rules report.
    let is_full = redis.is_some_and(|it| it.refuses_writes().is_some());
    let found = observation.jobs.known().and_then(|jobs| {
        let lost = || lost::found(NAME, jobs).filter(|_| !is_full);
        found(observation, jobs, redis).or_else(lost)
    });
    found.into_iter().collect()
}

fn found(
    observation: &Observation,
    jobs: &SidekiqObservation,
    redis: Option<&RedisServer>,
) -> Option<Finding> {
    let share = jobs.failing_share()?;
    let window = jobs.retries.flow.known()?.window;
    let sample = jobs.retries.sample.known().and_then(retry_flood::most_common);
    let sample = sample.filter(|_| jobs.retries.size > 0);
    let sample = sample.map(|it| format!(", of the retry set {it}")).unwrap_or_default();
    let fate = match jobs.retries.size + jobs.dead.size {
        _ if redis.is_some_and(RedisServer::rejects_only_growth) => LOST,
        0 => {
            "None of them is in the retry set: they are lost, unless the application runs them again."
        }
        _ => "Those with retries run again later; the others are lost.",
    };
    let evidence = format!(
        "{} of the jobs of the last {} failed{sample}",
        percent(share),
        wording::duration(window)
    );
    let fate = format!("{fate} Sidekiq's log shows each error with the line that raised it.");
    let finding = Finding::new(NAME, Severity::Warning, "Sidekiq", evidence).leads_to(fate);
    Some(signature::explained(finding, observation, jobs))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::flow::Flow;
    use crate::healthy;
    use crate::observation::{JobSample, SampleShare};

    fn with(share: f64, per_second: f64, retries: u64) -> Option<Finding> {
        check(&failing(share, per_second, retries)).pop()
    }

    fn failing(share: f64, per_second: f64, retries: u64) -> Observation {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        jobs.failed_share = Fact::Known(share);
        jobs.processed_per_second = Fact::Known(per_second);
        jobs.retries.size = retries;
        let window = Duration::from_secs(10);
        jobs.retries.flow = Fact::Known(Flow {
            window,
            before: retries,
            after: retries,
            arrivals_per_second: 0.0,
            deviation: None,
        });
        let of = |name: &str| vec![SampleShare { name: name.to_owned(), count: 10 }];
        let (classes, errors) = (of("Import"), of("PG::DiskFull"));
        jobs.retries.sample =
            Fact::Known(JobSample { size: 10, classes, errors, ..JobSample::default() });
        observation
    }

    #[test]
    fn jobs_that_fail_while_redis_is_full_do_not_run_again() {
        let mut observation = failing(0.97, 30.0, 40);
        let redis = observation.redis[0].known_mut();
        redis.info.maxmemory_bytes = redis.info.used_memory_bytes;
        let finding = check(&observation).remove(0);
        assert!(finding.consequence.starts_with("They are lost as well: Redis rejects"));
        assert!(!finding.consequence.contains("run again"), "{finding:?}");
    }

    #[test]
    fn most_jobs_that_fail_are_found_however_few_wait_for_a_retry() {
        let finding = with(0.97, 30.0, 40).unwrap();
        let expected = "97 % of the jobs of the last 10 s failed, of the retry set 100 % of a sample with \
                        PG::DiskFull, most often Import";
        assert_eq!(finding.evidence, expected);
        assert!(finding.consequence.starts_with("Those with retries"));
        let mut observation = failing(0.97, 30.0, 40);
        let sample = observation.jobs.known_mut().retries.sample.known_mut();
        sample.error_messages = [("PG::DiskFull".to_owned(), "No space left".to_owned())].into();
        let evidence = check(&observation).remove(0).evidence;
        let expected = "with PG::DiskFull (for example: No space left), most often Import";
        assert!(evidence.ends_with(expected), "{evidence}");
        let lost = with(1.0, 30.0, 0).unwrap();
        assert_eq!(lost.evidence, "100 % of the jobs of the last 10 s failed");
        assert!(lost.consequence.starts_with("None of them is in the retry set: they are lost"));
    }

    #[test]
    fn a_part_that_fails_or_a_job_that_fails_again_and_again_is_no_finding() {
        assert_eq!(with(0.4, 30.0, 40), None);
        assert_eq!(with(1.0, 1.0, 40), None);
    }
}
