//! Workers that can't be reached, hang up, or come back.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weir_base::clock::Clock;
use weir_front::view::UpstreamWorkerState;
use weir_front::{AppLimits, NoSuchApp, UpstreamAddress};

use crate::door::{Door, Peers, Worker, get};

fn limits() -> AppLimits {
    AppLimits { retry_worker_after: Duration::from_millis(20), ..AppLimits::default() }
}

#[tokio::test]
async fn a_request_that_reached_nobody_goes_to_another_worker() {
    let (dead, alive) = (Worker::listen().await, Worker::listen().await);
    let address = dead.address();
    drop(dead);
    let door = Door::to(limits(), vec![address, alive.address()]);
    for _ in 0..3 {
        let mut client =
            door.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").await;
        let mut connection = alive.accept().await;
        connection.until("hi").await;
        connection.answer("alive").await;
        assert_eq!(client.status_and("alive").await, 200);
    }
}

#[tokio::test]
async fn nobody_there_is_a_bad_gateway_and_a_worker_that_comes_back_is_used() {
    let worker = Worker::listen().await;
    let address = worker.address();
    drop(worker);
    let door = Door::to(limits(), vec![address.clone()]);
    let mut client = door.get("/").await;
    assert_eq!(client.status_and("can be reached\n").await, 502);
    let worker = Worker::listen_at(address).await;
    let mut client = door.get("/").await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.answer("back").await;
    assert_eq!(client.status_and("back").await, 200);
}

#[tokio::test]
async fn a_kept_connection_is_used_again_and_its_end_harms_no_get() {
    let worker = Worker::listen().await;
    let limits = AppLimits { concurrency: 8, ..limits() };
    let door = Door::open(limits, &[&worker]);
    let mut client = door.get("/1").await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.answer("one").await;
    client.until("one").await;
    client.write(&get("/2")).await;
    assert!(connection.head().await.starts_with("GET /2 "));
    // The worker hangs up as if it had been idle for too long when the request came.
    drop(connection);
    let mut connection = worker.accept().await;
    assert!(connection.head().await.starts_with("GET /2 "), "again");
    connection.answer("two").await;
    client.until("two").await;

    // One that may not be repeated is not.
    client.write("POST /3 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").await;
    assert!(connection.head().await.starts_with("POST /3 "));
    drop(connection);
    assert_eq!(client.status_and("before its response was complete\n").await, 502);
    assert!(worker.is_left_alone().await);
}

#[tokio::test]
async fn a_worker_may_listen_on_a_unix_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("app.sock");
    let listener = tokio::net::UnixListener::bind(&path).expect("to bind");
    let door = Door::to(limits(), vec![UpstreamAddress::Unix(path)]);
    let mut client = door.get("/").await;
    let (mut socket, _) = listener.accept().await.expect("a connection");
    let mut head = [0; 1024];
    let count = socket.read(&mut head).await.expect("a request");
    assert!(head[..count].starts_with(b"GET / HTTP/1.1\r\n"));
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nunix";
    socket.write_all(answer).await.expect("to answer");
    assert_eq!(client.status_and("unix").await, 200);
}

#[tokio::test]
async fn workers_are_replaced_without_losing_a_request() {
    let (old, new) = (Worker::listen().await, Worker::listen().await);
    let door = Door::open(limits(), &[&old]);
    let mut running = door.get("/running").await;
    let mut connection = old.accept().await;
    connection.head().await;
    let mut waiting = door.get("/waiting").await;
    door.until("weir_front_app_waiting{app=\"app\"}", 1).await;
    door.apps.set_workers("app", &[new.address()]).expect("the app");
    let states: Vec<_> = door.apps.view()[0].workers.iter().map(|worker| worker.state).collect();
    assert_eq!(states, [UpstreamWorkerState::Draining, UpstreamWorkerState::Serving]);

    let mut replaced = new.accept().await;
    assert!(replaced.head().await.starts_with("GET /waiting "), "the new one takes over");
    replaced.answer("new").await;
    assert_eq!(waiting.status_and("new").await, 200);
    connection.answer("old").await;
    assert_eq!(running.status_and("old").await, 200);
    let mut next = door.get("/next").await;
    let mut connection = new.accept().await;
    connection.head().await;
    connection.answer("next").await;
    assert_eq!(next.status_and("next").await, 200);
    let addresses: Vec<_> =
        door.apps.view()[0].workers.iter().map(|worker| worker.address.clone()).collect();
    assert_eq!(addresses, [new.address().to_string()], "the old one is forgotten");
    let error = door.apps.set_workers("shop", &[]);
    assert_eq!(error.map_err(|NoSuchApp(name)| name), Err("shop".to_owned()));
}

#[tokio::test]
async fn a_paused_app_lets_requests_wait_and_serves_them_afterwards() {
    let worker = Worker::listen().await;
    let door = Door::open(limits(), &[&worker]);
    door.apps.pause("app").expect("the app");
    let mut client = door.get("/").await;
    door.until("weir_front_app_waiting{app=\"app\"}", 1).await;
    assert!(worker.is_left_alone().await && door.apps.view()[0].is_paused);
    door.apps.resume("app").expect("the app");
    let mut connection = worker.accept().await;
    connection.head().await;
    let view = door.apps.view();
    let load = &view[0].workers[0];
    assert_eq!((load.requests, load.given), (1, 1));
    assert!(load.oldest_request.is_some() && !view[0].is_paused);
    assert!(!load.waited.is_zero(), "it waited through the pause");
    connection.answer("served").await;
    assert_eq!(client.status_and("served").await, 200);
    let totals = door.apps.view()[0].totals.clone();
    assert_eq!((totals.answers, totals.server_errors), (1, 0));
    assert_eq!((totals.waits.count(), totals.services.count()), (1, 1));
    assert!(!totals.waits.quantile(0.5).expect("a wait").is_zero());
}

#[tokio::test]
async fn a_request_that_is_repeated_is_as_old_as_its_last_try() {
    let worker = Worker::listen().await;
    let limits = AppLimits { concurrency: 8, repeat_within: Duration::MAX, ..limits() };
    let door = Door::open(limits, &[&worker]);
    let (mut client, mut connection) = kept(&door, &worker).await;
    client.write(&get("/2")).await;
    connection.head().await;
    let oldest = || door.apps.view()[0].workers[0].oldest_request;
    while oldest().is_none_or(|age| age < Duration::from_millis(50)) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let clock = Clock::system();
    let dropped = clock.now();
    drop(connection);
    let mut connection = worker.accept().await;
    connection.head().await;
    let age = oldest().expect("a request");
    assert!(age <= clock.now().since(dropped), "{age:?}");
    connection.answer("two").await;
    client.until("two").await;
}

#[tokio::test]
async fn what_a_worker_had_for_longer_is_not_given_to_the_next() {
    let worker = Worker::listen().await;
    let limits = AppLimits { concurrency: 8, repeat_within: Duration::ZERO, ..limits() };
    let door = Door::open(limits, &[&worker]);
    let (mut client, mut connection) = kept(&door, &worker).await;
    client.write(&get("/2")).await;
    connection.head().await;
    drop(connection);
    assert_eq!(client.status_and("before its response was complete\n").await, 502);
    assert!(worker.is_left_alone().await);
}

/// A connection that the worker keeps after its first answer.
async fn kept(door: &Door, worker: &Worker) -> (Peers, Peers) {
    let mut client = door.get("/1").await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.answer("one").await;
    client.until("one").await;
    (client, connection)
}

#[tokio::test]
async fn one_that_is_held_back_gets_nothing_new_and_keeps_what_it_has() {
    let (one, two) = (Worker::listen().await, Worker::listen().await);
    let limits = AppLimits { concurrency: 2, ..limits() };
    let door = Door::open(limits, &[&one, &two]);
    let mut old = door.get("/old").await;
    let mut running = one.accept().await;
    running.head().await;
    door.apps.hold_back("app", &one.address(), true).expect("the app");
    let mut others = Vec::new();
    for _ in 0..2 {
        let client = door.get("/other").await;
        let mut connection = two.accept().await;
        connection.head().await;
        others.push((client, connection));
    }
    let mut waiting = door.get("/waiting").await;
    door.until("weir_front_app_waiting{app=\"app\"}", 1).await;
    assert!(one.is_left_alone().await);
    let states: Vec<_> = door.apps.view()[0].workers.iter().map(|worker| worker.state).collect();
    assert_eq!(states, [UpstreamWorkerState::HeldBack, UpstreamWorkerState::Serving]);

    // There is room for one more beside the old one.
    door.apps.hold_back("app", &one.address(), false).expect("the app");
    let mut connection = one.accept().await;
    assert!(connection.head().await.starts_with("GET /waiting "));
    let view = door.apps.view()[0].workers[0].clone();
    assert_eq!((view.requests, view.given), (2, 2));
    connection.answer("waiting").await;
    assert_eq!(waiting.status_and("waiting").await, 200);
    running.answer("old").await;
    assert_eq!(old.status_and("old").await, 200);
}
