//! Receivers that are slow, that talk too much, or that don't speak HTTP.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::*;

#[tokio::test]
async fn a_silent_receiver_is_retried_over_a_new_connection() {
    let mut receiver = Receiver::start().await;
    receiver.answer(Answer::Never);
    let bench = Bench::start(&[&receiver.url("/")], |settings| settings.response_timeout = 50 * MS);
    bench.publish(&miss("1"));
    assert_eq!(receiver.next().await.channels(), ["1"]);
    receiver.answer(Answer::Status(200));
    assert_eq!(receiver.next().await.channels(), ["1"]);
    assert!(receiver.connections() >= 2);
    let metrics = bench.end().await;
    assert!(metrics.get(r#"attempts_failed_total{reason="timeout"}"#) >= 1);
}

#[tokio::test]
async fn a_2xx_with_a_long_body_counts_but_its_connection_is_closed() {
    for (answer, connections) in
        [(Answer::Body(1_000), 1), (Answer::Body(1_000_000), 2), (Answer::HalfABody, 2)]
    {
        let mut receiver = Receiver::start().await;
        receiver.answer(answer);
        let bench = Bench::start(&[&receiver.url("/")], |settings| {
            settings.response_timeout = 1_000 * MS;
            settings.limits.response_bytes_max = 1_000;
        });
        for channel in ["1", "2"] {
            bench.publish(&miss(channel));
            assert_eq!(receiver.next().await.channels(), [channel], "{answer:?}");
        }
        assert_eq!(receiver.connections(), connections, "{answer:?}");
        let metrics = bench.end().await;
        let counts = [metrics.get("events_sent_total"), metrics.get("attempts_total")];
        assert_eq!(counts, [2, 2], "{answer:?}");
    }
}

#[tokio::test]
async fn a_response_with_an_oversized_head_is_a_failure() {
    let mut receiver = Receiver::start().await;
    receiver.answer(Answer::Head(20_000));
    let bench =
        Bench::start(&[&receiver.url("/")], |settings| settings.limits.response_bytes_max = 10_000);
    bench.publish(&miss("1"));
    receiver.next().await;
    receiver.answer(Answer::Head(5_000));
    assert_eq!(receiver.next().await.channels(), ["1"]);
    let metrics = bench.end().await;
    assert!(metrics.get(r#"attempts_failed_total{reason="http"}"#) >= 1);
    assert_eq!(metrics.get("events_sent_total"), 1);
}

#[tokio::test]
async fn a_reused_connection_that_the_receiver_closed_costs_no_retry() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let bench = Bench::start(&[&url], |settings| {
        // A retry would come after the end of the test's patience.
        settings.retry_delay_min = Duration::from_secs(60);
        settings.retry_delay_max = Duration::from_secs(60);
    });
    bench.publish(&miss("1"));
    let mut first = accepted(&listener).await;
    answer(&mut first).await;
    bench.publish(&miss("2"));
    // The request is read and not answered: the moment in which keep-alive's end is noticed.
    read_head(&mut first).await;
    drop(first);
    let mut second = accepted(&listener).await;
    answer(&mut second).await;
    let metrics = bench.end().await;
    assert_eq!(metrics.get("events_sent_total"), 2);
    assert_eq!(metrics.get(r#"attempts_failed_total{reason="http"}"#), 0);
}

#[tokio::test]
async fn a_response_that_is_not_http_is_a_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let bench = Bench::start(&[&url], |_| {});
    bench.publish(&miss("1"));
    let mut first = accepted(&listener).await;
    first.write_all(b"220 mail.example.org ESMTP\r\n\r\n").await.unwrap();
    let mut second = accepted(&listener).await;
    answer(&mut second).await;
    let metrics = bench.end().await;
    assert_eq!(metrics.get(r#"attempts_failed_total{reason="http"}"#), 1);
    assert_eq!(metrics.get("events_sent_total"), 1);
}

async fn accepted(listener: &TcpListener) -> BufReader<TcpStream> {
    let accepted = tokio::time::timeout(Duration::from_secs(30), listener.accept()).await;
    BufReader::new(accepted.expect("a connection comes").unwrap().0)
}

/// Reads a request, and answers it.
async fn answer(stream: &mut BufReader<TcpStream>) {
    let length = read_head(stream).await;
    stream.read_exact(&mut vec![0; length]).await.unwrap();
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
}

async fn read_head(stream: &mut BufReader<TcpStream>) -> usize {
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            return length;
        }
    }
}
