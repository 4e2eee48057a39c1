//! Plans for queues without observed load.

use super::*;
use std::time::Duration;

use crate::flow::Flow;
use crate::observation::{ObservedQueue, Ordering, ProcessPlace, ProcessPresence, RecentActivity};
use crate::plan::{DemandSource, demands, demands_held_up, held_up};

/// Returns an idle Redis with one process.
fn idle(concurrency: u32, queues: &[&str]) -> (Observation, PlanInput) {
    let served: Vec<_> = queues.iter().map(|name| (*name, 0)).collect();
    let mut observation = healthy::observation();
    let jobs = observation.jobs.known_mut();
    jobs.queues.clear();
    jobs.processes = vec![healthy::process(1, concurrency, Ordering::Strict, &served)];
    let pushes: Vec<_> = queues.iter().map(ToString::to_string).collect();
    let queues = demands(jobs, &pushes).queues;
    (observation, PlanInput { queues, ..mastodon() })
}

fn proof(plan: &Plan, claim: Claim) -> &Proof {
    plan.proofs.iter().find(|proof| proof.claim == claim).unwrap()
}

#[test]
fn what_runs_is_kept_where_nothing_was_seen_and_nobody_says_that_it_keeps_up() {
    let (observation, wanted) = idle(8, &["default"]);
    let plan = plan(&wanted).unwrap();
    let changes = difference(&observation, &plan);
    assert!(!changes.iter().any(|it| it.contains("sidekiq")), "{changes:?}");
    let proof = proof(&plan, Claim::KeepsUp);
    assert_eq!(proof.outcome, ClaimOutcome::Unknown);
    assert_eq!(
        proof.figures,
        "default was never observed; or give the arrival rate and the run time (weir plan --queue \
         default=RATE,SECONDS); 8 threads are for it now, 8 in this plan"
    );
}

#[test]
fn the_threads_of_a_process_are_there_when_its_queues_have_their_own() {
    let names = ["default", "push", "ingress", "mailers", "pull", "scheduler", "fasp"];
    let (_, mut wanted) = idle(25, &names);
    let threads = |wanted: &PlanInput| {
        let plan = plan(wanted).unwrap();
        plan.layout.workers.iter().map(WorkerLayout::threads).sum::<u32>()
    };
    assert_eq!(threads(&wanted), 25);
    // Threads that do not fit are dropped rather than making the plan impossible.
    wanted.max_connections = 50;
    assert_eq!(threads(&wanted), 7);
    let plan = plan(&wanted).unwrap();
    let figures = &proof(&plan, Claim::KeepsUp).figures;
    assert!(figures.ends_with("; 25 threads are for them now, 7 in this plan"), "{figures}");
}

#[test]
fn who_is_known_to_be_behind_is_behind_whatever_is_unknown_beside() {
    let (_, mut wanted) = idle(8, &["default"]);
    wanted.queues.push(queue("scheduler", 100.0, 1.0));
    let broken = plan(&wanted).unwrap_err().broken;
    assert_eq!(broken[0].figures, "scheduler keeps 100.0 threads busy and has 25");
}

#[test]
fn more_connections_need_a_restart_of_postgres() {
    let (_, mut wanted) = idle(8, &["default"]);
    wanted.max_connections = 20;
    let remedies = plan(&wanted).unwrap_err().remedies;
    let is_said = |way: &String| {
        way.starts_with("max_connections = ") && way.contains("which then needs a restart")
    };
    assert!(remedies.iter().any(is_said), "{remedies:?}");
}

#[test]
fn a_target_rests_on_what_is_known() {
    let (_, mut wanted) = idle(8, &["default"]);
    wanted.queues[0].target_seconds = Some(30.0);
    let told = |wanted: &PlanInput| {
        let plan = plan(wanted).unwrap();
        proof(&plan, Claim::TargetsKept).outcome
    };
    assert_eq!(told(&wanted), ClaimOutcome::Unknown);
    wanted.queues[0].known = DemandSource::All;
    assert_eq!(told(&wanted), ClaimOutcome::Holds);
}

#[test]
fn jobs_that_came_and_were_too_quick_to_be_met_are_told_from_a_queue_at_rest() {
    let (_, mut wanted) = idle(8, &["default", "push"]);
    wanted.queues.iter_mut().find(|it| it.name == "push").unwrap().known = DemandSource::Comes;
    let plan = plan(&wanted).unwrap();
    let figures = &proof(&plan, Claim::KeepsUp).figures;
    let expected = "default was never observed; jobs of push arrived and none was in progress in a sample; take more samples (weir \
                    plan --window 2m takes ten); or give the arrival rate and the run time (weir \
                    plan --queue ";
    assert!(figures.starts_with(expected), "{figures}");
}

/// Returns a queue that was always empty, with one job in progress.
fn busy(name: &str) -> ObservedQueue {
    let flow = Flow { window: Duration::from_secs(10), ..Flow::default() };
    ObservedQueue {
        name: name.to_owned(),
        pushed: true,
        in_hand: 1,
        flow: Fact::Known(flow),
        ..ObservedQueue::default()
    }
}

#[test]
fn threads_that_one_sample_shows_busy_are_no_load() {
    let (mut observation, _) = idle(5, &["default"]);
    let jobs = observation.jobs.known_mut();
    jobs.queues = vec![busy("default")];
    let queues = demands(jobs, &[]).queues;
    let one = plan(&PlanInput { queues, ..mastodon() }).unwrap();
    let kept = proof(&one, Claim::KeepsUp);
    assert_eq!(kept.outcome, ClaimOutcome::Unknown);
    assert_eq!(
        kept.figures,
        "1 sample shows threads busy with jobs of default, but neither how many arrive nor how long each \
         takes (weir plan --window 2m takes ten); or give the arrival rate and the run time (weir plan \
         --queue default=RATE,SECONDS); 5 threads are for it now, 5 in this plan"
    );
    jobs.queues[0].lately = Some(RecentActivity { looks: 10, in_hand: 1.0, per_second: 0.0 });
    let queues = demands(jobs, &[]).queues;
    let ten = plan(&PlanInput { queues, ..mastodon() }).unwrap();
    assert!(proof(&ten, Claim::KeepsUp).holds(), "the average of ten is the load");
}

/// Returns a Redis whose only process was started again after each of three ends.
fn crash_loop(last: ProcessPresence) -> Observation {
    let (mut observation, _) = idle(5, &["default"]);
    let jobs = observation.jobs.known_mut();
    let generation = |pid: u32| {
        let age = u64::from(60 - 10 * pid);
        let mut process = healthy::process(pid, 5, Ordering::Strict, &[("default", 0)]);
        process.presence = if pid == 4 { last } else { ProcessPresence::Gone };
        process.beat_age = Duration::from_secs(age);
        process.running_for = Some(Duration::from_secs(age + 5));
        process
    };
    jobs.processes = [1, 2, 3, 4].map(generation).into();
    jobs.queues = vec![busy("default")];
    observation
}

#[test]
fn a_plan_names_a_crash_loop_and_keeps_its_threads() {
    for (last, ended) in [(ProcessPresence::Seen, 3), (ProcessPresence::Gone, 4)] {
        let mut observation = crash_loop(last);
        let expected = format!(
            "{ended} processes of shop for default ended one after the other: what their threads do at \
             a time says nothing about how many are needed"
        );
        assert_eq!(held_up(&observation), [expected]);
        let queues = demands_held_up(observation.jobs.known_mut(), &[]).queues;
        assert_eq!(queues[0].threads_now, 5, "of the last one");
        let plan = plan(&PlanInput { queues, ..mastodon() }).unwrap();
        assert_eq!(proof(&plan, Claim::KeepsUp).outcome, ClaimOutcome::Unknown);
        let workers = &plan.layout.workers;
        assert!(workers.iter().map(WorkerLayout::threads).sum::<u32>() >= 5, "{workers:?}");
    }
}

#[test]
fn no_process_is_to_be_started_beside_one_that_runs_unseen() {
    let (mut observation, wanted) = idle(5, &["default"]);
    let plan = plan(&wanted).unwrap();
    let jobs = observation.jobs.known_mut();
    let processes = std::mem::take(&mut jobs.processes);
    let starts = |observation: &Observation| {
        difference(observation, &plan).iter().any(|line| line.contains("sidekiq"))
    };
    assert!(starts(&observation), "none runs");
    observation.jobs.known_mut().running_ghosts = vec!["shop:7:x".to_owned()];
    observation.redis[0].known_mut().info.persistence.last_append_ok = false;
    let expected = "shop:7:x runs on this machine, but this Redis has no recent heartbeat of it: start no \
                    other process in the place of it. Redis rejects writes: the last write to its \
                    append-only file failed (MISCONF)";
    assert_eq!(held_up(&observation), [expected]);
    assert!(!starts(&observation));
    observation.jobs.known_mut().running_ghosts.clear();
    assert!(held_up(&observation)[0].starts_with("Redis rejects writes"), "none was looked for");
    assert!(!starts(&observation), "Redis does not keep their heartbeats");
    observation.redis[0].known_mut().info.persistence.last_append_ok = true;
    observation.jobs.known_mut().unlisted = vec![7];
    assert!(held_up(&observation)[0].starts_with("process 7 runs on this machine, but"));
    let jobs = observation.jobs.known_mut();
    (jobs.unlisted, jobs.processes) = (Vec::new(), processes);
    jobs.processes[0].presence = ProcessPresence::Silent;
    assert!(held_up(&observation)[0].starts_with("shop:1:0123456789ab runs on this machine"));
    assert!(!starts(&observation));
    observation.jobs.known_mut().processes[0].place = ProcessPlace::Elsewhere;
    assert_eq!(held_up(&observation), [""; 0]);
}

#[test]
fn more_samples_show_nothing_of_a_queue_that_no_process_serves() {
    let (mut observation, _) = idle(5, &["default"]);
    let jobs = observation.jobs.known_mut();
    let flow = Flow { window: Duration::from_secs(10), before: 70, after: 77, ..Flow::default() };
    let flow = Fact::Known(Flow { arrivals_per_second: 0.7, ..flow });
    jobs.queues = vec![ObservedQueue { length: 77, in_hand: 0, flow, ..busy("mail_delivery") }];
    let queues = demands(jobs, &[]).queues;
    let plan = plan(&PlanInput { queues, ..mastodon() }).unwrap();
    let figures = &proof(&plan, Claim::KeepsUp).figures;
    let expected = "no process with a recent heartbeat takes jobs of mail_delivery, so no sample shows their run time; or give ";
    assert!(figures.starts_with(expected), "{figures}");
}

#[test]
fn more_threads_for_a_queue_that_grows_are_not_known_to_keep_up() {
    let mut said = queue("default", 102.0, 0.06);
    said.grows = true;
    let grown = plan(&PlanInput { queues: vec![said], ..mastodon() }).unwrap();
    let kept = proof(&grown, Claim::KeepsUp);
    assert_eq!(kept.outcome, ClaimOutcome::Unknown);
    let expected = "; unknown, because default grows now: if its jobs push further jobs, or begin again \
                    before they have ended, more arrive with more threads, which then do not help; if \
                    they do not, give the figures (weir plan --queue default=102,0.06)";
    assert!(kept.figures.ends_with(expected), "{}", kept.figures);
    let (mut observation, _) = idle(5, &["default"]);
    let jobs = observation.jobs.known_mut();
    let grows = |jobs: &mut crate::observation::SidekiqObservation, after| {
        let flow = Flow { window: Duration::from_secs(10), before: 400, after, ..Flow::default() };
        let flow = Fact::Known(Flow { arrivals_per_second: 102.0, ..flow });
        jobs.queues = vec![ObservedQueue { length: after, in_hand: 5, flow, ..busy("default") }];
        demands(jobs, &[]).queues[0].grows
    };
    assert!(grows(jobs, 600));
    assert!(!grows(jobs, 400) && !grows(jobs, 200));
}
