//! Who waits, for how long, and who is told no.

use std::time::Duration;

use weir_front::AppLimits;

use crate::test_front::{TestFront, Worker, get, status};

const WAITING: &str = "weir_front_app_waiting{app=\"app\"}";

#[tokio::test]
async fn no_request_waits_while_another_worker_is_free() {
    let (stuck, free) = (Worker::listen().await, Worker::listen().await);
    let front = TestFront::open(AppLimits::default(), &[&stuck, &free]);
    let _waits = front.get("/stuck").await;
    let mut never_answers = stuck.accept().await;
    assert!(never_answers.read_head().await.starts_with("GET /stuck "));
    for _ in 0..5 {
        let mut client = front.get("/").await;
        let mut connection = free.accept().await;
        connection.read_head().await;
        connection.respond("free").await;
        assert_eq!(client.read_status_and("free").await, 200);
    }
    assert!(stuck.has_no_connection().await);
}

#[tokio::test]
async fn each_request_of_a_connection_is_dispatched_separately() {
    let workers = [Worker::listen().await, Worker::listen().await];
    let front = TestFront::open(AppLimits::default(), &[&workers[0], &workers[1]]);
    let mut client = front.connect().await;
    for number in 0..4 {
        client.write(&get(&format!("/{number}"))).await;
        // Both are free: the one that rested longer is taken.
        let mut connection = workers[number % 2].accept().await;
        assert!(connection.read_head().await.starts_with(&format!("GET /{number} ")));
        connection.respond("done").await;
        assert_eq!(client.read_status_and("done").await, 200);
    }
}

#[tokio::test]
async fn queued_requests_are_served_in_order_and_the_excess_gets_503() {
    let worker = Worker::listen().await;
    let limits = AppLimits { queue_max: 2, ..AppLimits::default() };
    let front = TestFront::open(limits, &[&worker]);
    let mut clients = Vec::new();
    for number in 0..3 {
        clients.push(front.get(&format!("/{number}")).await);
        front.wait_for_metric(WAITING, number).await;
    }
    let mut one_too_many = front.get("/3").await;
    let head = one_too_many.read_head().await;
    assert_eq!(status(&head), 503);
    assert!(head.contains("retry-after: 2"), "{head}");
    one_too_many.read_until("(queue_max); try again\n").await;
    for (number, mut client) in clients.into_iter().enumerate() {
        let mut connection = worker.accept().await;
        assert!(connection.read_head().await.starts_with(&format!("GET /{number} ")));
        connection.respond("done").await;
        assert_eq!(client.read_status_and("done").await, 200);
    }
    assert_eq!(front.metric("weir_front_app_refusals_total{app=\"app\",reason=\"queue_max\"}"), 1);
    let refusals = front.apps.view()[0].totals.rejections.clone();
    let others = ["queue_timeout", "overload", "streams", "clients.streams_max"];
    let mut expected = vec![("queue_max", 1)];
    expected.extend(others.map(|reason| (reason, 0)));
    assert_eq!(refusals.iter().map(|it| (it.reason, it.count)).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn queued_requests_expire_with_503() {
    let worker = Worker::listen().await;
    let limits = AppLimits { queue_timeout: Duration::from_millis(50), ..AppLimits::default() };
    let front = TestFront::open(limits, &[&worker]);
    let _served = front.get("/").await;
    let _busy = worker.accept().await;
    let mut waits = front.get("/").await;
    assert_eq!(waits.read_status_and("(queue_timeout); try again\n").await, 503);
    front.wait_for_metric(WAITING, 0).await;
}

#[tokio::test]
async fn a_request_of_a_disconnected_client_reaches_no_worker() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let mut first = front.get("/first").await;
    let mut connection = worker.accept().await;
    let gone = front.get("/gone").await;
    front.wait_for_metric(WAITING, 1).await;
    drop(gone);
    front.wait_for_metric(WAITING, 0).await;
    let mut last = front.get("/last").await;
    front.wait_for_metric(WAITING, 1).await;
    connection.read_head().await;
    connection.respond("first").await;
    first.read_until("first").await;
    let mut connection = worker.accept().await;
    assert!(connection.read_head().await.starts_with("GET /last "));
    connection.respond("last").await;
    last.read_until("last").await;
}

#[tokio::test]
async fn a_worker_stays_busy_until_it_responds_even_without_a_client() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let gone = front.get("/gone").await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    drop(gone);
    front
        .wait_for_metric("weir_front_app_failures_total{app=\"app\",reason=\"client_gone\"}", 1)
        .await;
    let mut next = front.get("/next").await;
    front.wait_for_metric(WAITING, 1).await;
    assert!(worker.has_no_connection().await);
    connection.respond("for nobody").await;
    let mut connection = worker.accept().await;
    assert!(connection.read_head().await.starts_with("GET /next "));
    connection.respond("next").await;
    assert_eq!(next.read_status_and("next").await, 200);
}

#[tokio::test]
async fn a_late_worker_gives_504_and_gets_no_new_request() {
    let (late, other) = (Worker::listen().await, Worker::listen().await);
    let limits = AppLimits { service_timeout: Duration::from_millis(50), ..AppLimits::default() };
    let front = TestFront::open(limits, &[&late, &other]);
    let mut client = front.get("/").await;
    let mut connection = late.accept().await;
    connection.read_head().await;
    let head = client.read_head().await;
    assert_eq!(status(&head), 504);
    assert!(head.contains("retry-after: 2"), "{head}");
    client.read_until("(service_timeout)\n").await;
    for _ in 0..3 {
        let mut client = front.get("/").await;
        let mut connection = other.accept().await;
        connection.read_head().await;
        connection.respond("other").await;
        assert_eq!(client.read_status_and("other").await, 200);
    }
    assert!(late.has_no_connection().await);
}
