use std::time::Duration;

use weir_advisor::Flow;
use weir_advisor::observation::{Capsule, JobInHand, JobSample, SampleShare};

use super::*;

/// A process with 10 threads, whose heartbeat is so old.
fn process(beat_age: f64, running: &[(&str, &str)]) -> JobProcess {
    let in_hand = |(class, queue): &(&str, &str)| JobInHand {
        class: (*class).to_owned(),
        queue: (*queue).to_owned(),
        age: Duration::from_secs(1),
    };
    JobProcess {
        busy: running.len() as u64,
        in_hand: running.iter().map(in_hand).collect(),
        beat_age: Duration::from_secs_f64(beat_age),
        capsules: vec![Capsule { concurrency: 10, ..Capsule::default() }],
        ..JobProcess::default()
    }
}

fn queue(name: &str, length: u64, served: f64, classes: &[(&str, u64)]) -> ObservedQueue {
    let share =
        |(class, count): &(&str, u64)| SampleShare { name: (*class).to_owned(), count: *count };
    let sample = JobSample {
        size: classes.iter().map(|(_, count)| count).sum(),
        classes: classes.iter().map(share).collect(),
        ..JobSample::default()
    };
    let flow = Flow {
        window: Duration::from_secs(10),
        before: length,
        after: length,
        arrivals_per_second: served,
        ..Flow::default()
    };
    ObservedQueue {
        name: name.to_owned(),
        length,
        flow: Fact::Known(flow),
        sample: Fact::Known(sample),
        latency: Duration::from_secs(7),
        ..ObservedQueue::default()
    }
}

fn sample(processed: u64, process: JobProcess, queues: Vec<ObservedQueue>) -> SidekiqObservation {
    SidekiqObservation {
        processed: Fact::Known(processed),
        processes: vec![process],
        queues,
        ..SidekiqObservation::default()
    }
}

fn add(load: &mut SidekiqLoad, at: f64, jobs: &SidekiqObservation) -> Option<JobsLoad> {
    let processes = jobs.processes.iter().map(|process| ("sidekiq".to_owned(), process));
    let workers = ObservedWorkers {
        processes: processes.collect(),
        queues: BTreeSet::from(["push".to_owned()]),
        ..ObservedWorkers::default()
    };
    load.add(at, jobs, &workers)
}

fn ended(load: &JobsLoad, class: &str) -> u64 {
    let found = load.classes.iter().find(|it| it.name == class);
    found.map_or(0, |class| class.ended_total)
}

#[test]
fn jobs_are_counted_between_heartbeats_whenever_the_samples_are_taken() {
    let mut load = SidekiqLoad::default();
    let queues = || vec![queue("push", 100, 20.0, &[("Push", 40)])];
    let running = [("Push", "push"), ("Push", "push")];
    let first = add(&mut load, 100.0, &sample(1_000, process(4.0, &running), queues()));
    assert_eq!(ended(&first.unwrap(), "Push"), 0);
    // The same heartbeat.
    let same = sample(1_000, process(5.0, &running), queues());
    assert_eq!(add(&mut load, 101.0, &same), None);
    // 15 seconds of heartbeats have counted 300 jobs, which are 20 a second, also in the 12 seconds between the samples.
    let next = sample(1_300, process(1.0, &running), queues());
    let next = add(&mut load, 112.0, &next).unwrap();
    assert_eq!(ended(&next, "Push"), 240);
    assert_eq!((next.busy, next.idle), (2, 8));
    let class = &next.classes[0];
    assert!((class.run_seconds_total - 24.0).abs() < 1e-9, "{class:?}");
    assert_eq!((class.queue.as_str(), class.in_flight), ("push", 2));
}

#[test]
fn the_count_of_all_jobs_is_divided_by_what_waits_in_the_queues() {
    let mut load = SidekiqLoad::default();
    let at = |processed| {
        let queues = vec![
            queue("push", 200, 9.0, &[("Push", 40)]),
            queue("low", 80, 1.0, &[("Import", 40)]),
        ];
        // Those that run for long are seen more often than they end.
        sample(processed, process(0.0, &[("Import", "low"), ("Import", "low")]), queues)
    };
    add(&mut load, 0.0, &at(0));
    let next = add(&mut load, 10.0, &at(1_000)).unwrap();
    assert_eq!((ended(&next, "Push"), ended(&next, "Import")), (900, 100));
    let low = &next.queues[1];
    assert_eq!(low.waiting_by_class, [("Import".to_owned(), 80)]);
    assert_eq!((low.pushed_total, low.waiting, low.is_unmanaged), (10, 80, true));
    assert!(!next.queues[0].is_unmanaged, "its group is told to serve it");
}

#[test]
fn paused_queues_wait_for_an_operator() {
    let mut load = SidekiqLoad::default();
    let paused = ObservedQueue { paused: true, ..queue("push", 50, 0.0, &[("Push", 40)]) };
    let seen = add(&mut load, 0.0, &sample(0, process(0.0, &[]), vec![paused])).unwrap();
    let queue = &seen.queues[0];
    assert_eq!((queue.waiting, queue.oldest_age_seconds), (0, 0.0));
    assert!(queue.waiting_by_class.is_empty());
}

#[test]
fn a_count_that_begins_again_is_no_work() {
    let mut load = SidekiqLoad::default();
    let queues = || vec![queue("push", 100, 20.0, &[("Push", 40)])];
    add(&mut load, 0.0, &sample(5_000, process(0.0, &[]), queues()));
    let next = add(&mut load, 10.0, &sample(3, process(0.0, &[]), queues())).unwrap();
    assert_eq!(ended(&next, "Push"), 0);
}

#[test]
fn jobs_of_a_limited_class_count_for_the_queue_that_they_are_from() {
    let mut load = SidekiqLoad::default();
    let limited = "push_limited_Import";
    let running = [("Push", "push"), ("Import", limited)];
    let queues =
        vec![queue("push", 0, 20.0, &[("Push", 0)]), queue(limited, 100, 5.0, &[("Import", 40)])];
    let jobs = sample(1_000, process(4.0, &running), queues);
    let workers = ObservedWorkers {
        queues: BTreeSet::from(["push".to_owned()]),
        limited_queues: BTreeMap::from([(limited.to_owned(), "push".to_owned())]),
        ..ObservedWorkers::default()
    };
    let load = load.add(100.0, &jobs, &workers).unwrap();
    let import = load.classes.iter().find(|it| it.name == "Import").unwrap();
    assert_eq!((import.queue.as_str(), import.in_flight), ("push", 1));
    let of = |name: &str| load.queues.iter().find(|it| it.name == name).unwrap();
    assert!(of(limited).is_unmanaged && !of("push").is_unmanaged);
    assert_eq!(of(limited).waiting_by_class, [("Import".to_owned(), 100)]);
}
