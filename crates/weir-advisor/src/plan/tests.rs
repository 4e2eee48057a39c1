mod idle;
mod isolation;
mod property;

use proptest::prelude::*;

use super::*;
use crate::advise;
use crate::healthy;
use crate::observation::{DatabaseHost, Fact, JobSample, Observation, SampleShare, SessionState};

const GIB: u64 = 1 << 30;

fn queue(name: &str, arrivals_per_second: f64, service_seconds: f64) -> QueueDemand {
    QueueDemand::said(name.to_owned(), arrivals_per_second, service_seconds)
}

/// Plans with a target for one queue.
fn aimed(name: &str, target_seconds: f64, wanted: PlanInput) -> Result<Plan, Impossible> {
    let mut wanted = wanted;
    let queue = wanted.queues.iter_mut().find(|queue| queue.name == name);
    queue.unwrap().target_seconds = Some(target_seconds);
    plan(&wanted)
}

/// Returns Mastodon's queues on 4 cores, 8 GB and 200 connections.
fn mastodon() -> PlanInput {
    PlanInput {
        cores: 4,
        memory_bytes: 8 * GIB,
        postgres_memory_bytes: 2 * GIB,
        redis_memory_bytes: GIB / 2,
        storage: Storage::Ssd,
        max_connections: 200,
        reserve: 15,
        reserved_connections: RESERVED_CONNECTIONS,
        pooler_connections: None,
        web: WebDemand {
            requests_per_second: 30.0,
            service_seconds: 0.1,
            threads: 5,
            processes_now: 0,
        },
        streaming: (1, 10),
        queues: vec![
            queue("default", 5.0, 0.2),
            queue("push", 20.0, 0.5),
            queue("ingress", 10.0, 0.1),
            queue("mailers", 0.05, 1.0),
            queue("pull", 2.0, 1.0),
            queue("scheduler", 0.01, 5.0),
            queue("fasp", 0.1, 0.5),
        ],
        process_memory: ProcessMemory::default(),
        redis_policy: RedisPolicy::KeepAll,
        lacks_pool_connections: false,
    }
}

#[test]
fn pools_of_which_jobs_show_that_they_are_too_small_are_not_assumed_to_be_as_planned() {
    let pools = |wanted: &PlanInput| {
        let plan = plan(wanted).unwrap();
        plan.proofs.into_iter().find(|it| it.claim == Claim::PoolsCoverThreads).unwrap()
    };
    assert!(pools(&mastodon()).holds());
    let proof = pools(&PlanInput { lacks_pool_connections: true, ..mastodon() });
    assert_eq!(proof.outcome, ClaimOutcome::Unknown);
    assert!(proof.figures.contains("let pool in config/database.yml read it"), "{proof:?}");
    let mut observation = crate::healthy::observation();
    assert_eq!(held_up(&observation), Vec::<String>::new());
    let retries = &mut observation.jobs.known_mut().retries;
    let name = "ActiveRecord::ConnectionTimeoutError".to_owned();
    let errors = vec![SampleShare { name, count: 9 }];
    retries.size = 40;
    retries.sample = Fact::Known(JobSample { size: 10, errors, ..JobSample::default() });
    assert!(observation.jobs.known_mut().lacks_pool_connections());
    assert!(held_up(&observation)[0].contains("had no free connection for them"));
}

#[test]
fn mastodons_queues_fit_on_a_small_machine() {
    let plan = plan(&mastodon()).unwrap();
    assert!(plan.proofs.iter().all(Proof::holds), "{:?}", plan.proofs);
    let firsts: Vec<_> = plan.layout.workers.iter().map(|it| it.queues[0].as_str()).collect();
    for queue in ["default", "push", "ingress", "mailers", "pull", "scheduler", "fasp"] {
        assert!(firsts.contains(&queue), "{queue} in {firsts:?}");
    }
    assert!(plan.layout.connections() <= 185);
    let threads: Vec<_> =
        plan.layout.workers.iter().map(|it| (it.name.as_str(), it.concurrency)).collect();
    let expected = [
        ("sidekiq-mailers", 1),
        ("sidekiq-scheduler", 1),
        ("sidekiq-push", 16),
        ("sidekiq-pull", 4),
        ("sidekiq-default", 2),
        ("sidekiq-ingress", 2),
        ("sidekiq-fasp", 1),
    ];
    assert_eq!(threads, expected);
    assert_eq!(plan.layout.services[0].processes, 2);
    let buffers = plan.postgres.iter().find(|it| it.name == "shared_buffers").unwrap();
    assert_eq!(buffers.value, "512MB", "a quarter of the database's share, not of the machine");
}

#[test]
fn a_database_that_is_too_small_is_said_with_figures() {
    let wanted = PlanInput { max_connections: 20, ..mastodon() };
    let broken = plan(&wanted).unwrap_err().broken;
    assert_eq!(broken[0].claim, Claim::ConnectionsFit);
    assert!(broken[0].figures.contains("of 5"), "{}", broken[0].figures);
}

#[test]
fn threads_are_capped_by_cores() {
    // 80 busy threads on one core would only wait for it.
    let mut wanted = PlanInput { cores: 1, max_connections: 500, ..mastodon() };
    wanted.queues = vec![queue("default", 160.0, 0.5)];
    let Impossible { broken, remedies } = plan(&wanted).unwrap_err();
    assert_eq!(broken[0].claim, Claim::CoresEnough);
    assert!(broken[0].figures.ends_with("of 25 threads that 1 core can keep busy"), "{broken:?}");
    assert!(remedies[0].starts_with("5 cores (--cores 5)"), "{remedies:?}");
    wanted.queues = vec![queue("default", 20.0, 0.5)];
    let sidekiq = &plan(&wanted).unwrap().layout.workers[0];
    assert_eq!(sidekiq.concurrency, 14, "25 less those of web and streaming; 22 were enough");
}

/// Returns one queue whose jobs take `cpu_seconds` of CPU time.
fn computing(name: &str, cpu_seconds: f64) -> PlanInput {
    let queues = vec![QueueDemand { cpu_seconds: Some(cpu_seconds), ..queue(name, 6.1, 0.45) }];
    PlanInput { queues, ..mastodon() }
}

fn keeps_up(proofs: &[Proof]) -> &Proof {
    proofs.iter().find(|proof| proof.claim == Claim::KeepsUp).unwrap()
}

#[test]
fn jobs_that_compute_get_a_process_for_each_core() {
    let plan = plan(&computing("thumbs", 0.22)).unwrap();
    assert_eq!(plan.layout.workers[0].processes, 2, "6.1/s x 0.22 s = 1.3 cores");
    let expected = "the fullest is thumbs, with 2.7 of 10 threads busy on average and 1.3 of 2 cores \
                    used";
    assert_eq!(keeps_up(&plan.proofs).figures, expected);
    let broken = super::plan(&computing("scheduler", 0.22)).unwrap_err().broken;
    let expected = "jobs of scheduler use 1.3 cores, and 1 process of Ruby can use one each";
    assert_eq!(keeps_up(&broken).figures, expected, "a second process is not allowed");
}

#[test]
fn jobs_that_compute_more_than_the_machine_can_are_refused() {
    let Impossible { broken, remedies } = plan(&computing("thumbs", 1.0)).unwrap_err();
    assert_eq!(broken[0].claim, Claim::CoresEnough);
    let expected = "; the CPU time of the jobs takes 6.1 cores";
    assert!(broken[0].figures.ends_with(expected), "{broken:?}");
    assert!(remedies[0].starts_with("7 cores (--cores 7)"), "{remedies:?}");
}

#[test]
fn a_plan_without_the_cpu_time_says_what_it_assumes() {
    let figures = |wanted: &PlanInput| keeps_up(&plan(wanted).unwrap().proofs).figures.clone();
    let mut wanted = mastodon();
    let assumed = figures(&wanted);
    assert!(assumed.contains("if jobs mostly wait, for a database or the network"), "{assumed}");
    wanted.queues.iter_mut().for_each(|queue| queue.cpu_seconds = Some(0.01));
    assert!(!figures(&wanted).contains("mostly wait"));
    wanted.queues[0].cpu_seconds = None;
    let assumed = figures(&wanted);
    assert!(assumed.contains("if jobs of default mostly wait"), "{assumed}");
}

#[test]
fn queues_that_are_held_up_keep_the_threads_that_they_have() {
    let mut wanted = mastodon();
    let held_up = |name: &str| QueueDemand {
        known: DemandSource::HeldUp,
        threads_now: 5,
        // With the assumed duration, 40 threads.
        ..queue(name, 200.0, 0.2)
    };
    wanted.queues = vec![held_up("default"), held_up("push"), queue("pull", 2.0, 1.0)];
    let layout = plan(&wanted).unwrap().layout;
    let threads = |name: &str| layout.workers.iter().find(|it| it.name == name).unwrap().threads();
    assert_eq!((threads("sidekiq-default"), threads("sidekiq-push")), (5, 5));
    // Without running processes, there are no threads to preserve.
    wanted.queues = vec![QueueDemand { threads_now: 0, ..queue("default", 20.0, 0.2) }];
    wanted.queues[0].known = DemandSource::HeldUp;
    assert!(plan(&wanted).unwrap().layout.workers[0].threads() > 4);
}

#[test]
fn a_process_that_is_idle_helps_the_most_important_queue_first() {
    let mut wanted = mastodon();
    wanted.queues = vec![
        queue("default", 1.0, 0.1),
        queue("push", 10.0, 0.5),
        queue("pull", 2.0, 1.0),
        queue("fasp", 0.1, 0.1),
    ];
    let order = |wanted: &PlanInput, name: &str| {
        let layout = plan(wanted).unwrap().layout;
        layout.workers.iter().find(|it| it.name == name).unwrap().queues.join(" ")
    };
    assert_eq!(order(&wanted, "sidekiq-fasp"), "fasp default push pull");
    assert_eq!(order(&wanted, "sidekiq-push"), "push default pull fasp");
    // In the order of the running processes.
    for (at, queue) in (0..).zip(&mut wanted.queues) {
        queue.importance = 9 - at;
    }
    assert_eq!(order(&wanted, "sidekiq-default"), "default fasp pull push");
}

#[test]
fn a_target_gets_its_threads_or_is_refused_with_figures() {
    let threads = |plan: &Plan, name: &str| {
        plan.layout.workers.iter().find(|it| it.name == name).unwrap().concurrency
    };
    let plan = aimed("default", 0.5, mastodon()).unwrap();
    assert_eq!(threads(&plan, "sidekiq-default"), 7, "a thread for pull's second each 3 waits");
    let proof = plan.proofs.last().unwrap();
    assert_eq!((proof.claim, proof.holds()), (Claim::TargetsKept, true));
    assert_eq!(proof.figures, "default 499 ms of 500 ms");
    let plan = aimed("scheduler", 0.1, mastodon()).unwrap_err();
    assert_eq!(plan.broken[0].claim, Claim::TargetsKept);
    assert_eq!(plan.broken[0].figures, "scheduler 600 ms of 100 ms");
}

#[test]
fn mail_that_comes_fast_gets_the_processes_that_it_takes() {
    let mut wanted =
        PlanInput { cores: 16, memory_bytes: 64 * GIB, max_connections: 500, ..mastodon() };
    wanted.queues = vec![queue("mailers", 100.0, 1.0), queue("default", 5.0, 0.1)];
    let mail = &plan(&wanted).unwrap().layout.workers[0];
    assert!(mail.processes * mail.concurrency > 130, "{mail:?}");
    wanted.queues[0].name = "scheduler".to_owned();
    let broken = plan(&wanted).unwrap_err().broken;
    assert_eq!(broken[0].claim, Claim::KeepsUp, "only one process may serve it");
    assert_eq!(broken[0].figures, "scheduler keeps 100.0 threads busy and has 25");
}

#[test]
fn what_was_set_aside_is_last_where_its_queue_is_and_first_nowhere() {
    let mut wanted = mastodon();
    wanted.queues.insert(0, queue("pull_backlog", 0.0, 0.2));
    let plan = plan(&wanted).unwrap();
    let serving: Vec<_> =
        plan.layout.workers.iter().filter(|it| it.serves("pull_backlog")).collect();
    assert_eq!(serving.len(), 5);
    for worker in serving {
        assert_eq!(worker.queues.last().map(String::as_str), Some("pull_backlog"));
        assert!(worker.serves("pull") && worker.queues.len() > 1, "{worker:?}");
    }
}

#[test]
fn what_was_set_aside_takes_no_thread_of_mail() {
    let backlog = ["pull_backlog".to_owned()];
    for others in [&["mailers", "scheduler"][..], &["mailers"], &[]] {
        let mut wanted = mastodon();
        wanted.queues = others.iter().map(|name| queue(name, 0.1, 0.1)).collect();
        wanted.queues.push(queue("pull_backlog", 50.0, 1.0));
        let plan = plan(&wanted).unwrap();
        let (aside, mail) = plan.layout.workers.split_last().unwrap();
        assert_eq!((aside.queues.as_slice(), aside.concurrency), (&backlog[..], 1));
        assert!(mail.iter().all(|it| it.queues.len() == 1), "{mail:?}");
    }
}

#[test]
fn any_name_of_a_queue_gives_a_worker_a_name_of_its_own() {
    let names = ["mail.out", "mail_out", "Mail", "action_mailbox_incineration_of_a"];
    let mut wanted = mastodon();
    let others = ["action_mailbox_incineration_of_b"];
    wanted.queues = names.iter().chain(&others).map(|name| queue(name, 1.0, 0.1)).collect();
    let plan = plan(&wanted).unwrap();
    let mut names: Vec<_> = plan.layout.workers.iter().map(|it| it.name.as_str()).collect();
    names.sort_unstable();
    let expected = [
        "sidekiq-action_mailbox_incinerat",
        "sidekiq-action_mailbox_inciner-2",
        "sidekiq-mail",
        "sidekiq-mail_out",
        "sidekiq-mail_out-2",
    ];
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(names, expected);
}

#[test]
fn services_elsewhere_get_no_settings() {
    let wanted = PlanInput { postgres_memory_bytes: 0, redis_memory_bytes: 0, ..mastodon() };
    let plan = plan(&wanted).unwrap();
    assert_eq!((plan.postgres.len(), plan.redis.len()), (0, 0));
}

#[test]
fn little_memory_has_rare_queues_share_a_process() {
    let wanted = PlanInput { memory_bytes: 9 * GIB / 2, postgres_memory_bytes: GIB, ..mastodon() };
    let plan = plan(&wanted).unwrap();
    let full = super::plan(&mastodon()).unwrap();
    assert!(plan.layout.workers.len() < full.layout.workers.len());
}

/// Returns the observation of a running plan.
fn observed(plan: &Plan) -> Observation {
    let mut observation = healthy::observation();
    let workers = plan.layout.workers.iter();
    let process = |(pid, worker): (u32, &WorkerLayout)| {
        let queues: Vec<_> = worker.queues.iter().map(|name| (name.as_str(), 1)).collect();
        healthy::process(pid, worker.concurrency, worker.ordering, &queues)
    };
    observation.jobs.known_mut().processes = (1..).zip(workers.clone()).map(process).collect();
    let web = plan.layout.services.iter();
    let web = web.map(|it| healthy::service(&it.name, it.processes, it.pool, "DB_POOL="));
    let workers = workers.map(|it| healthy::service(&it.name, it.processes, it.pool, "-c "));
    *observation.services.known_mut() = web.chain(workers).collect();
    let postgres = observation.postgres.known_mut();
    // All pools are fully open.
    let services = observation.services.known_mut().iter();
    let open = services
        .map(|it| healthy::sessions(&it.name, SessionState::Active, it.processes * it.pool));
    postgres.connections.known_mut().sessions = open.collect();
    postgres.host =
        Fact::Known(DatabaseHost { memory_bytes: 2 * GIB, share_bytes: 2 * GIB, is_said: true });
    let settings = postgres.settings.known_mut();
    (settings.shared_buffers_bytes, settings.work_mem_bytes) = (GIB / 2, 4 << 20);
    settings.effective_cache_size_bytes = GIB / 2 * 3;
    observation
}

#[test]
fn doctor_has_nothing_against_a_plan() {
    let plan = plan(&mastodon()).unwrap();
    let value = |name: &str| {
        let setting = plan.postgres.iter().find(|setting| setting.name == name).unwrap();
        setting.value.clone()
    };
    let planned = ["shared_buffers", "work_mem", "effective_cache_size"].map(value);
    assert_eq!(planned, ["512MB", "4MB", "1536MB"], "what is observed below");
    assert_eq!(advise(&observed(&plan)).findings, []);
}

#[test]
fn doctor_has_nothing_against_a_plan_that_uses_every_connection() {
    let plan = plan(&mastodon()).unwrap();
    let mut observation = observed(&plan);
    let settings = observation.postgres.known_mut().settings.known_mut();
    settings.max_connections =
        u32::try_from(plan.layout.connections()).unwrap() + mastodon().reserve;
    assert_eq!(advise(&observation).findings, []);
}

fn demands(rates: &[(f64, f64)]) -> Vec<QueueDemand> {
    let name = |at: usize| match at {
        0 => "scheduler".to_owned(),
        1 => "mailers".to_owned(),
        _ => format!("q{at}"),
    };
    let numbered = rates.iter().enumerate();
    numbered.map(|(at, (rate, service))| queue(&name(at), *rate, *service)).collect()
}

proptest! {
    #[test]
    fn where_there_is_enough_of_everything_there_is_a_plan(
        rates in proptest::collection::vec((0.0..20.0f64, 0.0..1.0f64), 1..12),
        target in proptest::option::of(0.5..60.0f64),
    ) {
        let mut queues = demands(&rates);
        let aimed = queues.iter_mut().filter(|queue| !queue.name.starts_with("mailers"));
        aimed.for_each(|queue| queue.target_seconds = target);
        let (cores, memory_bytes, max_connections) = (64, 256 * GIB, 2_000);
        let wanted = PlanInput { cores, memory_bytes, max_connections, queues, ..mastodon() };
        let plan = plan(&wanted).map_err(|it| TestCaseError::fail(format!("{it:?}")))?;
        let need: f64 = rates.iter().map(|(rate, service)| rate * service).sum();
        let threads: u32 =
            plan.layout.workers.iter().map(|it| it.processes * it.concurrency).sum();
        prop_assert!(f64::from(threads) >= need, "{} threads for {}", threads, need);
    }
}
