//! WebSockets, and whatever else a connection may become.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weir_front::{AppLimits, AppSettings, ProxySettings};
use weir_net::client::{ClientLimits, TrustedProxy};

use crate::test_front::{Connection, TIMEOUT, TestFront, Worker, get, status};

const WAITING: &str = "weir_front_app_waiting{app=\"app\"}";
const ASK: &str = "GET /cable HTTP/1.1\r\nHost: app.example\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Sec-WebSocket-Version: 13\r\n\r\n";
const AGREE: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

#[tokio::test]
async fn an_upgraded_socket_is_joined_and_holds_no_request_slot() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let mut client = front.send(&format!("{ASK}early ")).await;
    let mut connection = worker.accept().await;
    let head = connection.read_head().await;
    for line in ["GET /cable HTTP/1.1", "connection: upgrade", "upgrade: websocket"] {
        assert!(head.contains(line), "{head}");
    }
    assert!(head.contains("x-forwarded-for: 127.0.0.1"), "{head}");
    connection.write(&format!("{AGREE}welcome")).await;
    let head = client.read_head().await;
    assert_eq!(status(&head), 101);
    assert!(head.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
    client.read_until("welcome").await;
    client.write("late").await;
    connection.read_until("early late").await;

    let mut other = front.get("/meanwhile").await;
    let mut request = worker.accept().await;
    request.read_head().await;
    request.respond("served").await;
    assert_eq!(other.read_status_and("served").await, 200);

    client.socket.shutdown().await.expect("to hang up");
    assert_eq!(connection.read_to_end().await, "");
    connection.write("bye").await;
    drop(connection);
    assert_eq!(client.read_to_end().await, "bye");
}

#[tokio::test]
async fn a_declined_upgrade_closes_the_connection() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let mut client = front.send(&format!("{ASK}{}", get("/smuggled"))).await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.write("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno").await;
    let answer = client.read_to_end().await;
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n") && answer.ends_with("no"), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    assert_eq!(connection.read_to_end().await, "");
    assert!(worker.has_no_connection().await);
}

#[tokio::test]
async fn a_later_request_of_a_connection_can_be_upgraded() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let mut client = front.get("/first").await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.respond("first").await;
    client.read_until("first").await;
    client.write(ASK).await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.write(AGREE).await;
    assert_eq!(status(&client.read_head().await), 101);
    client.write("ping").await;
    connection.read_until("ping").await;
}

/// A WebSocket that is open: the client's end and the worker's.
async fn open_socket(front: &TestFront, worker: &Worker, ask: &str) -> (Connection, Connection) {
    let mut client = front.send(ask).await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.write(AGREE).await;
    assert_eq!(status(&client.read_head().await), 101);
    (client, connection)
}

async fn is_served(front: &TestFront, worker: &Worker) {
    let mut client = front.get("/").await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.respond("served").await;
    assert_eq!(client.read_status_and("served").await, 200);
}

/// 192 silent ones took two workers with a concurrency of 32 away from everybody.
#[tokio::test]
async fn idle_sockets_leave_request_slots_free() {
    let workers = [Worker::listen().await, Worker::listen().await];
    let limits = AppLimits { concurrency: 32, ..AppLimits::default() };
    let front = TestFront::open(limits, &[&workers[0], &workers[1]]);
    let mut open = Vec::new();
    for _ in 0..192 {
        let mut client = front.send(ASK).await;
        let mut connection = tokio::select! {
            connection = workers[0].accept() => connection,
            connection = workers[1].accept() => connection,
        };
        connection.read_head().await;
        connection.write(AGREE).await;
        assert_eq!(status(&client.read_head().await), 101);
        open.push((client, connection));
    }
    let mut client = front.get("/").await;
    let mut connection = tokio::select! {
        connection = workers[0].accept() => connection,
        connection = workers[1].accept() => connection,
    };
    connection.read_head().await;
    connection.respond("served").await;
    assert_eq!(client.read_status_and("served").await, 200);
}

#[tokio::test]
async fn sockets_beyond_the_limit_are_rejected_and_requests_served() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits { streams: Some(1), ..AppLimits::default() }, &[&worker]);
    let open = open_socket(&front, &worker, ASK).await;
    let mut client = front.send(ASK).await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.write(AGREE).await;
    let answer = client.read_to_end().await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("(streams)") && answer.contains("retry-after: "), "{answer}");
    assert_eq!(connection.read_to_end().await, "", "the worker learns that nobody is there");
    assert_eq!(front.metric("weir_front_app_refusals_total{app=\"app\",reason=\"streams\"}"), 1);
    is_served(&front, &worker).await;
    // One that has ended makes room.
    drop(open);
    let again = async {
        loop {
            let mut client = front.send(ASK).await;
            let mut connection = worker.accept().await;
            connection.read_head().await;
            connection.write(AGREE).await;
            if status(&client.read_head().await) == 101 {
                break;
            }
        }
    };
    tokio::time::timeout(TIMEOUT, again).await.expect("room for another one");
}

#[tokio::test]
async fn event_streams_beyond_the_limit_are_rejected_and_requests_served() {
    let worker = Worker::listen().await;
    let front = TestFront::open(
        AppLimits { streams: Some(0), concurrency: 2, ..AppLimits::default() },
        &[&worker],
    );
    let mut open = Vec::new();
    for expected in [200, 503] {
        let mut client = front.get("/events").await;
        let mut stream = worker.accept().await;
        stream.read_head().await;
        stream.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n").await;
        assert_eq!(status(&client.read_head().await), expected);
        open.push((client, stream));
    }
    // The thread that goes on with the second one has its slot until it has noticed.
    let mut waits = front.get("/waits").await;
    front.wait_for_metric(WAITING, 1).await;
    drop(open.pop());
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.respond("served").await;
    assert_eq!(waits.read_status_and("served").await, 200);
}

#[tokio::test]
async fn the_stream_limit_per_client_leaves_room_for_others() {
    let worker = Worker::listen().await;
    let clients = ClientLimits { streams_max: 1, ..ClientLimits::default() };
    let limits = weir_net::server::HttpServerLimits { clients, ..Default::default() };
    let proxy: TrustedProxy = "127.0.0.1".parse().expect("an address");
    let settings = ProxySettings { trusted_proxies: vec![proxy].into(), ..Default::default() };
    let app = AppSettings { workers: vec![worker.address()], ..AppSettings::new("app") };
    let front = TestFront::within(limits, app, settings);
    let ask = |address: &str| ASK.replace("Host:", &format!("X-Forwarded-For: {address}\r\nHost:"));
    let _open = open_socket(&front, &worker, &ask("192.0.2.7")).await;
    let mut refused = front.send(&ask("192.0.2.7")).await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.write(AGREE).await;
    let answer = refused.read_to_end().await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("front.clients.streams_max"), "{answer}");
    let hits = "weir_front_limit_hits_total{limit=\"clients.streams_max\"}";
    assert_eq!(front.metric(hits), 1);
    // Event streams count with them, plain answers do not.
    let get = |path, address: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {address}\r\n\r\n")
    };
    let events = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n";
    let plain = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    for (address, answer, expected) in
        [("192.0.2.7", events, 503), ("192.0.2.7", plain, 200), ("192.0.2.8", events, 200)]
    {
        let mut client = front.send(&get("/events", address)).await;
        let mut connection = worker.accept().await;
        connection.read_head().await;
        connection.write(answer).await;
        assert_eq!(status(&client.read_head().await), expected, "{address}");
    }
    assert_eq!(front.metric(hits), 2);
    let _others = open_socket(&front, &worker, &ask("192.0.2.9")).await;
}

#[tokio::test]
async fn an_upgrade_request_does_not_overtake_the_queue() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let _served = front.get("/").await;
    let _busy = worker.accept().await;
    let _socket = front.send(ASK).await;
    front.wait_for_metric(WAITING, 1).await;
    let accept = "GET /events HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n";
    let _events = front.send(accept).await;
    front.wait_for_metric(WAITING, 2).await;
    assert!(worker.has_no_connection().await);
}

#[tokio::test]
async fn a_worker_that_ignores_an_upgrade_stays_busy() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let client = front.send(ASK).await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    assert_eq!(front.apps.overdue("app", Duration::ZERO).len(), 1, "its age counts");
    drop(client);
    front
        .wait_for_metric("weir_front_app_failures_total{app=\"app\",reason=\"client_gone\"}", 1)
        .await;
    let mut next = front.get("/next").await;
    front.wait_for_metric(WAITING, 1).await;
    assert!(worker.has_no_connection().await);
    connection.write(AGREE).await;
    assert_eq!(connection.read_to_end().await, "", "there is nobody to talk to");
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.respond("served").await;
    assert_eq!(next.read_status_and("served").await, 200);
}

#[tokio::test]
async fn an_open_socket_does_not_make_a_worker_stuck() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits { streams: Some(0), ..AppLimits::default() }, &[&worker]);
    let mut client = front.send(ASK).await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.write(AGREE).await;
    assert_eq!(status(&client.read_head().await), 101);
    assert!(front.apps.overdue("app", Duration::ZERO).is_empty());
}

#[tokio::test]
async fn an_upgrade_field_without_connection_is_ignored() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let post = "POST / HTTP/1.1\r\nHost: a\r\nUpgrade: h2,h2c\r\nContent-Length: 3\r\n\r\nabc";
    let mut client = front.send(post).await;
    let mut connection = worker.accept().await;
    let head = connection.read_head().await;
    assert!(head.starts_with("POST / ") && !head.contains("upgrade"), "{head}");
    connection.read_until("abc").await;
    connection.respond("served").await;
    assert_eq!(client.read_status_and("served").await, 200);
}

#[tokio::test]
async fn upgrade_requests_get_the_maintenance_page_too() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    front.apps.set_maintenance("app", true).expect("an app");
    let mut client = front.send(ASK).await;
    let answer = client.read_to_end().await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("retry-after: 60") && answer.contains("text/html"), "{answer}");
    assert!(answer.ends_with("</html>\n"), "{answer}");
    assert!(worker.has_no_connection().await);
}

#[tokio::test]
async fn streams_end_on_shutdown() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let mut socket = front.send(ASK).await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.write(AGREE).await;
    socket.read_head().await;
    let request = "GET /events HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n";
    let mut events = front.send(request).await;
    let mut stream = worker.accept().await;
    stream.read_head().await;
    stream.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n").await;
    events.read_until("data: 1\n\n").await;
    front.graceful.cancel();
    let mut close = [0; 4];
    socket.socket.read_exact(&mut close).await.expect("a close frame");
    assert_eq!(close, [0x88, 2, 0x03, 0xe9]);
    let confirmed = [0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe9];
    socket.socket.write_all(&confirmed).await.expect("to write");
    let mut told = [0; 8];
    connection.socket.read_exact(&mut told).await.expect("the client's confirmation");
    assert_eq!(told, confirmed);
    connection.socket.shutdown().await.expect("to hang up");
    socket.socket.shutdown().await.expect("to hang up");
    assert_eq!(socket.read_to_end().await, "");
    assert!(events.read_to_end().await.ends_with("0\r\n\r\n"), "in order");
    assert_eq!(connection.read_to_end().await, "");
    assert_eq!(stream.read_to_end().await, "");
}

#[tokio::test]
async fn an_unrequested_101_is_an_error() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let mut client = front.get("/").await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.write(AGREE).await;
    assert_eq!(client.read_status_and("no answer of HTTP/1.1 to this request\n").await, 502);
    assert_eq!(connection.read_to_end().await, "");
}

#[tokio::test]
async fn a_response_to_an_upgrade_other_than_101_is_relayed() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let mut client = front.send(ASK).await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    connection.write(&format!("{head}5\r\nhello\r\n")).await;
    client.read_until("\r\nhello\r\n").await;
    assert_eq!(front.apps.overdue("app", Duration::ZERO).len(), 1, "its age counts");
    connection.write("6\r\n world\r\n0\r\n\r\n").await;
    assert_eq!(client.read_to_end().await, "6\r\n world\r\n0\r\n\r\n");

    // One that breaks off does not pass for a whole one.
    let mut client = front.send(ASK).await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.write(&format!("{head}5\r\nhello\r\n")).await;
    client.read_until("\r\nhello\r\n").await;
    drop(connection);
    assert_eq!(client.read_to_end().await, "");

    // The worker is busy with it also when nobody listens.
    let mut gone = front.send(ASK).await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.write(&format!("{head}5\r\nhello\r\n")).await;
    gone.read_until("\r\nhello\r\n").await;
    drop(gone);
    let mut next = front.get("/next").await;
    front.wait_for_metric(WAITING, 1).await;
    assert!(worker.has_no_connection().await);
    connection.write("0\r\n\r\n").await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.respond("next").await;
    assert_eq!(next.read_status_and("next").await, 200);
}

const EVENTS: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n";

#[tokio::test]
async fn a_rejected_stream_keeps_its_request_slot_until_the_worker_can_notice() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits { streams: Some(0), ..AppLimits::default() }, &[&worker]);
    let mut gone = front.get("/events").await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.write(EVENTS).await;
    gone.read_until("data: 1").await;
    drop(gone);
    assert_eq!(connection.read_to_end().await, "", "whoever reads learns it at once");
    let mut next = front.get("/next").await;
    front.wait_for_metric(WAITING, 1).await;
    assert!(worker.has_no_connection().await);
    assert!(front.apps.overdue("app", Duration::ZERO).is_empty(), "it owes no event");
    connection.write("data: 2\n\n").await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.respond("next").await;
    assert_eq!(next.read_status_and("next").await, 200);
}

#[tokio::test]
async fn a_client_that_leaves_before_the_first_event_leaves_the_worker_busy() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits { streams: Some(0), ..AppLimits::default() }, &[&worker]);
    let gone = front.get("/events").await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    drop(gone);
    front
        .wait_for_metric("weir_front_app_failures_total{app=\"app\",reason=\"client_gone\"}", 1)
        .await;
    connection.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n").await;
    let mut next = front.get("/next").await;
    assert_eq!(connection.read_to_end().await, "");
    front.wait_for_metric(WAITING, 1).await;
    assert!(worker.has_no_connection().await);
    connection.write("data: 1\n\n").await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.respond("next").await;
    assert_eq!(next.read_status_and("next").await, 200);
}
