//! Bodies: passed on as they come, within their limits.

use std::io::Write;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep, sleep_until};
use weir_front::{AppLimits, Gzip};

use crate::door::{Door, Worker, get, status};

const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\n";

/// Nothing of a body is kept.
fn unbuffered() -> AppLimits {
    AppLimits { request_buffer_bytes: 0, ..AppLimits::default() }
}

#[tokio::test]
async fn a_body_is_passed_on_as_it_comes_in_both_directions() {
    let worker = Worker::listen().await;
    let door = Door::open(unbuffered(), &[&worker]);
    let mut client = door.send(&format!("{POST}Content-Length: 10\r\n\r\nfirst")).await;
    let mut connection = worker.accept().await;
    assert!(connection.head().await.contains("content-length: 10"));
    connection.until("first").await;
    client.write("later").await;
    connection.until("later").await;
    connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none \r\n").await;
    client.until("one ").await;
    connection.write("3\r\ntwo\r\n0\r\n\r\n").await;
    client.until("two").await;
}

#[tokio::test]
async fn events_arrive_as_they_are_sent_and_hold_no_slot_for_requests() {
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits::default(), &[&worker]);
    let request = "GET /events HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n";
    let mut listener = door.send(request).await;
    let mut stream = worker.accept().await;
    stream.head().await;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    stream.write(&format!("{head}data: 1\n\n")).await;
    listener.until("data: 1\n\n").await;
    let mut client = door.get("/meanwhile").await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.answer("served").await;
    assert_eq!(client.status_and("served").await, 200);
    stream.write("data: 2\n\n").await;
    listener.until("data: 2\n\n").await;
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_whether_or_not_it_says_its_length() {
    let worker = Worker::listen().await;
    let limits = AppLimits { request_bytes_max: 8, ..unbuffered() };
    let door = Door::open(limits, &[&worker]);
    let mut client = door.send(&format!("{POST}Content-Length: 9\r\n\r\n")).await;
    assert_eq!(client.status_and("(request_bytes_max)\n").await, 413);
    assert!(worker.is_left_alone().await);

    let request = format!("{POST}Transfer-Encoding: chunked\r\n\r\n9\r\n123456789\r\n0\r\n\r\n");
    let mut client = door.send(&request).await;
    let mut connection = worker.accept().await;
    assert_eq!(client.status_and("(request_bytes_max)\n").await, 413);
    assert!(!connection.rest().await.ends_with("0\r\n\r\n"), "the worker sees no whole body");
    drop(connection);

    let mut client = door.send(&format!("{POST}Content-Length: 8\r\n\r\n12345678")).await;
    let mut connection = worker.accept().await;
    connection.until("12345678").await;
    connection.answer("whole").await;
    assert_eq!(client.status_and("whole").await, 200);
}

#[tokio::test]
async fn a_body_that_breaks_off_or_is_damaged_is_no_whole_body_to_the_worker() {
    let worker = Worker::listen().await;
    let door = Door::open(unbuffered(), &[&worker]);
    let mut client = door.send(&format!("{POST}Transfer-Encoding: chunked\r\n\r\nZ\r\n")).await;
    let mut connection = worker.accept().await;
    assert_eq!(status(&client.head().await), 400);
    assert!(!connection.rest().await.contains("\r\n0\r\n"));
    drop(connection);

    let mut client = door.send(&format!("{POST}Content-Length: 9\r\n\r\nhalf")).await;
    let mut connection = worker.accept().await;
    connection.until("half").await;
    client.socket.shutdown().await.expect("to hang up");
    assert_eq!(connection.rest().await, "");
}

#[tokio::test]
async fn a_worker_is_busy_with_an_upload_that_broke_off_until_it_has_done_with_it() {
    let worker = Worker::listen().await;
    let door = Door::open(unbuffered(), &[&worker]);
    let client = door.send(&format!("{POST}Content-Length: 9\r\n\r\nhalf")).await;
    let mut connection = worker.accept().await;
    connection.until("half").await;
    drop(client);
    assert_eq!(connection.rest().await, "", "it can read that there is no more");
    let mut next = door.get("/next").await;
    door.until(WAITING, 1).await;
    assert!(worker.is_left_alone().await);
    assert_eq!(door.apps.overdue("app", Duration::ZERO).len(), 1, "its age counts");
    connection.answer("to nobody").await;
    let mut connection = worker.accept().await;
    assert!(connection.head().await.starts_with("GET /next "));
    connection.answer("next").await;
    assert_eq!(next.status_and("next").await, 200);
}

#[tokio::test]
async fn a_worker_that_answers_before_it_has_read_all_waits_for_the_client_all_the_same() {
    let worker = Worker::listen().await;
    let door = Door::open(unbuffered(), &[&worker]);
    let mut client = door.send(&format!("{POST}Content-Length: 10\r\n\r\nfirst")).await;
    let mut connection = worker.accept().await;
    connection.until("first").await;
    connection.write("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsome").await;
    client.until("some").await;
    until_overdue(&door, 0).await;
    client.write("later").await;
    connection.until("later").await;
    until_overdue(&door, 1).await;
    connection.write("more").await;
    client.until("more").await;
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_whole_answer_to_the_client() {
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits::default(), &[&worker]);
    let mut client = door.get("/").await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n").await;
    client.until("half").await;
    drop(connection);
    assert!(!client.rest().await.contains("\r\n0\r\n"));

    let mut client = door.get("/").await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.write("HTTP/1.1 200 OK\r\nContent-Le").await;
    drop(connection);
    assert_eq!(client.status_and("before its response was complete\n").await, 502);
}

#[tokio::test]
async fn a_worker_that_is_silent_in_the_middle_is_given_up() {
    let worker = Worker::listen().await;
    let limits = AppLimits { body_timeout: Duration::from_millis(50), ..AppLimits::default() };
    let door = Door::open(limits, &[&worker]);
    let mut client = door.get("/").await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.write("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf").await;
    assert!(client.rest().await.ends_with("half"));
}

#[tokio::test]
async fn a_slow_client_holds_no_worker_until_its_body_is_here() {
    let worker = Worker::listen().await;
    let limits = AppLimits { request_buffer_bytes: 16, ..AppLimits::default() };
    let door = Door::open(limits, &[&worker]);
    let mut slow =
        door.send(&format!("{POST}Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")).await;
    assert!(worker.is_left_alone().await);
    slow.write("6\r\n whole\r\n0\r\n\r\n").await;
    let mut connection = worker.accept().await;
    assert!(connection.head().await.contains("content-length: 10"), "its length is known by now");
    connection.until("half whole").await;
    connection.answer("done").await;
    assert_eq!(slow.status_and("done").await, 200);

    // More than is kept goes on as it comes.
    let mut long = door.send(&format!("{POST}Content-Length: 40\r\n\r\n{}", "a".repeat(16))).await;
    let mut connection = worker.accept().await;
    assert!(connection.head().await.contains("content-length: 40"));
    connection.until(&"a".repeat(16)).await;
    long.write(&"b".repeat(24)).await;
    connection.until(&"b".repeat(24)).await;
    connection.answer("long").await;
    assert_eq!(long.status_and("long").await, 200);
}

#[tokio::test]
async fn a_client_that_goes_or_falls_silent_in_its_body_never_reaches_a_worker() {
    let worker = Worker::listen().await;
    let limits = AppLimits { body_timeout: Duration::from_millis(50), ..AppLimits::default() };
    let door = Door::open(limits, &[&worker]);
    let mut silent = door.send(&format!("{POST}Content-Length: 9\r\n\r\nhalf")).await;
    assert_eq!(silent.status_and("(body_timeout)\n").await, 408);
    let mut gone = door.send(&format!("{POST}Content-Length: 9\r\n\r\nhalf")).await;
    gone.socket.shutdown().await.expect("to hang up");
    assert_eq!(status(&gone.head().await), 400);
    let mut damaged = door.send(&format!("{POST}Transfer-Encoding: chunked\r\n\r\nZ\r\n")).await;
    assert_eq!(status(&damaged.head().await), 400);
    assert!(worker.is_left_alone().await);
}

#[tokio::test]
async fn a_body_that_is_here_is_offered_to_another_worker() {
    let (first, second) = (Worker::listen().await, Worker::listen().await);
    let limits = AppLimits { concurrency: 8, ..AppLimits::default() };
    let door = Door::open(limits, &[&first, &second]);
    let post = format!("{POST}Content-Length: 4\r\n\r\nbody");
    let mut client = door.send(&post).await;
    let mut connection = first.accept().await;
    connection.until("body").await;
    connection.answer("one").await;
    client.until("one").await;
    // The kept connection ends, and that is known before the next request.
    drop(connection);
    drop(first);
    client.write(&get("/")).await;
    let mut other = second.accept().await;
    other.head().await;
    other.answer("two").await;
    client.until("two").await;
    client.write(&post).await;
    other.until("body").await;
    other.answer("three").await;
    assert_eq!(client.status_and("three").await, 200);
}

#[tokio::test]
async fn a_worker_is_free_when_it_has_said_all_however_slow_its_client() {
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits::default(), &[&worker]);
    let mut slow = door.get("/long").await;
    let mut connection = worker.accept().await;
    connection.head().await;
    // More than the sockets between them take.
    let length = 900 << 10;
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
    connection.write(&head).await;
    connection.write(&"x".repeat(length)).await;
    let mut next = door.get("/next").await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.answer("next").await;
    assert_eq!(next.status_and("next").await, 200);
    slow.head().await;
    assert_eq!(slow.until(&"x".repeat(length)).await.len(), length);
}

#[tokio::test]
async fn without_room_for_bodies_a_worker_waits_for_its_client() {
    let worker = Worker::listen().await;
    let limits = AppLimits {
        buffers_max: 0,
        queue_timeout: Duration::from_millis(50),
        ..AppLimits::default()
    };
    let door = Door::open(limits, &[&worker]);
    let mut slow = door.get("/long").await;
    let mut connection = worker.accept().await;
    connection.head().await;
    let length = 32 << 20;
    connection.write(&format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")).await;
    let piece = "x".repeat(1 << 20);
    let writing = async {
        for _ in 0..32 {
            connection.write(&piece).await;
        }
    };
    let reading = async {
        let mut refused = door.get("/refused").await;
        assert_eq!(refused.status_and("(queue_timeout); try again\n").await, 503);
        slow.head().await;
        for _ in 0..32 {
            slow.until(&piece).await;
        }
    };
    tokio::join!(writing, reading);
}

#[tokio::test]
async fn answers_are_compressed_for_who_takes_it_and_flushed_when_the_worker_pauses() {
    let worker = Worker::listen().await;
    let limits = AppLimits { gzip: Some(Gzip::default()), ..AppLimits::default() };
    let door = Door::open(limits, &[&worker]);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n";
    let mut client = door.send(request).await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.write("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: \"1\"\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n").await;
    let head = client.head().await;
    for field in ["content-encoding: gzip", "vary: accept-encoding", "etag: W/\"1\""] {
        assert!(head.contains(field), "{field} in {head}");
    }
    let mut text = Vec::new();
    let mut decoder = flate2::write::GzDecoder::new(&mut text);
    // The worker has said no more, and yet this much arrives.
    while decoder.get_ref().is_empty() {
        decoder.write_all(&client.chunk().await).expect("gzip");
        decoder.flush().expect("gzip");
    }
    connection.write("6\r\n whole\r\n0\r\n\r\n").await;
    loop {
        let chunk = client.chunk().await;
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
    connection.head().await;
    let long = "x".repeat(2_000);
    connection
        .write(&format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2000\r\n\r\n{long}"
        ))
        .await;
    let head = client.head().await;
    assert!(head.contains("vary: accept-encoding") && !head.contains("content-encoding"), "{head}");
    client.until(&long).await;
}

/// RFC 9110, section 9.3.2: a cache learns from it what a GET would get.
#[tokio::test]
async fn a_head_has_the_fields_of_the_answer_that_would_be_compressed() {
    let worker = Worker::listen().await;
    let limits = AppLimits { gzip: Some(Gzip::default()), ..AppLimits::default() };
    let door = Door::open(limits, &[&worker]);
    let mut heads = Vec::new();
    for (coding, bytes) in [("gzip", 2_000), ("identity", 2_000), ("gzip", 20)] {
        let request = format!("HEAD / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\r\n");
        let mut client = door.send(&request).await;
        let mut connection = worker.accept().await;
        connection.head().await;
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: \"1\"\r\n\
             Content-Length: {bytes}\r\nConnection: close\r\n\r\n"
        );
        connection.write(&answer).await;
        heads.push(client.head().await);
        // Not a byte of a body: the next answer follows at once.
        client.write(&get("/")).await;
        let mut connection = worker.accept().await;
        connection.head().await;
        connection.write("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").await;
        assert!(client.head().await.starts_with("HTTP/1.1 204 "));
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
async fn until_overdue(door: &Door, count: usize) {
    while door.apps.overdue("app", Duration::ZERO).len() != count {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_worker_that_waits_for_a_slow_client_is_not_stuck() {
    let worker = Worker::listen().await;
    let limits = AppLimits { answer_buffer_bytes: 1, ..unbuffered() };
    let door = Door::open(limits, &[&worker]);
    let mut client = door.send(&format!("{POST}Content-Length: 10\r\n\r\nfirst")).await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.until("first").await;
    until_overdue(&door, 0).await;
    client.write("later").await;
    connection.until("later").await;
    until_overdue(&door, 1).await;
    // More than the sockets between here and the client take.
    let sending = async {
        connection.write("HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n").await;
        let piece = vec![b'x'; 1 << 20];
        while connection.socket.write_all(&piece).await.is_ok() {}
    };
    let watching = until_overdue(&door, 0);
    tokio::select! {
        () = sending => panic!("the client has not read"),
        () = watching => {}
    }
}

#[tokio::test]
async fn a_worker_is_busy_until_the_end_of_its_answer_even_if_nobody_reads_that() {
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits::default(), &[&worker]);
    let mut gone = door.get("/gone").await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome").await;
    gone.until("some").await;
    drop(gone);
    let mut next = door.get("/next").await;
    door.until(WAITING, 1).await;
    assert!(worker.is_left_alone().await);
    assert_eq!(door.apps.overdue("app", Duration::ZERO).len(), 1, "its age counts");
    connection.write("more.").await;
    let mut connection = worker.accept().await;
    assert!(connection.head().await.starts_with("GET /next "));
    connection.answer("next").await;
    assert_eq!(next.status_and("next").await, 200);
}

#[tokio::test]
async fn a_worker_that_goes_silent_in_its_answer_is_busy_and_its_client_is_told() {
    let worker = Worker::listen().await;
    let limits = AppLimits { body_timeout: Duration::from_millis(50), ..AppLimits::default() };
    let door = Door::open(limits, &[&worker]);
    let mut client = door.get("/").await;
    let mut connection = worker.accept().await;
    connection.head().await;
    connection.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome").await;
    assert!(client.rest().await.ends_with("some"), "cut off");
    let _next = door.get("/next").await;
    door.until(WAITING, 1).await;
    assert!(worker.is_left_alone().await);
    assert_eq!(door.apps.overdue("app", Duration::ZERO).len(), 1, "its age counts");
}

#[tokio::test]
async fn a_body_of_many_small_pieces_is_kept_as_one() {
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits::default(), &[&worker]);
    let _served = door.get("/").await;
    let _busy = worker.accept().await;
    let pieces = "1\r\nx\r\n".repeat(1_000);
    let post = format!("{POST}Transfer-Encoding: chunked\r\n\r\n{pieces}");
    let _client = door.send(&post).await;
    // Room for it doubles as it grows.
    door.until("weir_front_app_buffered_bytes{app=\"app\"}", 1_024).await;
}

/// Tried again if the machine was too busy for the times to be as they are meant.
#[tokio::test]
async fn a_worker_has_its_whole_time_from_the_end_of_an_upload_on() {
    let service_timeout = Duration::from_millis(400);
    let limits = AppLimits { service_timeout, ..unbuffered() };
    for _ in 0..20 {
        let worker = Worker::listen().await;
        let door = Door::open(limits.clone(), &[&worker]);
        let mut client = door.send(&format!("{POST}Content-Length: 10\r\n\r\nfirst")).await;
        let began = Instant::now();
        let mut connection = worker.accept().await;
        connection.until("first").await;
        sleep(Duration::from_millis(300)).await;
        let ended = Instant::now();
        client.write("later").await;
        connection.until("later").await;
        sleep_until(began + service_timeout + Duration::from_millis(150)).await;
        connection.answer("stored").await;
        if ended.elapsed() < service_timeout - Duration::from_millis(50) {
            assert_eq!(client.status_and("stored").await, 200);
            return;
        }
    }
    panic!("this machine is too busy for any of 20 tries");
}
