//! WebSockets, and whatever else a connection may become.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weir_front::{AppLimits, AppSettings, ProxySettings};
use weir_net::client::{ClientLimits, TrustedProxy};

use crate::door::{Door, PATIENCE, Peers, Worker, get, status};

const WAITING: &str = "weir_front_app_waiting{app=\"app\"}";
const ASK: &str = "GET /cable HTTP/1.1\r\nHost: app.example\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Sec-WebSocket-Version: 13\r\n\r\n";
const AGREE: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

#[tokio::test]
async fn a_socket_is_joined_to_the_worker_s_and_holds_no_slot_for_requests() {
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits::default(), &[&worker]);
    let mut client = door.send(&format!("{ASK}early ")).await;
    let mut connection = worker.accept().await;
    let head = connection.head().await;
    for line in ["GET /cable HTTP/1.1", "connection: upgrade", "upgrade: websocket"] {
        assert!(head.contains(line), "{head}");
    }
    assert!(head.contains("x-forwarded-for: 127.0.0.1"), "{head}");
    connection.write(&format!("{AGREE}welcome")).await;
    let head = client.head().await;
    assert_eq!(status(&head), 101);
    assert!(head.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
    client.until("welcome").await;
    client.write("late").await;
    connection.until("early late").await;

    let mut other = door.get("/meanwhile").await;
    let mut request = worker.accept().await;
    request.head().await;
    request.answer("served").await;
    assert_eq!(other.status_and("served").await, 200);

    client.socket.shutdown().await.expect("to hang up");
    assert_eq!(connection.rest().await, "");
    connection.write("bye").await;
    drop(connection);
    assert_eq!(client.rest().await, "bye");
}

#[tokio::test]
async fn a_worker_that_declines_gets_nothing_more_of_that_connection() {
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits::default(), &[&worker]);
    let mut client = door.send(&format!("{ASK}{}", get("/smuggled"))).await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.write("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno").await;
    let answer = client.rest().await;
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n") && answer.ends_with("no"), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    assert_eq!(connection.rest().await, "");
    assert!(worker.is_left_alone().await);
}

#[tokio::test]
async fn a_later_request_of_a_connection_may_become_a_socket_too() {
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits::default(), &[&worker]);
    let mut client = door.get("/first").await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.answer("first").await;
    client.until("first").await;
    client.write(ASK).await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.write(AGREE).await;
    assert_eq!(status(&client.head().await), 101);
    client.write("ping").await;
    connection.until("ping").await;
}

/// A WebSocket that is open: the client's end and the worker's.
async fn open_socket(door: &Door, worker: &Worker, ask: &str) -> (Peers, Peers) {
    let mut client = door.send(ask).await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.write(AGREE).await;
    assert_eq!(status(&client.head().await), 101);
    (client, connection)
}

async fn is_served(door: &Door, worker: &Worker) {
    let mut client = door.get("/").await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.answer("served").await;
    assert_eq!(client.status_and("served").await, 200);
}

/// 192 silent ones took two workers with a concurrency of 32 away from everybody.
#[tokio::test]
async fn idle_sockets_leave_an_app_its_requests() {
    let workers = [Worker::listen().await, Worker::listen().await];
    let limits = AppLimits { concurrency: 32, ..AppLimits::default() };
    let door = Door::open(limits, &[&workers[0], &workers[1]]);
    let mut open = Vec::new();
    for _ in 0..192 {
        let mut client = door.send(ASK).await;
        let mut connection = tokio::select! {
            connection = workers[0].accept() => connection,
            connection = workers[1].accept() => connection,
        };
        connection.head().await;
        connection.write(AGREE).await;
        assert_eq!(status(&client.head().await), 101);
        open.push((client, connection));
    }
    let mut client = door.get("/").await;
    let mut connection = tokio::select! {
        connection = workers[0].accept() => connection,
        connection = workers[1].accept() => connection,
    };
    connection.head().await;
    connection.answer("served").await;
    assert_eq!(client.status_and("served").await, 200);
}

#[tokio::test]
async fn a_socket_beyond_the_limit_is_refused_and_requests_are_served() {
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits { streams: Some(1), ..AppLimits::default() }, &[&worker]);
    let open = open_socket(&door, &worker, ASK).await;
    let mut client = door.send(ASK).await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.write(AGREE).await;
    let answer = client.rest().await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("(streams)") && answer.contains("retry-after: "), "{answer}");
    assert_eq!(connection.rest().await, "", "the worker learns that nobody is there");
    assert_eq!(door.metric("weir_front_app_refusals_total{app=\"app\",reason=\"streams\"}"), 1);
    is_served(&door, &worker).await;
    // One that has ended makes room.
    drop(open);
    let again = async {
        loop {
            let mut client = door.send(ASK).await;
            let mut connection = worker.accept().await;
            connection.head().await;
            connection.write(AGREE).await;
            if status(&client.head().await) == 101 {
                break;
            }
        }
    };
    tokio::time::timeout(PATIENCE, again).await.expect("room for another one");
}

#[tokio::test]
async fn events_beyond_the_limit_are_refused_and_requests_are_served() {
    let worker = Worker::listen().await;
    let door = Door::open(
        AppLimits { streams: Some(0), concurrency: 2, ..AppLimits::default() },
        &[&worker],
    );
    let mut open = Vec::new();
    for expected in [200, 503] {
        let mut client = door.get("/events").await;
        let mut stream = worker.accept().await;
        stream.head().await;
        stream.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n").await;
        assert_eq!(status(&client.head().await), expected);
        open.push((client, stream));
    }
    // The thread that goes on with the second one has its slot until it has noticed.
    let mut waits = door.get("/waits").await;
    door.until(WAITING, 1).await;
    drop(open.pop());
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.answer("served").await;
    assert_eq!(waits.status_and("served").await, 200);
}

#[tokio::test]
async fn one_client_leaves_streams_to_others() {
    let worker = Worker::listen().await;
    let clients = ClientLimits { streams_max: 1, ..ClientLimits::default() };
    let limits = weir_net::server::HttpServerLimits { clients, ..Default::default() };
    let proxy: TrustedProxy = "127.0.0.1".parse().expect("an address");
    let settings = ProxySettings { trusted_proxies: vec![proxy].into(), access_log: None };
    let app = AppSettings { workers: vec![worker.address()], ..AppSettings::new("app") };
    let door = Door::within(limits, app, settings);
    let ask = |address: &str| ASK.replace("Host:", &format!("X-Forwarded-For: {address}\r\nHost:"));
    let _open = open_socket(&door, &worker, &ask("192.0.2.7")).await;
    let mut refused = door.send(&ask("192.0.2.7")).await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.write(AGREE).await;
    let answer = refused.rest().await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("front.clients.streams_max"), "{answer}");
    let hits = "weir_front_limit_hits_total{limit=\"clients.streams_max\"}";
    assert_eq!(door.metric(hits), 1);
    // Event streams count with them, plain answers do not.
    let get = |path, address: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {address}\r\n\r\n")
    };
    let events = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n";
    let plain = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    for (address, answer, expected) in
        [("192.0.2.7", events, 503), ("192.0.2.7", plain, 200), ("192.0.2.8", events, 200)]
    {
        let mut client = door.send(&get("/events", address)).await;
        let mut connection = worker.accept().await;
        connection.head().await;
        connection.write(answer).await;
        assert_eq!(status(&client.head().await), expected, "{address}");
    }
    assert_eq!(door.metric(hits), 2);
    let _others = open_socket(&door, &worker, &ask("192.0.2.9")).await;
}

#[tokio::test]
async fn asking_for_a_socket_makes_no_request_overtake_the_others() {
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits::default(), &[&worker]);
    let _served = door.get("/").await;
    let _busy = worker.accept().await;
    let _socket = door.send(ASK).await;
    door.until(WAITING, 1).await;
    let accept = "GET /events HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n";
    let _events = door.send(accept).await;
    door.until(WAITING, 2).await;
    assert!(worker.is_left_alone().await);
}

#[tokio::test]
async fn a_worker_that_says_nothing_to_a_socket_is_busy_whether_or_not_the_client_waits() {
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits::default(), &[&worker]);
    let client = door.send(ASK).await;
    let mut connection = worker.accept().await;
    connection.head().await;
    assert_eq!(door.apps.overdue("app", Duration::ZERO).len(), 1, "its age counts");
    drop(client);
    door.until("weir_front_app_failures_total{app=\"app\",reason=\"client_gone\"}", 1).await;
    let mut next = door.get("/next").await;
    door.until(WAITING, 1).await;
    assert!(worker.is_left_alone().await);
    connection.write(AGREE).await;
    assert_eq!(connection.rest().await, "", "there is nobody to talk to");
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.answer("served").await;
    assert_eq!(next.status_and("served").await, 200);
}

#[tokio::test]
async fn an_open_socket_is_no_sign_of_a_stuck_worker() {
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits { streams: Some(0), ..AppLimits::default() }, &[&worker]);
    let mut client = door.send(ASK).await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.write(AGREE).await;
    assert_eq!(status(&client.head().await), 101);
    assert!(door.apps.overdue("app", Duration::ZERO).is_empty());
}

#[tokio::test]
async fn an_upgrade_that_connection_does_not_name_is_no_more_than_a_field() {
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits::default(), &[&worker]);
    let post = "POST / HTTP/1.1\r\nHost: a\r\nUpgrade: h2,h2c\r\nContent-Length: 3\r\n\r\nabc";
    let mut client = door.send(post).await;
    let mut connection = worker.accept().await;
    let head = connection.head().await;
    assert!(head.starts_with("POST / ") && !head.contains("upgrade"), "{head}");
    connection.until("abc").await;
    connection.answer("served").await;
    assert_eq!(client.status_and("served").await, 200);
}

#[tokio::test]
async fn who_asks_for_a_socket_during_maintenance_gets_the_page_as_everybody() {
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits::default(), &[&worker]);
    door.apps.set_maintenance("app", true).expect("an app");
    let mut client = door.send(ASK).await;
    let answer = client.rest().await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("retry-after: 60") && answer.contains("text/html"), "{answer}");
    assert!(answer.ends_with("</html>\n"), "{answer}");
    assert!(worker.is_left_alone().await);
}

#[tokio::test]
async fn streams_end_when_weir_does() {
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits::default(), &[&worker]);
    let mut socket = door.send(ASK).await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.write(AGREE).await;
    socket.head().await;
    let request = "GET /events HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n";
    let mut events = door.send(request).await;
    let mut stream = worker.accept().await;
    stream.head().await;
    stream.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n").await;
    events.until("data: 1\n\n").await;
    door.graceful.cancel();
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
    assert_eq!(socket.rest().await, "");
    assert!(events.rest().await.ends_with("0\r\n\r\n"), "in order");
    assert_eq!(connection.rest().await, "");
    assert_eq!(stream.rest().await, "");
}

#[tokio::test]
async fn a_worker_can_t_switch_protocols_unasked() {
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits::default(), &[&worker]);
    let mut client = door.get("/").await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.write(AGREE).await;
    assert_eq!(client.status_and("no answer of HTTP/1.1 to this request\n").await, 502);
    assert_eq!(connection.rest().await, "");
}

#[tokio::test]
async fn an_answer_instead_of_a_socket_is_relayed_as_any_other() {
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits::default(), &[&worker]);
    let mut client = door.send(ASK).await;
    let mut connection = worker.accept().await;
    connection.head().await;
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    connection.write(&format!("{head}5\r\nhello\r\n")).await;
    client.until("\r\nhello\r\n").await;
    assert_eq!(door.apps.overdue("app", Duration::ZERO).len(), 1, "its age counts");
    connection.write("6\r\n world\r\n0\r\n\r\n").await;
    assert_eq!(client.rest().await, "6\r\n world\r\n0\r\n\r\n");

    // One that breaks off does not pass for a whole one.
    let mut client = door.send(ASK).await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.write(&format!("{head}5\r\nhello\r\n")).await;
    client.until("\r\nhello\r\n").await;
    drop(connection);
    assert_eq!(client.rest().await, "");

    // The worker is busy with it also when nobody listens.
    let mut gone = door.send(ASK).await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.write(&format!("{head}5\r\nhello\r\n")).await;
    gone.until("\r\nhello\r\n").await;
    drop(gone);
    let mut next = door.get("/next").await;
    door.until(WAITING, 1).await;
    assert!(worker.is_left_alone().await);
    connection.write("0\r\n\r\n").await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.answer("next").await;
    assert_eq!(next.status_and("next").await, 200);
}

const EVENTS: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n";

#[tokio::test]
async fn a_stream_with_a_request_s_slot_keeps_it_until_its_worker_could_notice_that_nobody_listens()
{
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits { streams: Some(0), ..AppLimits::default() }, &[&worker]);
    let mut gone = door.get("/events").await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.write(EVENTS).await;
    gone.until("data: 1").await;
    drop(gone);
    assert_eq!(connection.rest().await, "", "whoever reads learns it at once");
    let mut next = door.get("/next").await;
    door.until(WAITING, 1).await;
    assert!(worker.is_left_alone().await);
    assert!(door.apps.overdue("app", Duration::ZERO).is_empty(), "it owes no event");
    connection.write("data: 2\n\n").await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.answer("next").await;
    assert_eq!(next.status_and("next").await, 200);
}

#[tokio::test]
async fn a_client_that_leaves_before_its_events_begin_leaves_the_worker_busy() {
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits { streams: Some(0), ..AppLimits::default() }, &[&worker]);
    let gone = door.get("/events").await;
    let mut connection = worker.accept().await;
    connection.head().await;
    drop(gone);
    door.until("weir_front_app_failures_total{app=\"app\",reason=\"client_gone\"}", 1).await;
    connection.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n").await;
    let mut next = door.get("/next").await;
    assert_eq!(connection.rest().await, "");
    door.until(WAITING, 1).await;
    assert!(worker.is_left_alone().await);
    connection.write("data: 1\n\n").await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.answer("next").await;
    assert_eq!(next.status_and("next").await, 200);
}
