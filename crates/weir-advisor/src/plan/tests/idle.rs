//! Plans for queues without observed load.

use super::*;
use crate::observation::Ordering;
use crate::plan::{DemandSource, demands};

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
