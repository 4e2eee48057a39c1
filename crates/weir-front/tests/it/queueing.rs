//! Who waits, for how long, and who is told no.

use std::time::Duration;

use weir_front::AppLimits;

use crate::door::{Door, Worker, get, status};

const WAITING: &str = "weir_front_app_waiting{app=\"app\"}";

#[tokio::test]
async fn no_request_waits_for_a_busy_worker_while_another_is_free() {
    let (stuck, free) = (Worker::listen().await, Worker::listen().await);
    let door = Door::open(AppLimits::default(), &[&stuck, &free]);
    let _waits = door.get("/stuck").await;
    let mut never_answers = stuck.accept().await;
    assert!(never_answers.head().await.starts_with("GET /stuck "));
    for _ in 0..5 {
        let mut client = door.get("/").await;
        let mut connection = free.accept().await;
        connection.head().await;
        connection.answer("free").await;
        assert_eq!(client.status_and("free").await, 200);
    }
    assert!(stuck.is_left_alone().await);
}

#[tokio::test]
async fn every_request_of_a_connection_is_routed_by_itself() {
    let workers = [Worker::listen().await, Worker::listen().await];
    let door = Door::open(AppLimits::default(), &[&workers[0], &workers[1]]);
    let mut client = door.connect().await;
    for number in 0..4 {
        client.write(&get(&format!("/{number}"))).await;
        // Both are free: the one that rested longer is taken.
        let mut connection = workers[number % 2].accept().await;
        assert!(connection.head().await.starts_with(&format!("GET /{number} ")));
        connection.answer("done").await;
        assert_eq!(client.status_and("done").await, 200);
    }
}

#[tokio::test]
async fn who_waits_is_served_in_turn_and_one_too_many_is_told() {
    let worker = Worker::listen().await;
    let limits = AppLimits { queue_max: 2, ..AppLimits::default() };
    let door = Door::open(limits, &[&worker]);
    let mut clients = Vec::new();
    for number in 0..3 {
        clients.push(door.get(&format!("/{number}")).await);
        door.until(WAITING, number).await;
    }
    let mut one_too_many = door.get("/3").await;
    let head = one_too_many.head().await;
    assert_eq!(status(&head), 503);
    assert!(head.contains("retry-after: 2"), "{head}");
    one_too_many.until("(queue_max); try again\n").await;
    for (number, mut client) in clients.into_iter().enumerate() {
        let mut connection = worker.accept().await;
        assert!(connection.head().await.starts_with(&format!("GET /{number} ")));
        connection.answer("done").await;
        assert_eq!(client.status_and("done").await, 200);
    }
    assert_eq!(door.metric("weir_front_app_refusals_total{app=\"app\",reason=\"queue_max\"}"), 1);
    let refusals = door.apps.view()[0].totals.refusals.clone();
    let others = ["queue_timeout", "overload", "streams", "clients.streams_max"];
    let mut expected = vec![("queue_max", 1)];
    expected.extend(others.map(|reason| (reason, 0)));
    assert_eq!(refusals.iter().map(|it| (it.reason, it.count)).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn nobody_waits_for_longer_than_they_may() {
    let worker = Worker::listen().await;
    let limits = AppLimits { queue_timeout: Duration::from_millis(50), ..AppLimits::default() };
    let door = Door::open(limits, &[&worker]);
    let _served = door.get("/").await;
    let _busy = worker.accept().await;
    let mut waits = door.get("/").await;
    assert_eq!(waits.status_and("(queue_timeout); try again\n").await, 503);
    door.until(WAITING, 0).await;
}

#[tokio::test]
async fn a_request_whose_client_has_gone_reaches_no_worker() {
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits::default(), &[&worker]);
    let mut first = door.get("/first").await;
    let mut connection = worker.accept().await;
    let gone = door.get("/gone").await;
    door.until(WAITING, 1).await;
    drop(gone);
    door.until(WAITING, 0).await;
    let mut last = door.get("/last").await;
    door.until(WAITING, 1).await;
    connection.head().await;
    connection.answer("first").await;
    first.until("first").await;
    let mut connection = worker.accept().await;
    assert!(connection.head().await.starts_with("GET /last "));
    connection.answer("last").await;
    last.until("last").await;
}

#[tokio::test]
async fn a_worker_is_busy_until_it_answers_even_if_nobody_waits_for_that() {
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits::default(), &[&worker]);
    let gone = door.get("/gone").await;
    let mut connection = worker.accept().await;
    connection.head().await;
    drop(gone);
    door.until("weir_front_app_failures_total{app=\"app\",reason=\"client_gone\"}", 1).await;
    let mut next = door.get("/next").await;
    door.until(WAITING, 1).await;
    assert!(worker.is_left_alone().await);
    connection.answer("for nobody").await;
    let mut connection = worker.accept().await;
    assert!(connection.head().await.starts_with("GET /next "));
    connection.answer("next").await;
    assert_eq!(next.status_and("next").await, 200);
}

#[tokio::test]
async fn a_late_worker_is_answered_for_and_gets_nothing_more() {
    let (late, other) = (Worker::listen().await, Worker::listen().await);
    let limits = AppLimits { service_timeout: Duration::from_millis(50), ..AppLimits::default() };
    let door = Door::open(limits, &[&late, &other]);
    let mut client = door.get("/").await;
    let mut connection = late.accept().await;
    connection.head().await;
    let head = client.head().await;
    assert_eq!(status(&head), 504);
    assert!(head.contains("retry-after: 2"), "{head}");
    client.until("(service_timeout)\n").await;
    for _ in 0..3 {
        let mut client = door.get("/").await;
        let mut connection = other.accept().await;
        connection.head().await;
        connection.answer("other").await;
        assert_eq!(client.status_and("other").await, 200);
    }
    assert!(late.is_left_alone().await);
}
