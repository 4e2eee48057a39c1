//! Threads have been running the same job for hours.

use std::time::Duration;

use crate::finding::{Confidence, Finding, Severity};
use crate::observation::{JobInHand, JobProcess, Observation, SidekiqObservation};
use crate::wording;

pub(crate) const NAME: &str = "stuck-threads";

/// If every thread has had its job for this long, waiting jobs are not run, even if the threads do
/// not hang.
const ALL_AGE_MIN: Duration = Duration::from_secs(600);
/// Jobs should be short. One that takes an hour probably hangs.
const AGE_MIN: Duration = Duration::from_secs(3_600);

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    jobs.processes
        .iter()
        .filter(|process| process.is_alive())
        .filter_map(|it| found(jobs, it))
        .collect()
}

fn found(jobs: &SidekiqObservation, process: &JobProcess) -> Option<Finding> {
    let all_for = |age| process.all_have_had_their_job_for(age);
    let is_younger = all_for(ALL_AGE_MIN) && !all_for(AGE_MIN);
    let age_min = if is_younger { ALL_AGE_MIN } else { AGE_MIN };
    let stuck: Vec<&JobInHand> = process.in_hand.iter().filter(|it| it.age >= age_min).collect();
    let oldest = stuck.iter().max_by_key(|it| it.age)?;
    let threads = process.concurrency();
    // A process may not report its threads.
    let is_all = threads > 0 && stuck.len() as u64 >= u64::from(threads);
    let is_long = stuck.iter().all(|it| it.age >= AGE_MIN);
    let is_missed = jobs.queues.iter().any(|it| it.length > 0 && process.serves(&it.name));
    let (severity, consequence) = match (is_all, stuck.len()) {
        (true, _) if !is_missed => {
            (Severity::Warning, "It has no thread left for other jobs; none is waiting yet.")
        }
        // The jobs may be long rather than stuck.
        (true, _) if !is_long => (Severity::Warning, "It has no thread left for other jobs."),
        (true, _) => (Severity::Critical, "It has no thread left for other jobs."),
        (false, 1) => (Severity::Warning, "This thread is not available for other jobs."),
        (false, _) => (Severity::Warning, "These threads are not available for other jobs."),
    };
    let (class, age) = (class_of(oldest), wording::duration(oldest.age));
    let of_all = if threads > 0 { format!(" of its {threads}") } else { String::new() };
    let evidence = match (stuck.len(), threads) {
        (1, 1) => format!("its only thread has been running its job ({class}) for {age}"),
        (1, 0) => format!("one of its threads has been running its job ({class}) for {age}"),
        (1, _) => format!("1{of_all} threads has been running its job ({class}) for {age}"),
        (stuck, _) => format!(
            "{stuck}{of_all} threads have been running their jobs for more than {}, the \
             oldest ({class}) for {age}",
            wording::duration(age_min)
        ),
    };
    let subject = format!("process {}", process.identity);
    let consequence = format!("{consequence} {}", process.where_threads_show());
    let finding = Finding::new(NAME, severity, subject, evidence)
        .since(oldest.age, "run_at of the oldest of these jobs")
        .with_confidence(if is_long { Confidence::Likely } else { Confidence::Possible })
        .leads_to(consequence);
    Some(finding.next_if(process.print_threads_command()))
}

/// Returns the class of a job, in words if it could not be read.
fn class_of(job: &JobInHand) -> &str {
    match job.class.as_str() {
        "" => "of an unknown class",
        class => class,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    fn severity(stuck: usize, seconds: u64) -> Option<Severity> {
        let mut observation = healthy::observation();
        let process = &mut observation.jobs.known_mut().processes[1];
        let job = JobInHand {
            class: "Import".to_owned(),
            age: Duration::from_secs(seconds),
            ..JobInHand::default()
        };
        process.in_hand = vec![job; stuck];
        check(&observation).first().map(|finding| finding.severity)
    }

    #[test]
    fn an_hour_is_too_long_and_worst_where_no_thread_is_left() {
        assert_eq!(severity(5, 599), None);
        assert_eq!(severity(5, 900), Some(Severity::Warning), "all of its threads, for 15 minutes");
        assert_eq!(severity(4, 3_599), None);
        assert_eq!(severity(4, 3_600), Some(Severity::Warning));
        assert_eq!(severity(5, 3_600), Some(Severity::Critical));
    }

    #[test]
    fn one_thread_of_one_is_its_only_one() {
        let mut observation = healthy::observation();
        let process = &mut observation.jobs.known_mut().processes[1];
        process.capsules[0].concurrency = 1;
        process.in_hand =
            vec![JobInHand { class: "Import".to_owned(), age: AGE_MIN, ..JobInHand::default() }];
        let finding = check(&observation).remove(0);
        assert_eq!(finding.evidence, "its only thread has been running its job (Import) for 1 h");
        assert_eq!(finding.severity, Severity::Critical);
    }

    #[test]
    fn the_class_and_where_to_look_are_said() {
        let mut observation = healthy::observation();
        let age = Duration::from_secs(4 * 3_600);
        observation.jobs.known_mut().processes[1].in_hand =
            vec![JobInHand { class: "Import".to_owned(), age, ..JobInHand::default() }];
        let finding = check(&observation).remove(0);
        assert_eq!(
            finding.evidence,
            "1 of its 5 threads has been running its job (Import) for 4 \
                                      h"
        );
        assert!(finding.consequence.starts_with("This thread is not available for other jobs. "));
        assert_eq!(finding.next_step(), Some("kill -TTIN 2"));
        let process = &mut observation.jobs.known_mut().processes[1];
        process.in_hand = vec![process.in_hand[0].clone(); 2];
        assert_eq!(
            check(&observation)[0].evidence,
            "2 of its 5 threads have been running their jobs for more than 1 h, the oldest \
             (Import) for 4 h"
        );
    }

    #[test]
    fn while_no_job_waits_for_it_a_long_job_is_no_emergency() {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        jobs.processes[1].in_hand =
            vec![JobInHand { class: "Video".to_owned(), age: AGE_MIN, ..JobInHand::default() }; 5];
        jobs.queue_mut("scheduler").length = 0;
        let finding = check(&observation).remove(0);
        assert_eq!(finding.severity, Severity::Warning);
        assert!(finding.consequence.contains("none is waiting yet"));
    }

    #[test]
    fn a_class_and_threads_that_are_unknown_are_not_shown() {
        let mut observation = crate::healthy::observation();
        let process = &mut observation.jobs.known_mut().processes[0];
        process.capsules[0].concurrency = 0;
        process.in_hand = vec![JobInHand { age: AGE_MIN, ..JobInHand::default() }; 2];
        let evidence = check(&observation).remove(0).evidence;
        let expected = "2 threads have been running their jobs for more than 1 h, the oldest (of an \
                        unknown class) for 1 h";
        assert_eq!(evidence, expected);
    }
}
