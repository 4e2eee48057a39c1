//! Priorities, refusals for the sake of a queue of jobs, maintenance, trusted proxies.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use weir_front::{AppSettings, Matcher, PriorityRule, ProxySettings, ShedSettings};
use weir_net::client::TrustedProxy;

use crate::door::{Door, Worker, get, status};

const WAITING: &str = "weir_front_app_waiting{app=\"app\"}";

fn path(path: &str) -> Matcher {
    Matcher { path: Some(path.to_owned()), header: None }
}

fn app(worker: &Worker) -> AppSettings {
    AppSettings { workers: vec![worker.address()], ..AppSettings::new("app") }
}

#[tokio::test]
async fn what_has_priority_goes_first() {
    let worker = Worker::listen().await;
    let priorities = vec![
        PriorityRule { matcher: path("/login"), is_high: true },
        PriorityRule { matcher: path("/search"), is_high: false },
    ];
    let door = Door::of(AppSettings { priorities, ..app(&worker) }, ProxySettings::default());
    door.apps.pause("app").expect("the app");
    let mut clients = Vec::new();
    for (waiting, path) in [(1, "/search"), (2, "/"), (3, "/login")] {
        clients.push(door.get(path).await);
        door.until(WAITING, waiting).await;
    }
    door.apps.resume("app").expect("the app");
    for path in ["/login", "/", "/search"] {
        let mut connection = worker.accept().await;
        let head = connection.head().await;
        assert!(head.starts_with(&format!("GET {path} ")), "{path} is next, not {head}");
        connection.answer("done").await;
    }
}

#[tokio::test]
async fn some_requests_are_refused_while_a_queue_is_behind() {
    let worker = Worker::listen().await;
    let shed = vec![ShedSettings {
        matcher: path("/inbox"),
        queue: "ingress".to_owned(),
        over: Duration::from_secs(300),
        status: StatusCode::SERVICE_UNAVAILABLE,
        retry_after: Duration::from_secs(61),
    }];
    let door = Door::of(AppSettings { shed, ..app(&worker) }, ProxySettings::default());
    assert!(door.apps.watched_queues().contains("ingress"));
    let latency = |seconds| BTreeMap::from([("ingress".to_owned(), Duration::from_secs(seconds))]);
    door.apps.judge_queues(&latency(301));
    assert_eq!(door.apps.view()[0].shedding, ["ingress"]);
    let mut inbox = door.get("/inbox").await;
    let head = inbox.head().await;
    assert!(status(&head) == 503 && head.contains("retry-after: 61"), "{head}");
    assert_eq!(door.metric("weir_front_app_failures_total{app=\"app\",reason=\"shed\"}"), 1);

    for (seconds, path) in [(301, "/home"), (300, "/inbox")] {
        door.apps.judge_queues(&latency(seconds));
        let mut client = door.get(path).await;
        let mut connection = worker.accept().await;
        connection.head().await;
        connection.answer("served").await;
        assert_eq!(client.status_and("served").await, 200);
    }
}

#[tokio::test]
async fn everybody_is_shown_the_page_of_a_maintenance() {
    let worker = Worker::listen().await;
    let maintenance_page = Some(Bytes::from_static(b"<p>moving house</p>"));
    let app = AppSettings { maintenance_page, ..app(&worker) };
    let door = Door::of(app, ProxySettings::default());
    door.apps.set_maintenance("app", true).expect("the app");
    let mut client = door.get("/").await;
    let head = client.head().await;
    assert!(status(&head) == 503 && head.contains("text/html") && head.contains("retry-after"));
    client.until("<p>moving house</p>").await;
    assert!(door.apps.view()[0].is_in_maintenance);
    let upgrade =
        "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    assert_eq!(status(&door.send(upgrade).await.head().await), 503);

    door.apps.set_maintenance("app", false).expect("the app");
    client.write(&get("/")).await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.answer("back").await;
    assert_eq!(client.status_and("back").await, 200);
}

#[tokio::test]
async fn a_trusted_proxy_speaks_for_its_clients() {
    let worker = Worker::listen().await;
    let trusted: TrustedProxy = "127.0.0.0/8".parse().expect("a network");
    let settings = ProxySettings { trusted_proxies: vec![trusted].into(), access_log: None };
    let door = Door::of(app(&worker), settings);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 6.6.6.6, 198.51.100.7\r\n\
        X-Forwarded-Proto: https\r\nX-Forwarded-Port: 99\r\n\r\n";
    let _client = door.send(request).await;
    let head = worker.accept().await.head().await;
    assert!(head.contains("x-forwarded-for: 198.51.100.7\r\n"), "{head}");
    assert!(head.contains("x-forwarded-proto: https\r\n") && !head.contains("port"), "{head}");
}
