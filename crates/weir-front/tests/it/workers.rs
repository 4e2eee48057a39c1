//! Workers that can't be reached, hang up, or come back.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weir_base::clock::Clock;
use weir_front::view::UpstreamWorkerState;
use weir_front::{AppLimits, NoSuchApp, UpstreamAddress};

use crate::test_front::{Connection, TestFront, Worker, get};

fn limits() -> AppLimits {
    AppLimits { retry_worker_after: Duration::from_millis(20), ..AppLimits::default() }
}

#[tokio::test]
async fn an_unsent_request_goes_to_another_worker() {
    let (dead, alive) = (Worker::listen().await, Worker::listen().await);
    let address = dead.address();
    drop(dead);
    let front = TestFront::to(limits(), vec![address, alive.address()]);
    for _ in 0..3 {
        let mut client =
            front.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").await;
        let mut connection = alive.accept().await;
        connection.read_until("hi").await;
        connection.respond("alive").await;
        assert_eq!(client.read_status_and("alive").await, 200);
    }
}

#[tokio::test]
async fn an_unreachable_worker_gives_502_and_is_retried() {
    let worker = Worker::listen().await;
    let address = worker.address();
    drop(worker);
    let front = TestFront::to(limits(), vec![address.clone()]);
    let mut client = front.get("/").await;
    assert_eq!(client.read_status_and("can be reached\n").await, 502);
    let worker = Worker::listen_at(address).await;
    let mut client = front.get("/").await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.respond("back").await;
    assert_eq!(client.read_status_and("back").await, 200);
}

#[tokio::test]
async fn an_idle_connection_is_reused_and_its_close_loses_no_get() {
    let worker = Worker::listen().await;
    let limits = AppLimits { concurrency: 8, ..limits() };
    let front = TestFront::open(limits, &[&worker]);
    let mut client = front.get("/1").await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.respond("one").await;
    client.read_until("one").await;
    client.write(&get("/2")).await;
    assert!(connection.read_head().await.starts_with("GET /2 "));
    // The worker hangs up as if it had been idle for too long when the request came.
    drop(connection);
    let mut connection = worker.accept().await;
    assert!(connection.read_head().await.starts_with("GET /2 "), "again");
    connection.respond("two").await;
    client.read_until("two").await;

    // One that may not be repeated is not.
    client.write("POST /3 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").await;
    assert!(connection.read_head().await.starts_with("POST /3 "));
    drop(connection);
    assert_eq!(client.read_status_and("before its response was complete\n").await, 502);
    assert!(worker.has_no_connection().await);
}

#[tokio::test]
async fn a_worker_can_listen_on_a_unix_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("app.sock");
    let listener = tokio::net::UnixListener::bind(&path).expect("to bind");
    let front = TestFront::to(limits(), vec![UpstreamAddress::Unix(path)]);
    let mut client = front.get("/").await;
    let (mut socket, _) = listener.accept().await.expect("a connection");
    let mut head = [0; 1024];
    let count = socket.read(&mut head).await.expect("a request");
    assert!(head[..count].starts_with(b"GET / HTTP/1.1\r\n"));
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nunix";
    socket.write_all(answer).await.expect("to answer");
    assert_eq!(client.read_status_and("unix").await, 200);
}

#[tokio::test]
async fn replacing_workers_loses_no_request() {
    let (old, new) = (Worker::listen().await, Worker::listen().await);
    let front = TestFront::open(limits(), &[&old]);
    let mut running = front.get("/running").await;
    let mut connection = old.accept().await;
    connection.read_head().await;
    let mut waiting = front.get("/waiting").await;
    front.wait_for_metric("weir_front_app_waiting{app=\"app\"}", 1).await;
    front.apps.set_workers("app", &[new.address()]).expect("the app");
    let states: Vec<_> = front.apps.view()[0].workers.iter().map(|worker| worker.state).collect();
    assert_eq!(states, [UpstreamWorkerState::Draining, UpstreamWorkerState::Serving]);

    let mut replaced = new.accept().await;
    assert!(replaced.read_head().await.starts_with("GET /waiting "), "the new one takes over");
    replaced.respond("new").await;
    assert_eq!(waiting.read_status_and("new").await, 200);
    connection.respond("old").await;
    assert_eq!(running.read_status_and("old").await, 200);
    let mut next = front.get("/next").await;
    let mut connection = new.accept().await;
    connection.read_head().await;
    connection.respond("next").await;
    assert_eq!(next.read_status_and("next").await, 200);
    let addresses: Vec<_> =
        front.apps.view()[0].workers.iter().map(|worker| worker.address.clone()).collect();
    assert_eq!(addresses, [new.address().to_string()], "the old one is forgotten");
    let error = front.apps.set_workers("shop", &[]);
    assert_eq!(error.map_err(|NoSuchApp(name)| name), Err("shop".to_owned()));
}

#[tokio::test]
async fn a_paused_app_queues_requests_and_serves_them_on_resume() {
    let worker = Worker::listen().await;
    let front = TestFront::open(limits(), &[&worker]);
    front.apps.pause("app").expect("the app");
    let mut client = front.get("/").await;
    front.wait_for_metric("weir_front_app_waiting{app=\"app\"}", 1).await;
    assert!(worker.has_no_connection().await && front.apps.view()[0].is_paused);
    front.apps.resume("app").expect("the app");
    let mut connection = worker.accept().await;
    connection.read_head().await;
    let view = front.apps.view();
    let load = &view[0].workers[0];
    assert_eq!((load.requests, load.assigned), (1, 1));
    assert!(load.oldest_request.is_some() && !view[0].is_paused);
    assert!(!load.waited.is_zero(), "it waited through the pause");
    connection.respond("served").await;
    assert_eq!(client.read_status_and("served").await, 200);
    let totals = front.apps.view()[0].totals.clone();
    assert_eq!((totals.responses, totals.server_errors), (1, 0));
    assert_eq!((totals.queue_times.count(), totals.service_times.count()), (1, 1));
    assert!(!totals.queue_times.quantile(0.5).expect("a wait").is_zero());
}

#[tokio::test]
async fn the_repeat_limit_counts_from_the_last_attempt() {
    let worker = Worker::listen().await;
    let limits = AppLimits { concurrency: 8, repeat_within: Duration::MAX, ..limits() };
    let front = TestFront::open(limits, &[&worker]);
    let (mut client, mut connection) = idle_connection(&front, &worker).await;
    client.write(&get("/2")).await;
    connection.read_head().await;
    let oldest = || front.apps.view()[0].workers[0].oldest_request;
    while oldest().is_none_or(|age| age < Duration::from_millis(50)) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let clock = Clock::system();
    let dropped = clock.now();
    drop(connection);
    let mut connection = worker.accept().await;
    connection.read_head().await;
    let age = oldest().expect("a request");
    assert!(age <= clock.now().since(dropped), "{age:?}");
    connection.respond("two").await;
    client.read_until("two").await;
}

#[tokio::test]
async fn a_request_that_ran_long_is_not_repeated() {
    let worker = Worker::listen().await;
    let limits = AppLimits { concurrency: 8, repeat_within: Duration::ZERO, ..limits() };
    let front = TestFront::open(limits, &[&worker]);
    let (mut client, mut connection) = idle_connection(&front, &worker).await;
    client.write(&get("/2")).await;
    connection.read_head().await;
    drop(connection);
    assert_eq!(client.read_status_and("before its response was complete\n").await, 502);
    assert!(worker.has_no_connection().await);
}

/// A connection that the worker keeps after its first answer.
async fn idle_connection(front: &TestFront, worker: &Worker) -> (Connection, Connection) {
    let mut client = front.get("/1").await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.respond("one").await;
    client.read_until("one").await;
    (client, connection)
}

#[tokio::test]
async fn a_held_back_worker_keeps_its_requests_and_gets_no_new_ones() {
    let (one, two) = (Worker::listen().await, Worker::listen().await);
    let limits = AppLimits { concurrency: 2, ..limits() };
    let front = TestFront::open(limits, &[&one, &two]);
    let mut old = front.get("/old").await;
    let mut running = one.accept().await;
    running.read_head().await;
    front.apps.hold_back("app", &one.address(), true).expect("the app");
    let mut others = Vec::new();
    for _ in 0..2 {
        let client = front.get("/other").await;
        let mut connection = two.accept().await;
        connection.read_head().await;
        others.push((client, connection));
    }
    let mut waiting = front.get("/waiting").await;
    front.wait_for_metric("weir_front_app_waiting{app=\"app\"}", 1).await;
    assert!(one.has_no_connection().await);
    let states: Vec<_> = front.apps.view()[0].workers.iter().map(|worker| worker.state).collect();
    assert_eq!(states, [UpstreamWorkerState::HeldBack, UpstreamWorkerState::Serving]);

    // There is room for one more beside the old one.
    front.apps.hold_back("app", &one.address(), false).expect("the app");
    let mut connection = one.accept().await;
    assert!(connection.read_head().await.starts_with("GET /waiting "));
    let view = front.apps.view()[0].workers[0].clone();
    assert_eq!((view.requests, view.assigned), (2, 2));
    connection.respond("waiting").await;
    assert_eq!(waiting.read_status_and("waiting").await, 200);
    running.respond("old").await;
    assert_eq!(old.read_status_and("old").await, 200);
}
