use std::time::Duration;

use super::*;
use crate::advise;
use crate::flow::Flow;
use crate::healthy::{self, runs};
use crate::observation::{
    BusyProgram, Fact, FailingClass, JobInHand, JobSample, PastSample, SampleShare,
};

/// Lets jobs wait for five minutes and become more, while the threads of `push` run slow jobs.
fn late() -> Observation {
    let mut observation = healthy::observation();
    let jobs = observation.jobs.known_mut();
    jobs.days = Fact::Known(Vec::new());
    jobs.classes = Fact::NotAsked;
    let queue = jobs.queue_mut("push");
    (queue.length, queue.latency) = (300, Duration::from_secs(300));
    let window = Duration::from_secs(10);
    queue.flow = Fact::Known(Flow {
        window,
        before: 200,
        after: 300,
        arrivals_per_second: 12.0,
        deviation: None,
    });
    let process = &mut jobs.processes[0];
    process.busy = 25;
    process.running_for = Some(Duration::from_secs(86_400));
    process.cores_used = Fact::Known(0.05);
    let age = Duration::from_secs(9);
    let job = JobInHand { class: "Deliver".to_owned(), queue: "push".to_owned(), age };
    process.in_hand = vec![job; 25];
    let postgres = observation.postgres.known_mut();
    postgres.connections.known_mut().sessions = vec![];
    observation
}

fn unexplained(observation: &Observation) -> Option<Finding> {
    advise(observation).findings.into_iter().find(|it| it.rule == NAME)
}

#[test]
fn jobs_that_wait_for_another_service_are_reported_with_a_command() {
    let finding = unexplained(&late()).unwrap();
    assert_eq!((finding.severity, finding.subject.as_str()), (Severity::Warning, "queue push"));
    let expected = "300 jobs wait, the oldest for 5 min; arrival rate 12.0/s, completion rate 2.0/s; 25 of 25 \
                    threads are busy; since at least 5 min ago";
    assert_eq!(finding.evidence, expected);
    for part in [
        "No other finding explains it.",
        "No process was started about then.",
        "Of 25 jobs in progress, 25 are Deliver, the oldest for 9 s.",
        "Its threads do not compute",
        "they wait, most likely for another service (HTTP, DNS), a lock, a file or a disk, or for CPU",
        "Sidekiq's log on shop shows what the threads do.",
    ] {
        assert!(finding.consequence.contains(part), "{part:?}: {}", finding.consequence);
    }
    assert_eq!(finding.next_step(), Some("kill -TTIN 1"));
}

#[test]
fn harm_that_another_finding_explains_is_not_reported() {
    let mut observation = late();
    observation.redis[0].known_mut().lately.known_mut().cpu_share = Some(0.95);
    assert_eq!(unexplained(&observation), None);
    let mut observation = late();
    observation.jobs.known_mut().processes[0].cores_used = Fact::Known(0.97);
    assert_eq!(unexplained(&observation), None, "idle-cores");
    let mut observation = late();
    observation.redis[0].known_mut().info.persistence.append_only = false;
    observation.redis[0].known_mut().info.persistence.snapshots = Some(false);
    assert!(unexplained(&observation).is_some(), "redis-persistence explains no late jobs");
}

#[test]
fn more_jobs_than_usual_are_not_reported() {
    let mut observation = late();
    let healthy = healthy::observation();
    let jobs = observation.jobs.known_mut();
    jobs.days = healthy.jobs.known().unwrap().days.clone();
    // 1,000 per hour are usual.
    jobs.processed_per_second = Fact::Known(0.3);
    assert_eq!(unexplained(&observation), None);
    observation.jobs.known_mut().processed_per_second = Fact::Known(0.1);
    assert!(unexplained(&observation).is_some());
}

#[test]
fn a_queue_that_becomes_empty_is_left_alone() {
    let mut observation = late();
    let queue = observation.jobs.known_mut().queue_mut("push");
    queue.flow.known_mut().before = 900;
    assert_eq!(unexplained(&observation), None);
}

#[test]
fn a_restart_and_an_error_at_that_time_are_named() {
    let mut observation = late();
    let jobs = observation.jobs.known_mut();
    jobs.processes[0].running_for = Some(Duration::from_secs(360));
    let failing = FailingClass {
        class: "Deliver".to_owned(),
        error: "Net::OpenTimeout".to_owned(),
        count: 9,
        first_before: Duration::from_secs(290),
        last_before: Duration::from_secs(5),
    };
    jobs.retries.size = 9;
    let failing = vec![failing];
    jobs.retries.sample = Fact::Known(JobSample { size: 9, failing, ..JobSample::default() });
    let share = SampleShare { name: "Deliver".to_owned(), count: 90 };
    let classes = vec![share];
    jobs.queue_mut("push").sample =
        Fact::Known(JobSample { size: 100, classes, ..JobSample::default() });
    let consequence = unexplained(&observation).unwrap().consequence;
    for part in [
        "1 process was started about then 6 min ago: a deployment?",
        "Deliver fails with Net::OpenTimeout, the first time 4 min 50 s ago.",
        "Of the waiting jobs, 90 % are Deliver (sampled).",
    ] {
        assert!(consequence.contains(part), "{part:?}: {consequence}");
    }
}

#[test]
fn earlier_samples_tell_since_when() {
    let mut observation = late();
    let past = |before, latency| PastSample {
        before: Duration::from_secs(before),
        latency: Duration::from_secs(latency),
        ..PastSample::default()
    };
    observation.jobs.known_mut().past =
        vec![past(3_600, 90), past(3_000, 5), past(1_200, 70), past(60, 290)];
    let evidence = unexplained(&observation).unwrap().evidence;
    assert!(evidence.ends_with("; since at least 20 min ago"), "{evidence}");
}

#[test]
fn a_program_that_takes_the_cpu_is_named() {
    let mut observation = late();
    observation.machine.known_mut().cores_idle = 0.05;
    observation.jobs.known_mut().processes[0].cores_used = Fact::Known(0.3);
    observation.jobs.known_mut().processes[1].cores_used = Fact::Known(0.0);
    let program = |name: &str, pid, cores| BusyProgram { name: name.to_owned(), pid, cores };
    observation.programs = vec![program("ruby", 1, 0.5), program("ffmpeg", 99, 3.2)];
    let finding = unexplained(&observation).unwrap();
    let expected = "another program uses 3.2 of its 4 cores: ffmpeg (process 99)";
    assert!(finding.consequence.contains(expected), "{}", finding.consequence);
    assert_eq!(finding.next_step(), Some("ps -o pid,ppid,user,etime,pcpu,rss,args -p 99"));
    observation.machine.known_mut().stolen_share = 0.3;
    assert_eq!(unexplained(&observation).unwrap().next_step(), Some("vmstat 1 5"));
    observation.jobs.known_mut().processes[0].cores_used = Fact::Known(0.05);
    let finding = unexplained(&observation).unwrap();
    assert_eq!(finding.next_step(), Some("kill -TTIN 1"), "jobs that wait need no CPU time");
}

#[test]
fn a_database_that_works_for_the_jobs_is_to_be_looked_at() {
    let mut observation = late();
    let sessions = healthy::sessions("sidekiq", crate::observation::SessionState::Active, 20);
    observation.postgres.known_mut().connections.known_mut().sessions = vec![sessions];
    let finding = unexplained(&observation).unwrap();
    let expected = "20 sessions are active in the database for 26 jobs in progress";
    assert!(finding.consequence.contains(expected), "{}", finding.consequence);
    assert!(finding.next_step().unwrap().starts_with("psql -c "));
}

#[test]
fn a_class_that_became_slow_is_reported_before_jobs_wait() {
    let mut observation = healthy::observation();
    let jobs = observation.jobs.known_mut();
    let slow = |times| {
        let mut slow = runs(400, 0);
        slow.took *= times;
        slow
    };
    jobs.classes.known_mut().recent.insert("Deliver".to_owned(), slow(20));
    jobs.classes.known_mut().earlier.insert("Deliver".to_owned(), runs(500, 0));
    let finding = unexplained(&observation).unwrap();
    assert_eq!(finding.subject, "jobs of Deliver");
    assert_eq!(finding.evidence, "a run takes 1 s on average, 50 ms an hour before");
    observation.jobs.known_mut().classes.known_mut().recent.insert("Deliver".to_owned(), slow(2));
    assert_eq!(unexplained(&observation), None);
}

#[test]
fn more_failures_than_usual_without_one_class_are_told() {
    let mut observation = healthy::observation();
    let jobs = observation.jobs.known_mut();
    jobs.days.known_mut()[0].failed = 900;
    jobs.failed_share = Fact::Known(0.2);
    jobs.processed_per_second = Fact::Known(10.0);
    let window = Duration::from_secs(10);
    jobs.retries.flow = Fact::Known(Flow { window, ..Flow::default() });
    let finding = unexplained(&observation).unwrap();
    let expected = "20 % of the jobs fail, 0.1 % on the days before";
    assert_eq!((finding.subject.as_str(), finding.evidence.as_str()), ("failed jobs", expected));
    assert!(finding.next_step().unwrap().contains("ZRANGE retry 0 999 | grep"));
    observation.jobs.known_mut().failed_share = Fact::Known(0.001);
    assert_eq!(unexplained(&observation), None, "it is over");
}

#[test]
fn a_young_queue_that_grows_is_a_notice_before_those_about_settings() {
    let mut observation = late();
    let queue = observation.jobs.known_mut().queue_mut("push");
    (queue.length, queue.latency) = (99, Duration::from_secs(30));
    let Fact::Known(flow) = &mut queue.flow else { panic!("known") };
    (flow.before, flow.after) = (0, 99);
    observation.postgres.known_mut().settings.known_mut().shared_buffers_bytes = 64 << 20;
    let advice = advise(&observation);
    assert_eq!(unexplained(&observation).unwrap().severity, Severity::Notice);
    let rules: Vec<_> = advice.findings.iter().map(|it| &*it.rule).collect();
    assert_eq!(rules.first(), Some(&NAME), "{rules:?}");
    assert!(rules.contains(&"untuned-database"), "{rules:?}");
    observation.jobs.known_mut().queue_mut("push").latency = Duration::from_secs(29);
    assert_eq!(unexplained(&observation), None);
}

#[test]
fn a_process_that_takes_no_jobs_is_reported_as_blocked() {
    let mut observation = late();
    let process = &mut observation.jobs.known_mut().processes[0];
    (process.busy, process.in_hand) = (0, Vec::new());
    let finding = unexplained(&observation).unwrap();
    assert!(finding.consequence.contains("no thread of it takes a job"), "{}", finding.consequence);
}
