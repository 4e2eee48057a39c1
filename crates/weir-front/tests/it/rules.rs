//! Priorities, refusals for the sake of a queue of jobs, maintenance, trusted proxies.

use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use weir_front::{
    AppSettings, LatencySample, Matcher, PriorityRule, ProxySettings, QueueSource, ShedSettings,
    WatchedQueue,
};
use weir_net::client::TrustedProxy;

use crate::test_front::{TestFront, Worker, get, status};

const WAITING: &str = "weir_front_app_waiting{app=\"app\"}";

fn path(path: &str) -> Matcher {
    Matcher { path: Some(path.to_owned()), header: None }
}

fn app(worker: &Worker) -> AppSettings {
    AppSettings { workers: vec![worker.address()], ..AppSettings::new("app") }
}

#[tokio::test]
async fn requests_with_priority_go_first() {
    let worker = Worker::listen().await;
    let priorities = vec![
        PriorityRule { matcher: path("/login"), is_high: true },
        PriorityRule { matcher: path("/search"), is_high: false },
    ];
    let front =
        TestFront::new(AppSettings { priorities, ..app(&worker) }, ProxySettings::default());
    front.apps.pause("app").expect("the app");
    let mut clients = Vec::new();
    for (waiting, path) in [(1, "/search"), (2, "/"), (3, "/login")] {
        clients.push(front.get(path).await);
        front.wait_for_metric(WAITING, waiting).await;
    }
    front.apps.resume("app").expect("the app");
    for path in ["/login", "/", "/search"] {
        let mut connection = worker.accept().await;
        let head = connection.read_head().await;
        assert!(head.starts_with(&format!("GET {path} ")), "{path} is next, not {head}");
        connection.respond("done").await;
    }
}

#[tokio::test]
async fn matching_requests_are_shed_while_a_queue_is_behind() {
    let worker = Worker::listen().await;
    let queue = WatchedQueue { source: QueueSource::Auto, name: "ingress".to_owned() };
    let shed = vec![ShedSettings {
        matcher: path("/inbox"),
        queue: queue.clone(),
        latency_max: Duration::from_secs(300),
        stale_after: Duration::from_secs(15),
        status: StatusCode::SERVICE_UNAVAILABLE,
        retry_after: Duration::from_secs(61),
    }];
    let front = TestFront::new(AppSettings { shed, ..app(&worker) }, ProxySettings::default());
    assert!(front.apps.watched_queues().contains(&queue));
    let update = |seconds, age| {
        let latency = Some(Duration::from_secs(seconds));
        let sample = LatencySample { latency, age: Duration::from_secs(age) };
        front.apps.update_shed_rules(|_| vec![sample]);
    };
    update(301, 1);
    assert_eq!(front.apps.view()[0].shedding, ["ingress"]);
    let rules = |state| {
        front.metric(&format!("weir_front_app_shed_rules{{app=\"app\",state=\"{state}\"}}"))
    };
    assert_eq!([rules("on"), rules("off"), rules("unknown")], [1, 0, 0]);
    let mut inbox = front.get("/inbox").await;
    let head = inbox.read_head().await;
    assert!(status(&head) == 503 && head.contains("retry-after: 61"), "{head}");
    assert_eq!(front.metric("weir_front_app_failures_total{app=\"app\",reason=\"shed\"}"), 1);

    for (seconds, age, path) in [(301, 1, "/home"), (300, 1, "/inbox"), (301, 16, "/inbox")] {
        update(seconds, age);
        let mut client = front.get(path).await;
        let mut connection = worker.accept().await;
        connection.read_head().await;
        connection.respond("served").await;
        assert_eq!(client.read_status_and("served").await, 200);
    }
    assert_eq!(front.apps.view()[0].shed_unknown, ["ingress"]);
    assert_eq!([rules("on"), rules("off"), rules("unknown")], [0, 0, 1]);
    assert!(front.apps.queues_of_unknown_latency().contains(&queue));
    front.apps.end_shedding();
    assert!(front.apps.queues_of_unknown_latency().is_empty());
}

#[tokio::test]
async fn all_requests_get_the_maintenance_page() {
    let worker = Worker::listen().await;
    let maintenance_page = Some(Bytes::from_static(b"<p>moving house</p>"));
    let app = AppSettings { maintenance_page, ..app(&worker) };
    let front = TestFront::new(app, ProxySettings::default());
    front.apps.set_maintenance("app", true).expect("the app");
    let mut client = front.get("/").await;
    let head = client.read_head().await;
    assert!(status(&head) == 503 && head.contains("text/html") && head.contains("retry-after"));
    client.read_until("<p>moving house</p>").await;
    assert!(front.apps.view()[0].is_in_maintenance);
    let upgrade =
        "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    assert_eq!(status(&front.send(upgrade).await.read_head().await), 503);

    front.apps.set_maintenance("app", false).expect("the app");
    client.write(&get("/")).await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.respond("back").await;
    assert_eq!(client.read_status_and("back").await, 200);
}

#[tokio::test]
async fn a_trusted_proxy_reports_the_client_address() {
    let worker = Worker::listen().await;
    let trusted: TrustedProxy = "127.0.0.0/8".parse().expect("a network");
    let settings = ProxySettings { trusted_proxies: vec![trusted].into(), ..Default::default() };
    let front = TestFront::new(app(&worker), settings);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 6.6.6.6, 198.51.100.7\r\n\
        X-Forwarded-Proto: https\r\nX-Forwarded-Port: 99\r\n\r\n";
    let _client = front.send(request).await;
    let head = worker.accept().await.read_head().await;
    assert!(head.contains("x-forwarded-for: 198.51.100.7\r\n"), "{head}");
    assert!(head.contains("x-forwarded-proto: https\r\n") && !head.contains("port"), "{head}");
}
