//! The pages of what is observed, over looks that are made up.

mod plan;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::StatusCode;
use weir_advisor::flow::Flow;
use weir_advisor::observation::{
    Capsule, CommandRate, DatabaseConnections, DatabaseObservation, DatabaseUpkeep, Fact,
    JobProcess, LockWait, Missing, MissingReason, ObservedQueue, PostgresSettings, RedisInfo,
    RedisOperations, RedisServer, SessionState, SessionWait, Sessions, ShardJobs,
    SidekiqObservation, SlowCommand, SourceKind, SourceState, StatementTimes, TableStatistics,
    WeightedQueue,
};
use weir_advisor::{Observation, advise};
use weir_base::clock::Timestamp;
use weir_base::shutdown::ShutdownToken;
use weir_console::observed::{ObservedSnapshot, ObservedSnapshots};
use weir_console::sampler::Sampler;

use crate::site::{Site, eventually};

const HOSTILE: &str = "<script>alert(1)</script>\u{202e}'\"";

/// Looks that a test has made up.
#[derive(Debug, Default)]
struct ObservedStub(Mutex<Option<Arc<ObservedSnapshot>>>);

impl ObservedSnapshots for ObservedStub {
    fn latest(&self) -> Option<Arc<ObservedSnapshot>> {
        self.0.lock().expect("a snapshot").clone()
    }
}

impl ObservedStub {
    fn new(observation: Observation) -> Arc<Self> {
        let stub = Self::default();
        stub.show(observation);
        Arc::new(stub)
    }

    /// Sets the next snapshot.
    fn show(&self, observation: Observation) {
        let (at, took) = (Timestamp::from_millis(1_000_000), Duration::from_millis(12));
        let advice = advise(&observation);
        let problem = observation.jobs.missing().cloned();
        let source = SourceState {
            kind: SourceKind::Redis,
            name: "127.0.0.1:6379".to_owned(),
            looks: 9,
            failures: u64::from(problem.is_some()),
            problem,
            spared: 0,
            questions: 300,
            took,
        };
        let snapshot = ObservedSnapshot { at, took, observation, advice, sources: vec![source] };
        *self.0.lock().expect("a snapshot") = Some(Arc::new(snapshot));
    }
}

fn jobs(queue: &str) -> SidekiqObservation {
    let flow = Flow {
        window: Duration::from_secs(15),
        before: 60_600,
        after: 60_000,
        arrivals_per_second: 4.0,
        deviation: None,
    };
    let late = ObservedQueue {
        name: queue.to_owned(),
        pushed: true,
        length: 60_000,
        latency: Duration::from_secs(7_200),
        flow: Fact::Known(flow),
        ..ObservedQueue::default()
    };
    let unserved = ObservedQueue {
        name: "mailers".to_owned(),
        pushed: true,
        length: 40,
        latency: Duration::from_secs(3_700),
        flow: Fact::Known(Flow { before: 40, after: 40, ..flow }),
        ..ObservedQueue::default()
    };
    let served = ["mailer", queue].map(|name| WeightedQueue { name: name.to_owned(), weight: 0 });
    let capsule = Capsule { concurrency: 25, queues: served.into(), ..Capsule::default() };
    let process = JobProcess {
        identity: "web:7:0123456789ab".to_owned(),
        busy: 24,
        capsules: vec![capsule],
        ..JobProcess::default()
    };
    SidekiqObservation {
        queues: vec![late, unserved],
        processes: vec![process],
        ..SidekiqObservation::default()
    }
}

fn postgres() -> DatabaseObservation {
    let sessions = |service: &str, state, count| Sessions {
        service: service.to_owned(),
        state,
        count,
        longest: Duration::from_secs(75),
    };
    DatabaseObservation {
        user: None,
        settings: Fact::Known(PostgresSettings {
            max_connections: 100,
            superuser_reserved_connections: 3,
            shared_buffers_bytes: 128 << 20,
            effective_cache_size_bytes: 4 << 30,
            work_mem_bytes: 4 << 20,
            random_page_cost: 4.0,
        }),
        connections: Fact::Known(DatabaseConnections {
            sessions: vec![
                sessions("web", SessionState::Idle, 60),
                sessions("web", SessionState::IdleInTransaction, 2),
                sessions(HOSTILE, SessionState::Active, 5),
            ],
        }),
        cache_hit_ratio: Fact::Known(0.87),
        is_here: true,
        lock_waits: Fact::Known(vec![LockWait {
            maintenance: None,
            blocking_event: None,
            waiting_pid: 4_712,
            waiting_service: "sidekiq push".to_owned(),
            blocking_service: "web".to_owned(),
            blocking_pid: 4_711,
            blocking_state: None,
            relation: Some("accounts".to_owned()),
            is_advisory: false,
            is_of_row: false,
            waited: Duration::from_secs(62),
        }]),
        waits: Fact::Known(vec![SessionWait {
            kind: "IO".to_owned(),
            event: "DataFileRead".to_owned(),
            count: 3,
        }]),
        statements: Fact::Known(vec![StatementTimes {
            text: "SELECT * FROM statuses WHERE id = $1".to_owned(),
            calls: 1_000,
            total: Duration::from_secs(50),
            share: 0.61,
        }]),
        tables: Fact::Known(vec![TableStatistics {
            name: HOSTILE.to_owned(),
            live_rows: 60_000,
            dead_rows: 50_000,
            ..TableStatistics::default()
        }]),
        upkeep: Fact::Known(DatabaseUpkeep { autovacuum: true, ..DatabaseUpkeep::default() }),
        ..DatabaseObservation::default()
    }
}

fn redis() -> RedisServer {
    let lately = RedisOperations {
        per_second: 1_234.0,
        evicted_per_second: 0.0,
        commands: vec![CommandRate {
            command: "BRPOP".to_owned(),
            per_second: 1_000.0,
            mean: Duration::from_micros(7),
            share: 0.007,
        }],
        ..RedisOperations::default()
    };
    let slow = SlowCommand {
        command: "LRANGE".to_owned(),
        took: Duration::from_millis(120),
        age: Duration::from_secs(5),
    };
    RedisServer {
        name: HOSTILE.to_owned(),
        info: RedisInfo {
            used_memory_bytes: 512 << 20,
            maxmemory_policy: "noeviction".to_owned(),
            ..RedisInfo::default()
        },
        lately: Fact::Known(lately),
        slow_commands: Fact::Known(vec![slow]),
        ..RedisServer::default()
    }
}

fn observation(queue: &str) -> Observation {
    Observation {
        jobs: Fact::Known(jobs(queue)),
        redis: vec![Fact::Known(redis())],
        postgres: Fact::Known(postgres()),
        ..Observation::default()
    }
}

#[tokio::test]
async fn doctor_shows_findings_with_remedies_and_the_overview_its_verdict() {
    let site = Site::with_observed(ObservedStub::new(observation("push")));
    let mut browser = site.browser();
    let page = browser.get("/doctor").await;
    for text in [
        "did you mean &#34;mailers&#34;?",
        "unserved-queue",
        "-q mailers",
        "href=\"/observed/queue?name=push\">push</a>",
        "60,000",
        "24 of 25",
        "127.0.0.1:6379",
    ] {
        page.assert_shows(text);
    }
    let overview = browser.get("/").await;
    overview.assert_shows("queue mailers: 40 jobs wait");
    overview.assert_shows("href=\"/doctor\"");
    assert_eq!(browser.get("/live/doctor").await.status, StatusCode::OK);
}

#[tokio::test]
async fn an_observed_queue_has_a_page_and_charts_up_to_the_limit() {
    let site = Site::with_observed(ObservedStub::new(observation("push")));
    let mut browser = site.browser();
    let address = "/observed/queue?name=push";
    let page = browser.get(address).await;
    // 600 fewer in 15 seconds while 4 a second came: 60,000 at 40 a second.
    for text in ["<h1 class=\"breakable\">Queue push</h1>", "60,000", "44.0/s", "25 min", "mailer"]
    {
        page.assert_shows(text);
    }
    assert_eq!(browser.get("/live/observed/queue?name=push").await.status, StatusCode::OK);
    let none = browser.get("/observed/queue?name=nobodys").await;
    assert_eq!(none.status, StatusCode::NOT_FOUND);
    none.assert_shows("Sidekiq has no queue &#34;nobodys&#34;");
    let unserved = browser.get("/observed/queue?name=mailers").await;
    unserved.assert_shows("No process fetches this queue.");
    unserved.assert_shows("did you mean &#34;mailers&#34;?");

    let shutdown = ShutdownToken::new();
    shutdown.spawn(Sampler::new(&site.deps).run(shutdown.clone()));
    let series = "waiting,latency_seconds,arriving_per_second,served_per_second,drain_seconds";
    let chart = format!("/observed/queue/chart?name=push&series={series}&seconds=60&points=1");
    let chart: serde_json::Value = eventually(async || {
        site.clock.advance(Duration::from_secs(1));
        let page = browser.get(&chart).await;
        let chart: serde_json::Value = serde_json::from_str(&page.text).ok()?;
        chart["means"][0][0].is_number().then_some(chart)
    })
    .await;
    let means: Vec<_> = (0..5).map(|place| chart["means"][place][0].as_f64()).collect();
    assert_eq!(means, [60_000.0, 7_200.0, 4.0, 44.0, 1_500.0].map(Some));
    let none = browser.get("/observed/queue/chart?name=nobodys&series=waiting&seconds=9").await;
    assert_eq!(none.status, StatusCode::NOT_FOUND);
    shutdown.request();
}

/// Two Redis servers; the second one's `push` is served by nobody, and shorter.
fn sharded() -> Observation {
    let shard = |name: &str, jobs| ShardJobs { name: name.to_owned(), jobs: Fact::Known(jobs) };
    let mut other = jobs("push");
    other.queues[0].length = 77;
    other.queues.truncate(1);
    other.processes.clear();
    let shards = vec![shard("a:1", jobs("push")), shard("b:2", other)];
    Observation { shards, ..observation("push") }
}

#[tokio::test]
async fn queues_of_several_redis_servers_are_listed_separately() {
    let site = Site::with_observed(ObservedStub::new(sharded()));
    let mut browser = site.browser();
    let page = browser.get("/doctor").await;
    for text in [
        "Queues of Redis a:1",
        "Queues of Redis b:2",
        "Sidekiq processes of Redis b:2",
        "href=\"/observed/queue?name=push&#38;redis=a%3A1\">push</a>",
        "href=\"/observed/queue?name=push&#38;redis=b%3A2\">push</a>",
    ] {
        page.assert_shows(text);
    }
    let one = browser.get("/observed/queue?name=push&redis=a%3A1").await;
    one.assert_shows("Queue push of Redis a:1</h1>");
    one.assert_shows("60,000");
    one.assert_shows("web:7:0123456789ab");
    let other = browser.get("/observed/queue?name=push&redis=b%3A2").await;
    other.assert_shows("<dd>77</dd>");
    assert!(!other.text.contains("60,000"), "what is found of the other one: {}", other.text);
    other.assert_shows("No process fetches this queue.");
    let unserved = browser.get("/observed/queue?name=mailers&redis=a%3A1").await;
    unserved.assert_shows("did you mean &#34;mailers&#34;?");
    for (address, says) in [
        ("/observed/queue?name=mailers&redis=b%3A2", "Sidekiq has no queue &#34;mailers&#34;"),
        ("/observed/queue?name=push&redis=c", "there is no Redis server"),
        ("/observed/queue?name=push", "the page Doctor lists the queues of each"),
    ] {
        let page = browser.get(address).await;
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{address}");
        assert!(
            page.text.to_lowercase().contains(&says.to_lowercase()),
            "{address}: {}",
            page.text
        );
    }
}

#[tokio::test]
async fn queues_of_an_unreachable_redis_keep_their_charts() {
    let stub = ObservedStub::new(sharded());
    let site = Site::with_observed(stub.clone());
    let shutdown = ShutdownToken::new();
    shutdown.spawn(Sampler::new(&site.deps).run(shutdown.clone()));
    let mut browser = site.browser();
    let mut last = async |shard: &str| -> Option<f64> {
        site.clock.advance(Duration::from_secs(1));
        let chart = "/observed/queue/chart?name=push&series=waiting&seconds=900&points=1";
        let page = browser.get(&format!("{chart}&redis={shard}")).await;
        let chart: serde_json::Value = serde_json::from_str(&page.text).ok()?;
        chart["means"][0][0].as_f64()
    };
    let seen = eventually(async || last("b%3A2").await).await;
    assert_eq!(seen, 77.0);
    assert_eq!(eventually(async || last("a%3A1").await).await, 60_000.0, "each has its own");

    let away = Missing {
        what: "Redis b:2".to_owned(),
        obstacle: MissingReason::Unreachable,
        reason: "Connection refused".to_owned(),
        remedy: None,
    };
    let mut observation = sharded();
    (observation.jobs, observation.shards[1].jobs) =
        (Fact::Unknown(away.clone()), Fact::Unknown(away));
    let Fact::Known(jobs) = &mut observation.shards[0].jobs else { panic!("it was seen") };
    jobs.queues[0].length = 5;
    stub.show(observation);
    // Until the look without it was written down.
    eventually(async || last("a%3A1").await.filter(|waiting| *waiting < 60_000.0)).await;
    assert_eq!(last("b%3A2").await, Some(77.0), "it is away, and not gone");
    shutdown.request();
}

#[tokio::test]
async fn a_plan_covers_one_of_several_sidekiqs() {
    let site = Site::with_observed(ObservedStub::new(sharded()));
    let mut browser = site.browser();
    let page = browser.get("/plan").await;
    page.assert_shows("<option value=\"a:1\" selected>a:1</option>");
    page.assert_shows("This plan is for one of them");
    page.assert_shows("- 1 x ");
    let other = browser.get("/plan?redis=b%3A2").await;
    other.assert_shows("<option value=\"b:2\" selected>b:2</option>");
    assert!(!other.text.contains("- 1 x "), "no process of the other one goes: {}", other.text);
    // Nor is its queue there.
    other.assert_shows("none of the queues is mailers or scheduler");
    assert_eq!(browser.get("/plan?redis=c").await.status, StatusCode::NOT_FOUND);
    let alone = Site::with_observed(ObservedStub::new(observation("push")));
    let page = alone.browser().get("/plan").await;
    assert!(!page.text.contains("name=\"redis\""), "there is nothing to choose");
}

#[tokio::test]
async fn postgres_shows_connections_waits_locks_and_statements() {
    let site = Site::with_observed(ObservedStub::new(observation("push")));
    let mut browser = site.browser();
    let page = browser.get("/postgres").await;
    for text in [
        "<dd>67</dd>",
        "<dd>97</dd>",
        "for 1 min 15 s",
        "DataFileRead",
        "web (pid 4711)",
        "accounts",
        "SELECT * FROM statuses WHERE id = $1",
        "50 ms",
        "61 %",
        "87 %",
        "128.0 MiB",
    ] {
        page.assert_shows(text);
    }
}

#[tokio::test]
async fn redis_shows_memory_commands_and_durations() {
    let site = Site::with_observed(ObservedStub::new(observation("push")));
    let page = site.browser().get("/redis").await;
    for text in ["512.0 MiB", "1,234/s", "BRPOP", "7 µs", "LRANGE", "120 ms", "noeviction"] {
        page.assert_shows(text);
    }
}

#[tokio::test]
async fn a_plan_combines_observed_and_entered_values() {
    let site = Site::with_observed(ObservedStub::new(observation("push")));
    let mut browser = site.browser();
    let page = browser.get("/plan?cores=4&memory_gib=8&max_connections=200").await;
    for text in [
        "connection pools fit the database",
        "Holds",
        "shared_buffers = ",
        "maxmemory-policy",
        "- \
          1 x ",
    ] {
        page.assert_shows(text);
    }
    let small = browser.get("/plan?cores=4&memory_gib=8&max_connections=20").await;
    small.assert_shows("No plan meets these limits");
    small.assert_shows("Remedies");
    small.assert_shows("Broken");
    let wrong = browser.get("/plan?cores=many").await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    wrong.assert_shows("Cores: &#34;many&#34; is not a number");
}

#[tokio::test]
async fn observed_names_are_escaped_on_every_page() {
    let site = Site::with_observed(ObservedStub::new(observation(HOSTILE)));
    let mut browser = site.browser();
    let queue = form_urlencoded::Serializer::new("/observed/queue?".to_owned())
        .append_pair("name", HOSTILE)
        .finish();
    for path in ["/", "/doctor", &queue, "/plan", "/postgres", "/redis"] {
        let page = browser.get(path).await;
        assert_eq!(page.status, StatusCode::OK, "{path}");
        assert!(!page.text.contains("<script>alert"), "{path}");
        assert!(!page.text.contains('\u{202e}'), "{path}");
    }
}

#[tokio::test]
async fn unknown_facts_are_shown_with_their_remedy() {
    let missing = Missing {
        what: "Postgres' slow statements".to_owned(),
        obstacle: MissingReason::NotSupported,
        reason: "relation does not exist".to_owned(),
        remedy: Some("CREATE EXTENSION pg_stat_statements;".to_owned()),
    };
    let away = Missing {
        what: "Redis 127.0.0.1:6379".to_owned(),
        obstacle: MissingReason::Unreachable,
        reason: "Connection refused".to_owned(),
        remedy: None,
    };
    let postgres = DatabaseObservation { statements: Fact::Unknown(missing), ..postgres() };
    let observation = Observation {
        jobs: Fact::Unknown(away.clone()),
        redis: vec![Fact::Unknown(away)],
        postgres: Fact::Known(postgres),
        ..Observation::default()
    };
    let site = Site::with_observed(ObservedStub::new(observation));
    let mut browser = site.browser();
    browser.get("/postgres").await.assert_shows("CREATE EXTENSION pg_stat_statements;");
    browser.get("/redis").await.assert_shows("Connection refused");
    let doctor = browser.get("/doctor").await;
    doctor.assert_shows("unreachable");
    doctor.assert_shows("unreachable");
    browser.get("/plan").await.assert_shows("Redis 127.0.0.1:6379 is unknown");
}

#[tokio::test]
async fn a_source_without_permission_is_unknown() {
    let unread = Missing {
        what: "the retry set".to_owned(),
        obstacle: MissingReason::NotAllowed,
        reason: "ZCARD: this user has no permissions".to_owned(),
        remedy: Some("ACL SETUSER weir +zcard".to_owned()),
    };
    let jobs = SidekiqObservation { unread: vec![unread], ..SidekiqObservation::default() };
    let observation = Observation { jobs: Fact::Known(jobs), ..Observation::default() };
    let site = Site::with_observed(ObservedStub::new(observation));
    let doctor = site.browser().get("/doctor").await;
    doctor.assert_shows("Unknown");
    doctor.assert_shows("ACL SETUSER weir +zcard");
}

#[tokio::test]
async fn pages_say_so_before_the_first_poll_and_without_sources() {
    let site = Site::with_observed(Arc::new(ObservedStub::default()));
    let mut browser = site.browser();
    for path in ["/doctor", "/postgres", "/redis"] {
        browser.get(path).await.assert_shows("No data yet");
    }
    browser.get("/plan").await.assert_shows("No queues yet");
    let site = Site::open();
    let mut browser = site.browser();
    assert!(!browser.get("/").await.text.contains("href=\"/doctor\""));
    for path in
        ["/doctor", "/plan", "/postgres", "/redis", "/observed/chart?series=waiting&seconds=9"]
    {
        let page = browser.get(path).await;
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{path}");
        page.assert_shows("his Weir observes nothing");
    }
}

#[tokio::test]
async fn observed_values_are_recorded_in_history() {
    let site = Site::with_observed(ObservedStub::new(observation("push")));
    let shutdown = ShutdownToken::new();
    shutdown.spawn(Sampler::new(&site.deps).run(shutdown.clone()));
    let address = "/observed/chart?series=waiting,redis_memory_bytes&seconds=60&points=1";
    let mut browser = site.browser();
    let chart: serde_json::Value = eventually(async || {
        site.clock.advance(Duration::from_secs(1));
        let page = browser.get(address).await;
        let chart: serde_json::Value = serde_json::from_str(&page.text).ok()?;
        chart["means"][0][0].is_number().then_some(chart)
    })
    .await;
    assert_eq!(chart["means"][0][0].as_f64(), Some(60_040.0));
    assert_eq!(chart["means"][1][0].as_f64(), Some(f64::from(512 << 20)));
    shutdown.request();
}
