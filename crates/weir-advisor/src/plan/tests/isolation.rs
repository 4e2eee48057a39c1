//! Plans for queues whose long jobs must not hold the threads of others.

use std::time::Duration;

use super::*;
use crate::flow::Flow;
use crate::observation::{JobInHand, ObservedQueue, Ordering};
use crate::plan::{DemandSource, demands, demands_held_up};

/// Returns a Redis in which one process serves `video` alone and had had its job for `age` seconds at its
/// last heartbeat, and another one serves the other queues, which were empty in all samples.
fn isolated(age: Option<u64>) -> Observation {
    let mut observation = healthy::observation();
    let jobs = observation.jobs.known_mut();
    let mut video = healthy::process(2, 1, Ordering::Strict, &[("video", 0)]);
    video.in_hand = age
        .map(|age| JobInHand {
            class: "Transcode".to_owned(),
            queue: "video".to_owned(),
            // The heartbeat is 4 s old, and has the start of the job in whole seconds.
            age: Duration::from_secs(age + 5),
        })
        .into_iter()
        .collect();
    let others = [("default", 0), ("push", 0), ("low", 0)];
    let in_hand = video.in_hand.len() as u64;
    jobs.processes = vec![healthy::process(1, 8, Ordering::Strict, &others), video];
    let queue = |name: &str| ObservedQueue {
        name: name.to_owned(),
        pushed: true,
        in_hand: if name == "video" { in_hand } else { 0 },
        flow: Fact::Known(Flow { window: Duration::from_secs(10), ..Flow::default() }),
        ..ObservedQueue::default()
    };
    jobs.queues = ["default", "push", "low", "video"].map(queue).into();
    observation
}

fn planned(queues: Vec<QueueDemand>) -> Plan {
    plan(&PlanInput { queues, ..mastodon() }).unwrap()
}

/// Returns the queues of each process that serves `video`.
fn with_video(plan: &Plan) -> Vec<Vec<String>> {
    let serving = plan.layout.workers.iter().filter(|it| it.serves("video"));
    serving.map(|it| it.queues.clone()).collect()
}

#[test]
fn a_queue_whose_process_has_had_its_job_for_minutes_stays_out_of_the_others() {
    let mut observation = isolated(Some(360));
    let queues = demands(observation.jobs.known_mut(), &[]).queues;
    let video = queues.iter().find(|it| it.name == "video").unwrap();
    assert_eq!((video.known, video.service_seconds), (DemandSource::Busy, 360.0));
    assert!((video.arrivals_per_second * 360.0 - 1.0).abs() < 1e-9, "one thread was busy");
    let plan = planned(queues);
    assert_eq!(with_video(&plan), [["video"]]);
    let proof = plan.proofs.iter().find(|it| it.claim == Claim::LongJobsApart).unwrap();
    assert_eq!(proof.figures, "video has processes without other queues");
}

#[test]
fn a_job_is_as_old_as_its_process_last_said() {
    // It may have ended at once: 5 s have passed since its start only by what a stale heartbeat says.
    let mut observation = isolated(Some(0));
    let queues = demands(observation.jobs.known_mut(), &[]).queues;
    let video = queues.iter().find(|it| it.name == "video").unwrap();
    assert_eq!((video.oldest_seconds, video.service_seconds), (0.0, 0.2));
}

#[test]
fn a_queue_with_a_process_of_its_own_keeps_it_until_its_jobs_are_known_to_be_quick() {
    let mut observation = isolated(None);
    let plan = planned(demands(observation.jobs.known_mut(), &[]).queues);
    assert_eq!(with_video(&plan), [["video"]], "nothing was seen");
    let threads = |plan: &Plan| {
        let video = plan.layout.workers.iter().find(|it| it.queues[0] == "video");
        video.unwrap().threads()
    };
    assert_eq!(threads(&plan), 1, "as now");
    let held_up = planned(demands_held_up(isolated(Some(360)).jobs.known_mut(), &[]).queues);
    assert_eq!(with_video(&held_up), [["video"]]);
    let mut queues = demands(observation.jobs.known_mut(), &[]).queues;
    let video = queues.iter_mut().find(|it| it.name == "video").unwrap();
    (video.known, video.arrivals_per_second) = (DemandSource::All, 5.0);
    assert!(with_video(&planned(queues)).len() > 1, "quick jobs may use idle threads");
    // A process that serves another queue as well is no process of its own.
    let jobs = observation.jobs.known_mut();
    let more = healthy::process(3, 5, Ordering::Strict, &[("push", 0), ("video", 0)]);
    jobs.processes.push(more);
    assert!(with_video(&planned(demands(jobs, &[]).queues)).len() > 1);
}

#[test]
fn a_queue_that_is_said_to_have_long_jobs_stays_out_of_the_others() {
    let queues = |seconds| {
        vec![queue("default", 9.0, 0.02), queue("low", 1.0, 0.05), queue("video", 0.001, seconds)]
    };
    assert_eq!(with_video(&planned(queues(900.0))), [["video"]]);
    assert_eq!(with_video(&planned(queues(60.0))), [["video"]]);
    assert_eq!(with_video(&planned(queues(59.0))).len(), 3);
}

#[test]
fn long_jobs_that_something_delays_do_not_isolate_their_queue() {
    let mut observation = isolated(None);
    let jobs = observation.jobs.known_mut();
    let age = Duration::from_secs(900);
    let job = JobInHand { class: "Order".to_owned(), queue: "default".to_owned(), age };
    jobs.processes[0].in_hand = vec![job; 8];
    jobs.queue_mut("default").in_hand = 8;
    let of_default = |queues: Vec<QueueDemand>| {
        let plan = planned(queues);
        plan.layout.workers.iter().filter(|it| it.serves("default")).count()
    };
    assert_eq!(of_default(demands_held_up(jobs, &[]).queues), 3);
    assert_eq!(of_default(demands(jobs, &[]).queues), 1);
}
