//! Bodies: passed on as they come, within their limits.

use std::io::Write;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep, sleep_until};
use weir_front::{AppLimits, Gzip};

use crate::test_front::{TestFront, Worker, get, status};

const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\n";

/// Nothing of a body is kept.
fn unbuffered() -> AppLimits {
    AppLimits { request_buffer_bytes: 0, ..AppLimits::default() }
}

#[tokio::test]
async fn bodies_are_relayed_as_they_arrive_in_both_directions() {
    let worker = Worker::listen().await;
    let front = TestFront::open(unbuffered(), &[&worker]);
    let mut client = front.send(&format!("{POST}Content-Length: 10\r\n\r\nfirst")).await;
    let mut connection = worker.accept().await;
    assert!(connection.read_head().await.contains("content-length: 10"));
    connection.read_until("first").await;
    client.write("later").await;
    connection.read_until("later").await;
    connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none \r\n").await;
    client.read_until("one ").await;
    connection.write("3\r\ntwo\r\n0\r\n\r\n").await;
    client.read_until("two").await;
}

#[tokio::test]
async fn event_streams_are_relayed_at_once_and_hold_no_request_slot() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let request = "GET /events HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n";
    let mut listener = front.send(request).await;
    let mut stream = worker.accept().await;
    stream.read_head().await;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    stream.write(&format!("{head}data: 1\n\n")).await;
    listener.read_until("data: 1\n\n").await;
    let mut client = front.get("/meanwhile").await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.respond("served").await;
    assert_eq!(client.read_status_and("served").await, 200);
    stream.write("data: 2\n\n").await;
    listener.read_until("data: 2\n\n").await;
}

#[tokio::test]
async fn an_oversized_body_is_rejected_with_or_without_a_length() {
    let worker = Worker::listen().await;
    let limits = AppLimits { request_bytes_max: 8, ..unbuffered() };
    let front = TestFront::open(limits, &[&worker]);
    let mut client = front.send(&format!("{POST}Content-Length: 9\r\n\r\n")).await;
    assert_eq!(client.read_status_and("(request_bytes_max)\n").await, 413);
    assert!(worker.has_no_connection().await);

    let request = format!("{POST}Transfer-Encoding: chunked\r\n\r\n9\r\n123456789\r\n0\r\n\r\n");
    let mut client = front.send(&request).await;
    let mut connection = worker.accept().await;
    assert_eq!(client.read_status_and("(request_bytes_max)\n").await, 413);
    assert!(
        !connection.read_to_end().await.ends_with("0\r\n\r\n"),
        "the worker sees no whole body"
    );
    drop(connection);

    let mut client = front.send(&format!("{POST}Content-Length: 8\r\n\r\n12345678")).await;
    let mut connection = worker.accept().await;
    connection.read_until("12345678").await;
    connection.respond("whole").await;
    assert_eq!(client.read_status_and("whole").await, 200);
}

#[tokio::test]
async fn a_truncated_or_malformed_body_never_looks_complete_to_the_worker() {
    let worker = Worker::listen().await;
    let front = TestFront::open(unbuffered(), &[&worker]);
    let mut client = front.send(&format!("{POST}Transfer-Encoding: chunked\r\n\r\nZ\r\n")).await;
    let mut connection = worker.accept().await;
    assert_eq!(status(&client.read_head().await), 400);
    assert!(!connection.read_to_end().await.contains("\r\n0\r\n"));
    drop(connection);

    let mut client = front.send(&format!("{POST}Content-Length: 9\r\n\r\nhalf")).await;
    let mut connection = worker.accept().await;
    connection.read_until("half").await;
    client.socket.shutdown().await.expect("to hang up");
    assert_eq!(connection.read_to_end().await, "");
}

#[tokio::test]
async fn a_worker_with_a_truncated_upload_stays_busy_until_it_responds() {
    let worker = Worker::listen().await;
    let front = TestFront::open(unbuffered(), &[&worker]);
    let client = front.send(&format!("{POST}Content-Length: 9\r\n\r\nhalf")).await;
    let mut connection = worker.accept().await;
    connection.read_until("half").await;
    drop(client);
    assert_eq!(connection.read_to_end().await, "", "it can read that there is no more");
    let mut next = front.get("/next").await;
    front.wait_for_metric(WAITING, 1).await;
    assert!(worker.has_no_connection().await);
    assert_eq!(front.apps.overdue("app", Duration::ZERO).len(), 1, "its age counts");
    connection.respond("to nobody").await;
    let mut connection = worker.accept().await;
    assert!(connection.read_head().await.starts_with("GET /next "));
    connection.respond("next").await;
    assert_eq!(next.read_status_and("next").await, 200);
}

#[tokio::test]
async fn an_early_response_still_waits_for_the_client() {
    let worker = Worker::listen().await;
    let front = TestFront::open(unbuffered(), &[&worker]);
    let mut client = front.send(&format!("{POST}Content-Length: 10\r\n\r\nfirst")).await;
    let mut connection = worker.accept().await;
    connection.read_until("first").await;
    connection.write("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsome").await;
    client.read_until("some").await;
    until_overdue(&front, 0).await;
    client.write("later").await;
    connection.read_until("later").await;
    until_overdue(&front, 1).await;
    connection.write("more").await;
    client.read_until("more").await;
}

#[tokio::test]
async fn a_truncated_response_never_looks_complete_to_the_client() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let mut client = front.get("/").await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n").await;
    client.read_until("half").await;
    drop(connection);
    assert!(!client.read_to_end().await.contains("\r\n0\r\n"));

    let mut client = front.get("/").await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.write("HTTP/1.1 200 OK\r\nContent-Le").await;
    drop(connection);
    assert_eq!(client.read_status_and("before its response was complete\n").await, 502);
}

#[tokio::test]
async fn a_worker_that_is_silent_within_a_response_times_out() {
    let worker = Worker::listen().await;
    let limits = AppLimits { body_timeout: Duration::from_millis(50), ..AppLimits::default() };
    let front = TestFront::open(limits, &[&worker]);
    let mut client = front.get("/").await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.write("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf").await;
    assert!(client.read_to_end().await.ends_with("half"));
}

#[tokio::test]
async fn a_slow_upload_occupies_no_worker_until_it_is_complete() {
    let worker = Worker::listen().await;
    let limits = AppLimits { request_buffer_bytes: 16, ..AppLimits::default() };
    let front = TestFront::open(limits, &[&worker]);
    let mut slow =
        front.send(&format!("{POST}Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")).await;
    assert!(worker.has_no_connection().await);
    slow.write("6\r\n whole\r\n0\r\n\r\n").await;
    let mut connection = worker.accept().await;
    assert!(
        connection.read_head().await.contains("content-length: 10"),
        "its length is known by now"
    );
    connection.read_until("half whole").await;
    connection.respond("done").await;
    assert_eq!(slow.read_status_and("done").await, 200);

    // More than is kept goes on as it comes.
    let mut long = front.send(&format!("{POST}Content-Length: 40\r\n\r\n{}", "a".repeat(16))).await;
    let mut connection = worker.accept().await;
    assert!(connection.read_head().await.contains("content-length: 40"));
    connection.read_until(&"a".repeat(16)).await;
    long.write(&"b".repeat(24)).await;
    connection.read_until(&"b".repeat(24)).await;
    connection.respond("long").await;
    assert_eq!(long.read_status_and("long").await, 200);
}

#[tokio::test]
async fn a_client_that_stalls_or_leaves_during_upload_reaches_no_worker() {
    let worker = Worker::listen().await;
    let limits = AppLimits { body_timeout: Duration::from_millis(50), ..AppLimits::default() };
    let front = TestFront::open(limits, &[&worker]);
    let mut silent = front.send(&format!("{POST}Content-Length: 9\r\n\r\nhalf")).await;
    assert_eq!(silent.read_status_and("(body_timeout)\n").await, 408);
    let mut gone = front.send(&format!("{POST}Content-Length: 9\r\n\r\nhalf")).await;
    gone.socket.shutdown().await.expect("to hang up");
    assert_eq!(status(&gone.read_head().await), 400);
    let mut damaged = front.send(&format!("{POST}Transfer-Encoding: chunked\r\n\r\nZ\r\n")).await;
    assert_eq!(status(&damaged.read_head().await), 400);
    assert!(worker.has_no_connection().await);
}

#[tokio::test]
async fn a_buffered_body_can_be_sent_to_another_worker() {
    let (first, second) = (Worker::listen().await, Worker::listen().await);
    let limits = AppLimits { concurrency: 8, ..AppLimits::default() };
    let front = TestFront::open(limits, &[&first, &second]);
    let post = format!("{POST}Content-Length: 4\r\n\r\nbody");
    let mut client = front.send(&post).await;
    let mut connection = first.accept().await;
    connection.read_until("body").await;
    connection.respond("one").await;
    client.read_until("one").await;
    // The kept connection ends, and that is known before the next request.
    drop(connection);
    drop(first);
    client.write(&get("/")).await;
    let mut other = second.accept().await;
    other.read_head().await;
    other.respond("two").await;
    client.read_until("two").await;
    client.write(&post).await;
    other.read_until("body").await;
    other.respond("three").await;
    assert_eq!(client.read_status_and("three").await, 200);
}

#[tokio::test]
async fn a_slow_client_frees_the_worker_once_the_response_is_buffered() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let mut slow = front.get("/long").await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    // More than the sockets between them take.
    let length = 900 << 10;
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
    connection.write(&head).await;
    connection.write(&"x".repeat(length)).await;
    let mut next = front.get("/next").await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.respond("next").await;
    assert_eq!(next.read_status_and("next").await, 200);
    slow.read_head().await;
    assert_eq!(slow.read_until(&"x".repeat(length)).await.len(), length);
}

#[tokio::test]
async fn without_buffer_space_a_worker_waits_for_its_client() {
    let worker = Worker::listen().await;
    let limits = AppLimits {
        buffers_max: 0,
        queue_timeout: Duration::from_millis(50),
        ..AppLimits::default()
    };
    let front = TestFront::open(limits, &[&worker]);
    let mut slow = front.get("/long").await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    let length = 32 << 20;
    connection.write(&format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")).await;
    let piece = "x".repeat(1 << 20);
    let writing = async {
        for _ in 0..32 {
            connection.write(&piece).await;
        }
    };
    let reading = async {
        let mut refused = front.get("/refused").await;
        assert_eq!(refused.read_status_and("(queue_timeout); try again\n").await, 503);
        slow.read_head().await;
        for _ in 0..32 {
            slow.read_until(&piece).await;
        }
    };
    tokio::join!(writing, reading);
}

#[tokio::test]
async fn responses_are_compressed_on_request_and_flushed_on_pauses() {
    let worker = Worker::listen().await;
    let limits = AppLimits { gzip: Some(Gzip::default()), ..AppLimits::default() };
    let front = TestFront::open(limits, &[&worker]);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n";
    let mut client = front.send(request).await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.write("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: \"1\"\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n").await;
    let head = client.read_head().await;
    for field in ["content-encoding: gzip", "vary: accept-encoding", "etag: W/\"1\""] {
        assert!(head.contains(field), "{field} in {head}");
    }
    let mut text = Vec::new();
    let mut decoder = flate2::write::GzDecoder::new(&mut text);
    // The worker has said no more, and yet this much arrives.
    while decoder.get_ref().is_empty() {
        decoder.write_all(&client.read_chunk().await).expect("gzip");
        decoder.flush().expect("gzip");
    }
    connection.write("6\r\n whole\r\n0\r\n\r\n").await;
    loop {
        let chunk = client.read_chunk().await;
        if chunk.is_empty() {
            break;
        }
        decoder.write_all(&chunk).expect("gzip");
    }
    decoder.finish().expect("a whole stream");
    assert_eq!(text, b"half whole");

    // Who does not ask gets it plain, and caches are told.
    client.write(&get("/")).await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    let long = "x".repeat(2_000);
    connection
        .write(&format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2000\r\n\r\n{long}"
        ))
        .await;
    let head = client.read_head().await;
    assert!(head.contains("vary: accept-encoding") && !head.contains("content-encoding"), "{head}");
    client.read_until(&long).await;
}

/// RFC 9110, section 9.3.2: a cache learns from it what a GET would get.
#[tokio::test]
async fn a_head_response_has_the_fields_of_the_compressed_one() {
    let worker = Worker::listen().await;
    let limits = AppLimits { gzip: Some(Gzip::default()), ..AppLimits::default() };
    let front = TestFront::open(limits, &[&worker]);
    let mut heads = Vec::new();
    for (coding, bytes) in [("gzip", 2_000), ("identity", 2_000), ("gzip", 20)] {
        let request = format!("HEAD / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\r\n");
        let mut client = front.send(&request).await;
        let mut connection = worker.accept().await;
        connection.read_head().await;
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: \"1\"\r\n\
             Content-Length: {bytes}\r\nConnection: close\r\n\r\n"
        );
        connection.write(&answer).await;
        heads.push(client.read_head().await);
        // Not a byte of a body: the next answer follows at once.
        client.write(&get("/")).await;
        let mut connection = worker.accept().await;
        connection.read_head().await;
        connection.write("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").await;
        assert!(client.read_head().await.starts_with("HTTP/1.1 204 "));
    }
    let has = |head: &str| {
        ["content-encoding: gzip", "vary: accept-encoding", "content-length: ", "etag: W/"]
            .map(|field| head.contains(field))
    };
    assert_eq!(has(&heads[0]), [true, true, false, true], "{}", heads[0]);
    assert_eq!(has(&heads[1]), [false, true, true, false], "{}", heads[1]);
    assert_eq!(has(&heads[2]), [false, false, true, false], "{}", heads[2]);
}

const WAITING: &str = "weir_front_app_waiting{app=\"app\"}";

/// Until as many workers owe something.
async fn until_overdue(front: &TestFront, count: usize) {
    while front.apps.overdue("app", Duration::ZERO).len() != count {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_worker_that_waits_for_a_slow_client_is_not_stuck() {
    let worker = Worker::listen().await;
    let limits = AppLimits { answer_buffer_bytes: 1, ..unbuffered() };
    let front = TestFront::open(limits, &[&worker]);
    let mut client = front.send(&format!("{POST}Content-Length: 10\r\n\r\nfirst")).await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.read_until("first").await;
    until_overdue(&front, 0).await;
    client.write("later").await;
    connection.read_until("later").await;
    until_overdue(&front, 1).await;
    // More than the sockets between here and the client take.
    let sending = async {
        connection.write("HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n").await;
        let piece = vec![b'x'; 1 << 20];
        while connection.socket.write_all(&piece).await.is_ok() {}
    };
    let watching = until_overdue(&front, 0);
    tokio::select! {
        () = sending => panic!("the client has not read"),
        () = watching => {}
    }
}

#[tokio::test]
async fn a_worker_stays_busy_until_the_end_of_an_unread_response() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let mut gone = front.get("/gone").await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome").await;
    gone.read_until("some").await;
    drop(gone);
    let mut next = front.get("/next").await;
    front.wait_for_metric(WAITING, 1).await;
    assert!(worker.has_no_connection().await);
    assert_eq!(front.apps.overdue("app", Duration::ZERO).len(), 1, "its age counts");
    connection.write("more.").await;
    let mut connection = worker.accept().await;
    assert!(connection.read_head().await.starts_with("GET /next "));
    connection.respond("next").await;
    assert_eq!(next.read_status_and("next").await, 200);
}

#[tokio::test]
async fn a_worker_that_stalls_within_a_response_stays_busy_and_cuts_the_client() {
    let worker = Worker::listen().await;
    let limits = AppLimits { body_timeout: Duration::from_millis(50), ..AppLimits::default() };
    let front = TestFront::open(limits, &[&worker]);
    let mut client = front.get("/").await;
    let mut connection = worker.accept().await;
    connection.read_head().await;
    connection.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome").await;
    assert!(client.read_to_end().await.ends_with("some"), "cut off");
    let _next = front.get("/next").await;
    front.wait_for_metric(WAITING, 1).await;
    assert!(worker.has_no_connection().await);
    assert_eq!(front.apps.overdue("app", Duration::ZERO).len(), 1, "its age counts");
}

#[tokio::test]
async fn many_small_pieces_of_a_body_are_buffered_as_one() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let _served = front.get("/").await;
    let _busy = worker.accept().await;
    let pieces = "1\r\nx\r\n".repeat(1_000);
    let post = format!("{POST}Transfer-Encoding: chunked\r\n\r\n{pieces}");
    let _client = front.send(&post).await;
    // Room for it doubles as it grows.
    front.wait_for_metric("weir_front_app_buffered_bytes{app=\"app\"}", 1_024).await;
}

/// Tried again if the machine was too busy for the times to be as they are meant.
#[tokio::test]
async fn the_service_timeout_starts_at_the_end_of_the_upload() {
    let service_timeout = Duration::from_millis(400);
    let limits = AppLimits { service_timeout, ..unbuffered() };
    for _ in 0..20 {
        let worker = Worker::listen().await;
        let front = TestFront::open(limits.clone(), &[&worker]);
        let mut client = front.send(&format!("{POST}Content-Length: 10\r\n\r\nfirst")).await;
        let began = Instant::now();
        let mut connection = worker.accept().await;
        connection.read_until("first").await;
        sleep(Duration::from_millis(300)).await;
        let ended = Instant::now();
        client.write("later").await;
        connection.read_until("later").await;
        sleep_until(began + service_timeout + Duration::from_millis(150)).await;
        connection.respond("stored").await;
        if ended.elapsed() < service_timeout - Duration::from_millis(50) {
            assert_eq!(client.read_status_and("stored").await, 200);
            return;
        }
    }
    panic!("this machine is too busy for any of 20 tries");
}
