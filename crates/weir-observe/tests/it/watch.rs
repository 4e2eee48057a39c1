//! Looks again and again, at real servers.

use std::time::Duration;

use weir_advisor::advise;
use weir_advisor::observation::{Fact, MissingReason, Observation, SourceKind};
use weir_base::clock::Clock;
use weir_observe::{
    PollSchedule, PostgresEndpoint, PostgresLimits, PostgresSource, Round, Sources, Watcher,
};
use weir_sidekiq::{RedisEndpoint, SampleLimits};

use crate::postgres_server::PostgresServer;
use crate::redis_server::RedisServer;

const SCHEDULE: PollSchedule = PollSchedule {
    interval: Duration::from_millis(20),
    sample_timeout: Duration::from_secs(30),
    // Longer than a round takes on a busy machine, so that a source that is away is spared.
    retry_max: Duration::from_secs(2),
};
/// A source that came back is asked again within this many looks of a millisecond's pause.
const ROUNDS_MAX: usize = 2_000;

fn watcher(redis: Vec<RedisEndpoint>, postgres: Option<PostgresSource>, clock: &Clock) -> Watcher {
    let sources = Sources {
        redis,
        limits: SampleLimits::default(),
        postgres,
        services: Vec::new(),
        pooler: None,
        pgbouncer: None,
        pushed_queues: Vec::new(),
        window: SCHEDULE.interval,
        proc: Some("/proc".into()),
    };
    Watcher::new(sources, SCHEDULE, clock.clone(), &mut fastrand::Rng::with_seed(7))
}

fn database(server: &PostgresServer) -> PostgresSource {
    PostgresSource {
        endpoint: PostgresEndpoint::parse(&server.url("postgres")).unwrap(),
        limits: PostgresLimits { statements_max: 20, ..PostgresLimits::default() },
        memory_bytes: None,
    }
}

fn push(redis: &RedisServer, jobs: usize) {
    let job = r#"{"class":"A","args":[],"enqueued_at":1700000000}"#;
    let words: Vec<&str> =
        ["LPUSH", "queue:push"].into_iter().chain(std::iter::repeat_n(job, jobs)).collect();
    redis.run(&[&["SADD", "queues", "push"], &words]);
}

fn length(observation: &Observation) -> Option<u64> {
    Some(observation.jobs.known()?.queue("push")?.length)
}

fn connections_of(redis: &RedisServer) -> u64 {
    let info: String = redis::cmd("INFO").arg("stats").query(&mut redis.client()).unwrap();
    let line = info.lines().find_map(|it| it.strip_prefix("total_connections_received:"));
    line.unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn each_look_is_the_second_of_the_one_before() {
    let Some(server) = RedisServer::start() else { return };
    push(&server, 10);
    let mut watcher = watcher(vec![server.endpoint()], None, &Clock::system());
    let first = watcher.round().await;
    assert_eq!(length(&first.observation), Some(10));
    let before = connections_of(&server);
    push(&server, 30);
    let second = watcher.round().await;
    let jobs = second.observation.jobs.known().unwrap();
    let flow = jobs.queue("push").unwrap().flow.known().unwrap();
    assert_eq!((flow.before, flow.after), (10, 40));
    // One of a test that pushed, one that asks; the watcher has kept its own.
    assert_eq!(connections_of(&server), before + 2);
    let redis = second.observation.redis[0].known().unwrap();
    let lately = redis.lately.known().unwrap();
    assert!(lately.commands.iter().any(|it| it.command == "LPUSH"), "{lately:?}");
    assert!(redis.info.operations > 0 && lately.per_second > 0.0);
    let source = &second.sources[0];
    assert_eq!((source.kind, source.looks, source.failures), (SourceKind::Redis, 2, 0));
    assert!((30..500).contains(&source.questions), "{source:?}");
    assert!(second.observation.machine.known().is_some());
}

/// Looks until something is so.
async fn round_with(watcher: &mut Watcher, mut is_so: impl FnMut(&Round) -> bool) -> Round {
    for _ in 0..ROUNDS_MAX {
        let round = watcher.round().await;
        if is_so(&round) {
            return round;
        }
        tokio::task::yield_now().await;
    }
    panic!("it did not come to pass in {ROUNDS_MAX} looks");
}

#[tokio::test]
async fn a_source_that_is_away_is_unknown_keeps_no_other_and_comes_back() {
    let Some(redis) = RedisServer::start() else { return };
    let Some(postgres) = PostgresServer::start(&[]) else { return };
    push(&redis, 10);
    let port = redis.port;
    let mut watcher = watcher(vec![redis.endpoint()], Some(database(&postgres)), &Clock::system());
    assert_eq!(length(&watcher.round().await.observation), Some(10));
    drop(redis);
    let round = watcher.round().await;
    let missing = round.observation.jobs.missing().unwrap();
    assert_eq!(missing.obstacle, MissingReason::Unreachable);
    assert!(round.observation.redis[0].missing().is_some());
    assert!(round.observation.postgres.known().unwrap().connections.known().is_some());
    let (of_redis, of_postgres) = (&round.sources[0], &round.sources[1]);
    assert_eq!((of_redis.failures, of_postgres.failures), (1, 0));
    assert_eq!(of_redis.problem.as_ref(), Some(missing));
    let spared = Box::pin(round_with(&mut watcher, |round| round.sources[0].spared > 0)).await;
    assert!(spared.observation.jobs.missing().is_some(), "what is not asked is not known");

    let Some(again) = RedisServer::start_at(port) else { return };
    push(&again, 3);
    let round =
        Box::pin(round_with(&mut watcher, |round| length(&round.observation) == Some(3))).await;
    assert_eq!(round.sources[0].problem, None);
    let flow = round.observation.jobs.known().unwrap().queue("push").unwrap().flow.clone();
    assert_eq!(flow.known().unwrap().before, 3, "nothing is compared with the one before");
    watcher.close().await;
}

#[tokio::test]
async fn statements_are_told_without_values_where_they_are_kept() {
    let settings = ["shared_preload_libraries=pg_stat_statements"];
    let Some(server) = PostgresServer::start(&settings) else { return };
    let mut watcher = watcher(Vec::new(), Some(database(&server)), &Clock::system());
    let round = watcher.round().await;
    let statements = |round: &Round| round.observation.postgres.known().unwrap().statements.clone();
    let Fact::Unknown(missing) = statements(&round) else { panic!("{round:?}") };
    assert_eq!(missing.obstacle, MissingReason::NotSupported);
    assert!(missing.remedy.unwrap().contains("CREATE EXTENSION"));
    let unseen = advise(&round.observation).findings.into_iter().find(|it| it.rule == "unseen");
    assert_eq!(unseen, None, "to have it is no duty");
    assert_eq!(round.sources[0].failures, 0, "and not to have it no failure");

    server.run("CREATE EXTENSION pg_stat_statements");
    server.run("SELECT 'hunter2' AS mark FROM pg_sleep(0.05)");
    server.run("CREATE ROLE shop PASSWORD 'hunter2'");
    let Fact::Known(seen) = statements(&watcher.round().await) else { panic!("not seen") };
    let marked = seen.iter().find(|it| it.text.contains("AS mark")).expect("it took longest");
    assert_eq!((marked.calls, marked.total >= Duration::from_millis(50)), (1, true));
    assert!(!format!("{seen:?}").contains("hunter2"), "{seen:?}");
    watcher.close().await;
    let log = server.end();
    assert!(!log.iter().any(|line| line.contains("unexpected EOF")), "{log:?}");
}

#[tokio::test]
async fn a_source_that_says_nothing_ends_with_its_time() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let sources = vec![RedisEndpoint::parse(&url).unwrap()];
    let mut watcher = watcher(sources, None, &Clock::system());
    let looking = watcher.round();
    // Dropped on the way, as at the end of a service: there is nothing that it holds.
    drop(tokio::time::timeout(Duration::from_millis(1), looking).await);
    let sources = Sources {
        redis: vec![RedisEndpoint::parse(&url).unwrap()],
        limits: SampleLimits::default(),
        postgres: None,
        services: Vec::new(),
        pooler: None,
        pgbouncer: None,
        pushed_queues: Vec::new(),
        window: SCHEDULE.interval,
        proc: None,
    };
    let schedule = PollSchedule { sample_timeout: Duration::from_millis(50), ..SCHEDULE };
    let mut random = fastrand::Rng::with_seed(7);
    let mut watcher = Watcher::new(sources, schedule, Clock::system(), &mut random);
    let round = watcher.round().await;
    let reason = &round.observation.jobs.missing().unwrap().reason;
    assert!(reason.contains("50ms"), "{reason}");
}
