use super::*;
use crate::observation::Ordering;
use crate::plan::layout::ServiceLayout;

const QUEUES: [&str; 5] = ["default", "push", "pull", "mailers", "scheduler"];

fn worker(concurrency: u32, queues: &[&str]) -> WorkerLayout {
    WorkerLayout {
        name: format!("sidekiq-{}", queues.join("-")),
        processes: 1,
        concurrency,
        pool: concurrency,
        ordering: Ordering::Strict,
        queues: queues.iter().map(ToString::to_string).collect(),
        memory_bytes: 400 << 20,
        gaps: Vec::new(),
    }
}

fn service(name: &str, processes: u32, pool: u32) -> ServiceLayout {
    ServiceLayout {
        name: name.to_owned(),
        processes,
        threads: pool,
        pool,
        memory_bytes: 300 << 20,
        gaps: Vec::new(),
    }
}

/// The layout that many guides recommend: 185 of 200 connections, mail and scheduler behind push.
fn guides() -> ProcessLayout {
    ProcessLayout {
        services: vec![service("web", 3, 10), service("streaming", 3, 15)],
        workers: vec![
            worker(25, &["default", "push", "pull"]),
            worker(25, &["default", "pull", "push"]),
            worker(25, &["pull", "default", "push"]),
            worker(25, &["push", "default", "pull"]),
            worker(5, &["push", "scheduler"]),
            worker(5, &["push", "mailers"]),
        ],
        max_connections: 200,
        reserve: 15,
        reserved_connections: 3,
        pooler_connections: None,
        memory_bytes_max: None,
    }
}

fn broken(layout: &ProcessLayout, queues: &[&str]) -> Vec<(Claim, String)> {
    told(layout, queues, ClaimOutcome::Broken)
}

fn told(layout: &ProcessLayout, queues: &[&str], outcome: ClaimOutcome) -> Vec<(Claim, String)> {
    let proofs = judge(layout, queues).into_iter().filter(|proof| proof.outcome == outcome);
    proofs.map(|proof| (proof.claim, proof.figures)).collect()
}

#[test]
fn the_guides_split_sums_to_185_and_breaks_its_own_rule() {
    assert_eq!(guides().connections(), 185);
    let proofs = judge(&guides(), &QUEUES);
    assert!(proofs[0].holds());
    assert_eq!(proofs[0].figures, "185 of 185 connections (200 less 15 in reserve)");
    let expected = [
        (Claim::EveryQueueFirst, "no process serves mailers and scheduler first".to_owned()),
        (
            Claim::GuaranteedSlots,
            "mailers has no thread of its own (only behind push); \
             scheduler has no thread of its own (only behind push)"
                .to_owned(),
        ),
    ];
    assert_eq!(broken(&guides(), &QUEUES), expected);
}

#[test]
fn todays_queues_are_stranded_by_it() {
    let queues: Vec<_> = QUEUES.into_iter().chain(["ingress", "fasp"]).collect();
    let figures = &broken(&guides(), &queues)[0].1;
    assert!(figures.starts_with("no process serves ingress and fasp;"), "{figures}");
}

#[test]
fn with_the_two_turned_round_it_holds() {
    let mut layout = guides();
    layout.workers[4].queues.reverse();
    layout.workers[5].queues.reverse();
    assert_eq!(broken(&layout, &QUEUES), []);
    layout.workers[4].processes = 2;
    assert_eq!(broken(&layout, &QUEUES)[1].0, Claim::SchedulerOnce);
}

#[test]
fn what_was_set_aside_is_served_and_need_not_be_first() {
    let mut layout = guides();
    let queues = ["default", "pull", "pull_backlog"];
    let never = broken(&layout, &queues).remove(0).1;
    assert_eq!(never, "no process serves pull_backlog");
    layout.workers[2].queues.push("pull_backlog".to_owned());
    assert_eq!(broken(&layout, &queues), []);
}

#[test]
fn memory_that_nobody_told_is_not_judged() {
    let proofs = judge(&guides(), &QUEUES);
    assert!(proofs.iter().all(|proof| proof.claim != Claim::MemoryFits), "{proofs:?}");
}

#[test]
fn turns_by_chance_are_turns_and_no_threads_of_their_own() {
    let mut layout = guides();
    layout.workers[4].ordering = Ordering::Weighted;
    layout.workers[5].ordering = Ordering::Random;
    assert_eq!(broken(&layout, &QUEUES), []);
    let unknown = told(&layout, &QUEUES, ClaimOutcome::Unknown);
    assert_eq!((unknown.len(), unknown[0].0), (1, Claim::GuaranteedSlots));
    let expected =
        "mailers is chosen by weight or at random, in sidekiq-push-mailers with 1 more: unknown, ";
    assert!(unknown[0].1.starts_with(expected), "{unknown:?}");
}

/// The same with mail and the scheduler first, so that no rule is broken.
fn sound() -> ProcessLayout {
    let mut layout = guides();
    layout.workers[4].queues.reverse();
    layout.workers[5].queues.reverse();
    layout
}

#[test]
fn a_pool_that_is_not_said_proves_nothing() {
    let mut layout = sound();
    layout.workers[0].gaps = vec![Gap::Pool];
    let unknown = told(&layout, &QUEUES, ClaimOutcome::Unknown);
    let claims: Vec<_> = unknown.iter().map(|(claim, _)| *claim).collect();
    assert_eq!(claims, [Claim::ConnectionsFit, Claim::PoolsCoverThreads]);
    let name = "`pool` (DB_POOL) of sidekiq-default-push-pull is not given";
    assert!(unknown.iter().all(|(_, figures)| figures.contains(name)), "{unknown:?}");
    layout.reserve = 20;
    assert_eq!(broken(&layout, &QUEUES)[0].0, Claim::ConnectionsFit, "too many in any case");
}

#[test]
fn a_reason_names_what_is_missing() {
    for (gap, expected) in [
        (Gap::Processes, "unknown, because the number of processes of web is not known"),
        (Gap::Command, "unknown, because the command of web is not known"),
    ] {
        let mut layout = sound();
        layout.services[0].gaps = vec![gap];
        let unknown = told(&layout, &QUEUES, ClaimOutcome::Unknown);
        let (claim, figures) = &unknown[0];
        assert_eq!(*claim, Claim::ConnectionsFit);
        assert!(figures.contains(expected) && !figures.contains("pool"), "{figures}");
        assert!(figures.starts_with("at least "), "{figures}");
        let pools = unknown.iter().any(|(claim, _)| *claim == Claim::PoolsCoverThreads);
        assert_eq!(pools, gap == Gap::Command, "{unknown:?}");
    }
}

#[test]
fn threads_that_are_not_said_or_not_there_prove_nothing() {
    let mut layout = sound();
    (layout.workers[4].concurrency, layout.workers[4].gaps) = (0, vec![Gap::Threads]);
    let unknown = told(&layout, &QUEUES, ClaimOutcome::Unknown);
    let claims: Vec<_> = unknown.iter().map(|(claim, _)| *claim).collect();
    let expected = [Claim::GuaranteedSlots, Claim::PoolsCoverThreads, Claim::ThreadsThere];
    assert_eq!(claims, expected, "{unknown:?}");
    assert_eq!(broken(&layout, &QUEUES), []);

    layout.workers[4].gaps.clear();
    let broken = broken(&layout, &QUEUES);
    assert_eq!(broken[0].1, "no process serves scheduler");
    assert_eq!(broken.last().map(|it| it.0), Some(Claim::ThreadsThere));
}

#[test]
fn queues_that_are_not_said_prove_nothing_and_excuse_nothing() {
    let mut layout = sound();
    (layout.workers[4].queues, layout.workers[4].gaps) = (Vec::new(), vec![Gap::Queues]);
    let unknown = told(&layout, &QUEUES, ClaimOutcome::Unknown);
    let claims: Vec<_> = unknown.iter().map(|(claim, _)| *claim).collect();
    let expected = [Claim::EveryQueueFirst, Claim::GuaranteedSlots, Claim::SchedulerOnce];
    assert_eq!(claims, expected, "{unknown:?}");
    let why = "unknown, because the queues of sidekiq-push-scheduler are not given";
    assert!(unknown.iter().all(|(_, figures)| figures.contains(why)), "{unknown:?}");
    assert_eq!(broken(&layout, &QUEUES), []);
    let start = "no process with known queues serves the queue scheduler; unknown, because ";
    for queues in [&QUEUES[..], &["push"]] {
        let scheduler = told(&layout, queues, ClaimOutcome::Unknown).pop().unwrap();
        assert!(scheduler.1.starts_with(start), "{scheduler:?}");
    }
    // It may be a second scheduler process; one exists.
    layout.workers[5].queues = vec!["scheduler".to_owned()];
    assert_eq!(
        told(&layout, &["scheduler"], ClaimOutcome::Unknown),
        [(Claim::SchedulerOnce, format!("1 process serves the queue scheduler; {why}"),)]
    );
    layout.workers[3].queues = vec!["scheduler".to_owned()];
    assert_eq!(broken(&layout, &["scheduler"])[0].0, Claim::SchedulerOnce, "two are too many");
}

#[test]
fn queues_that_are_none_of_these_need_no_thread_of_their_own() {
    let figures = |claim| {
        let proofs = judge(&sound(), &["push"]).into_iter();
        proofs.filter(|it| it.claim == claim && it.holds()).map(|it| it.figures).next()
    };
    let expected = "none of the queues is mailers or scheduler".to_owned();
    assert_eq!(figures(Claim::GuaranteedSlots), Some(expected));
}

#[test]
fn slots_of_superusers_are_nobodys() {
    let mut layout = sound();
    layout.reserve = 0;
    let figures = &judge(&layout, &QUEUES)[0].figures;
    let expected = "185 of 197 connections (200 less 3 that Postgres reserves for superusers)";
    assert_eq!(figures, expected);
    layout.max_connections = 187;
    assert_eq!(broken(&layout, &QUEUES)[0].0, Claim::ConnectionsFit);
    layout.max_connections = 188;
    let proof = judge(&layout, &QUEUES).remove(0);
    assert!(proof.holds() && proof.figures.ends_with("rejected during a deployment"), "{proof:?}");
}

#[test]
fn behind_a_pooler_its_connections_are_to_fit() {
    let mut layout = sound();
    (layout.max_connections, layout.pooler_connections) = (100, Some(80));
    let proof = judge(&layout, &QUEUES).remove(0);
    let expected = "80 of 85 connections (100 less 15 in reserve), opened by the pooler; pools of \
                    185 connect to it";
    assert_eq!((proof.outcome, proof.figures.as_str()), (ClaimOutcome::Holds, expected));
    layout.pooler_connections = Some(86);
    assert_eq!(broken(&layout, &QUEUES)[0].0, Claim::ConnectionsFit);
}

#[test]
fn an_order_that_is_none_is_said() {
    let mut layout = sound();
    (layout.workers[0].gaps, layout.workers[0].ordering) = (vec![Gap::Order], Ordering::Weighted);
    assert_eq!(broken(&layout, &QUEUES)[0].0, Claim::OneOrder);
}

#[test]
fn small_pools_and_small_machines_are_found() {
    let mut layout = guides();
    layout.workers[0].pool = 24;
    layout.memory_bytes_max = Some(1 << 30);
    let claims: Vec<_> = broken(&layout, &["push"]).into_iter().map(|(claim, _)| claim).collect();
    assert_eq!(claims, [Claim::PoolsCoverThreads, Claim::MemoryFits]);
}

#[test]
fn what_was_set_aside_stands_last() {
    let judged = |queues: &[&str], ordering| {
        let worker = WorkerLayout { ordering, ..worker(5, queues) };
        let layout = ProcessLayout { workers: vec![worker], ..guides() };
        let proofs = judge(&layout, &["default", "pull", "pull_backlog"]).into_iter();
        let proof = proofs.into_iter().find(|proof| proof.claim == Claim::SetAsideLast);
        proof.map(|proof| (proof.outcome, proof.figures))
    };
    let said = |outcome, figures: &str| Some((outcome, figures.to_owned()));
    let strict = Ordering::Strict;
    assert_eq!(judged(&["default", "pull"], strict), None);
    assert_eq!(
        judged(&["default", "pull", "pull_backlog"], strict),
        said(ClaimOutcome::Holds, "pull_backlog")
    );
    assert_eq!(judged(&["pull_backlog"], strict), said(ClaimOutcome::Holds, "pull_backlog"));
    let name = "sidekiq-default-pull_backlog-pull";
    assert_eq!(
        judged(&["default", "pull_backlog", "pull"], strict),
        said(ClaimOutcome::Broken, &format!("pull_backlog is before pull in {name}"))
    );
    assert_eq!(
        judged(&["default", "pull_backlog", "pull"], Ordering::Weighted),
        said(
            ClaimOutcome::Unknown,
            &format!("pull_backlog is chosen by weight or at random in {name}")
        )
    );
}
