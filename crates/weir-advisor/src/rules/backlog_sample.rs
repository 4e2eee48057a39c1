//! A single job class or remote host dominates a backlog.

use crate::finding::{Confidence, Finding, Severity};
use crate::observation::{JobSample, Observation, ObservedQueue, SampleShare};
use crate::wording::{count, percent};

pub(crate) const NAME: &str = "backlog-made-of";

const LENGTH_MIN: u64 = 1_000;
/// Smaller samples are too imprecise.
const SAMPLE_MIN: u64 = 100;
/// Minimum share of one class among several.
const CLASS_SHARE: f64 = 0.6;
/// Minimum share of one remote host; usually there are thousands.
const HOST_SHARE: f64 = 0.3;

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    let long = |queue: &&ObservedQueue| queue.length >= LENGTH_MIN;
    jobs.queues.iter().filter(long).filter_map(found).collect()
}

fn found(queue: &ObservedQueue) -> Option<Finding> {
    let sample = queue.sample.known().filter(|sample| sample.size >= SAMPLE_MIN)?;
    let host = largest(sample, &sample.hosts, HOST_SHARE);
    let host = host.map(|(share, host)| format!("{share} are for {host}"));
    // If the queue has a single class only, its share says nothing.
    let classes = if sample.classes.len() > 1 { sample.classes.as_slice() } else { &[] };
    let class = largest(sample, classes, CLASS_SHARE);
    let class = class.map(|(share, class)| format!("{share} are {class}"));
    let parts: Vec<_> = [class, host].into_iter().flatten().collect();
    if parts.is_empty() {
        return None;
    }
    let evidence = format!("in a sample of {} jobs, {}", count(sample.size), parts.join(", "));
    let finding = Finding::new(NAME, Severity::Notice, format!("queue {}", queue.name), evidence);
    let finding = finding.with_confidence(Confidence::Likely);
    Some(finding.leads_to("What is done about them changes the backlog most."))
}

/// "87 %", "`DeliveryWorker`".
fn largest<'a>(
    sample: &JobSample,
    shares: &'a [SampleShare],
    share_min: f64,
) -> Option<(String, &'a str)> {
    let largest = shares.iter().max_by_key(|share| share.count)?;
    let share = largest.count as f64 / sample.size as f64;
    (share >= share_min).then(|| (percent(share), largest.name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;
    use crate::observation::Fact;

    fn share(name: &str, count: u64) -> SampleShare {
        SampleShare { name: name.to_owned(), count }
    }

    fn with(classes: Vec<SampleShare>, hosts: Vec<SampleShare>) -> Vec<Finding> {
        let mut observation = healthy::observation();
        let queue = observation.jobs.known_mut().queue_mut("pull");
        queue.length = 40_000;
        queue.sample =
            Fact::Known(JobSample { size: 1_000, classes, hosts, ..JobSample::default() });
        check(&observation)
    }

    #[test]
    fn what_stands_out_is_named() {
        let findings = with(
            vec![share("LinkCrawlWorker", 870), share("ThreadResolveWorker", 130)],
            vec![share("slow.example", 400)],
        );
        let expected =
            "in a sample of 1,000 jobs, 87 % are LinkCrawlWorker, 40 % are for slow.example";
        assert_eq!(findings[0].evidence, expected);
    }

    #[test]
    fn limits_are_limits() {
        let two = |class: u64, host: u64| {
            with(vec![share("A", class), share("B", 1_000 - class)], vec![share("a.example", host)])
        };
        for (class, host, findings) in [(650, 0, 1), (590, 0, 0), (500, 320, 1), (500, 290, 0)] {
            assert_eq!(two(class, host).len(), findings, "{class} {host}");
        }
        let mut observation = healthy::observation();
        let sample = |size| {
            let classes = vec![share("A", size), share("B", 0)];
            Fact::Known(JobSample { size, classes, ..JobSample::default() })
        };
        for (length, size, findings) in [(1_000, 100, 1), (999, 100, 0), (1_000, 99, 0)] {
            let queue = observation.jobs.known_mut().queue_mut("pull");
            (queue.length, queue.sample) = (length, sample(size));
            assert_eq!(check(&observation).len(), findings, "{length} {size}");
        }
    }

    #[test]
    fn an_even_mix_and_a_queue_of_one_class_are_no_news() {
        assert_eq!(with(vec![share("A", 550), share("B", 450)], vec![share("a.example", 200)]), []);
        assert_eq!(with(vec![share("A", 1_000)], Vec::new()), []);
    }
}
