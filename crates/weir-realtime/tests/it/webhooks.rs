//! Webhooks over real sockets.

mod bench;
mod broken;
mod receiver;
mod tls;

use std::time::Duration;

use bench::Bench;
use hmac_by_hand::hmac_sha256;
use receiver::{Answer, Receiver};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use weir_realtime::pusher::webhook::WebhookEvent;
use weir_realtime::webhooks::ExtraHeaders;

const MS: Duration = Duration::from_millis(1);

mod hmac_by_hand {
    use sha2::{Digest, Sha256};

    /// RFC 2104, of keys that are no longer than a block.
    pub(super) fn hmac_sha256(key: &[u8], text: &[u8]) -> String {
        let mut block = [0_u8; 64];
        block[..key.len()].copy_from_slice(key);
        let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(text);
        let outer = Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c));
        hex::encode(outer.chain_update(inner.finalize()).finalize())
    }
}

fn miss(channel: &str) -> WebhookEvent<'_> {
    WebhookEvent::CacheMiss { channel }
}

#[tokio::test]
async fn a_webhook_request_matches_what_pusher_libraries_expect() {
    let mut receiver = Receiver::start().await;
    let mut bench = Bench::start(&[&receiver.url("/pusher/hooks?a=b")], |_| {});
    bench.endpoint(0, |endpoint| {
        endpoint.headers = ExtraHeaders::new([("Authorization", "Bearer x")]).unwrap();
    });
    bench.publish(&WebhookEvent::ChannelOccupied { channel: "a" });
    bench.publish(&miss("cache-é"));
    let request = receiver.next().await;
    assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/pusher/hooks?a=b"));
    let host = receiver.address.to_string();
    for (name, value) in [
        ("content-type", "application/json"),
        ("x-pusher-key", "key"),
        ("authorization", "Bearer x"),
        ("user-agent", "weir"),
        ("host", host.as_str()),
        ("x-pusher-signature", hmac_sha256(b"secret", &request.body).as_str()),
    ] {
        assert_eq!(request.headers[name], value, "{name}");
    }
    assert_eq!(
        String::from_utf8(request.body).unwrap(),
        r#"{"time_ms":1700000000000,"events":[{"name":"channel_occupied","channel":"a"},{"name":"cache_miss","channel":"cache-é"}]}"#
    );
}

#[tokio::test]
async fn webhook_header_names_are_in_title_case() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let mut bench = Bench::start(&[&url], |settings| settings.drain_timeout = MS);
    bench.endpoint(0, |endpoint| {
        endpoint.headers = ExtraHeaders::new([("x-tenant-id", "7")]).unwrap();
    });
    bench.publish(&miss("1"));
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        assert!(stream.read_buf(&mut head).await.unwrap() > 0, "the head ends");
    }
    let head = String::from_utf8(head).unwrap();
    for name in
        ["X-Pusher-Key", "X-Pusher-Signature", "Content-Type", "User-Agent", "Host", "X-Tenant-Id"]
    {
        assert!(head.contains(&format!("\r\n{name}: ")), "{name} in {head}");
    }
    bench.shut_down().await;
}

#[tokio::test]
async fn one_connection_carries_successive_batches() {
    let mut receiver = Receiver::start().await;
    let bench = Bench::start(&[&receiver.url("/")], |_| {});
    for channel in ["1", "2", "3"] {
        bench.publish(&miss(channel));
        assert_eq!(receiver.next().await.channels(), [channel]);
    }
    assert_eq!(receiver.connections(), 1);
    let metrics = bench.end().await;
    assert_eq!(metrics.get("events_sent_total"), 3);
    assert_eq!(metrics.get("delivery_seconds_count"), 3);
    assert_eq!(metrics.get("attempts_total"), 3);
}

#[tokio::test]
async fn webhook_order_survives_failures() {
    const EVENTS: usize = 500;
    let mut receiver = Receiver::start().await;
    receiver.answer_in_turn(&[Answer::Status(200), Answer::Status(500), Answer::Status(204)]);
    let bench = Bench::start(&[&receiver.url("/")], |settings| {
        settings.limits.batch_events_max = 7;
        settings.retry_delay_max = MS;
    });
    let channels: Vec<String> = (0..EVENTS).map(|number| number.to_string()).collect();
    channels.iter().for_each(|channel| bench.publish(&miss(channel)));
    let mut taken = Vec::new();
    while taken.len() < EVENTS {
        let request = receiver.next().await;
        if request.answered == Answer::Status(500) {
            continue;
        }
        taken.extend(request.channels());
    }
    assert_eq!(taken, channels);
    let metrics = bench.end().await;
    assert_eq!(metrics.get("events_sent_total"), EVENTS);
    assert!(metrics.get(r#"attempts_failed_total{reason="status"}"#) >= EVENTS / 7 / 3);
}

#[tokio::test]
async fn dead_and_stuck_endpoints_do_not_delay_others() {
    let mut alive = Receiver::start().await;
    let mut stuck = Receiver::start().await;
    stuck.answer(Answer::Never);
    let urls = [&stuck.url("/"), "http://127.0.0.1:1/", &alive.url("/")];
    let bench = Bench::start(&urls, |settings| settings.drain_timeout = MS);
    for channel in ["1", "2", "3"] {
        bench.publish(&miss(channel));
        assert_eq!(alive.next().await.channels(), [channel]);
    }
    assert_eq!(stuck.next().await.channels(), ["1"]);
    let metrics = bench.shut_down().await;
    assert_eq!(metrics.get("events_queued_total"), 9);
    let sent = metrics.get("events_sent_total");
    // The end may come before the last answer.
    assert!((2..=3).contains(&sent), "{sent}");
    assert_eq!(sent + metrics.get(r#"events_dropped_total{reason="shutdown"}"#), 9);
    assert_eq!(metrics.get("events_waiting"), 0);
}

#[tokio::test]
async fn a_redirect_is_a_failure_and_is_not_followed() {
    let mut receiver = Receiver::start().await;
    receiver.answer(Answer::RedirectTo("/elsewhere"));
    let bench = Bench::start(&[&receiver.url("/hooks")], |_| {});
    bench.publish(&miss("1"));
    receiver.next().await;
    receiver.answer(Answer::Status(200));
    loop {
        let request = receiver.next().await;
        assert_eq!(request.target, "/hooks");
        if request.answered == Answer::Status(200) {
            break;
        }
    }
    let metrics = bench.end().await;
    assert!(metrics.get(r#"attempts_failed_total{reason="status"}"#) >= 1);
    assert_eq!(metrics.get("events_sent_total"), 1);
}
