//! The live view of one channel.

use axum::body::Body;
use axum::http::StatusCode;
use http_body_util::BodyExt;
use serde_json::Value;
use weir_base::shutdown::ShutdownToken;
use weir_console::sampler::Sampler;

use super::channels::Channels;
use crate::site::TIMEOUT;

const PATH: &str = "/channel/tail?app=1&name=news";

/// The next message of a stream.
async fn next(body: &mut Body) -> Value {
    let read = async {
        loop {
            let frame = body.frame().await.expect("the stream goes on").expect("a frame");
            let text = String::from_utf8_lossy(frame.data_ref().expect("data")).into_owned();
            if let Some(data) = text.lines().find_map(|line| line.strip_prefix("data: ")) {
                assert!(text.contains("event: seen"), "{text}");
                return serde_json::from_str(data).expect("JSON");
            }
        }
    };
    tokio::time::timeout(TIMEOUT, read).await.expect("a message")
}

#[tokio::test]
async fn events_are_shown_as_they_arrive() {
    let channels = Channels::open();
    let response = channels.site.browser().open(PATH).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body();
    channels.publish("other", "elsewhere", "");
    channels.publish("news", "hello", "first");
    let seen = next(&mut body).await;
    assert_eq!(seen["left_out"], 0);
    assert_eq!(
        (&seen["events"][0]["event"], &seen["events"][0]["data"]),
        (&"hello".into(), &"first".into())
    );
    channels.publish("news", "hello", "second");
    assert_eq!(next(&mut body).await["events"][0]["data"], "second");
}

#[tokio::test]
async fn dropped_events_of_a_live_view_are_reported() {
    let channels = Channels::with(|_| {}, |settings, _| settings.limits.watch_events_max = 2);
    let mut body = channels.site.browser().open(PATH).await.into_body();
    for number in 0..50 {
        channels.publish("news", "fast", &number.to_string());
    }
    let seen = next(&mut body).await;
    assert_eq!(seen["left_out"], 48);
    assert_eq!(seen["events"].as_array().map(Vec::len), Some(2));
    assert_eq!(seen["events"][1]["data"], "49");
}

#[tokio::test]
async fn live_views_are_limited_and_freed() {
    let channels = Channels::with(
        |settings| settings.limits.streams_max = 1,
        |settings, _| settings.limits.watchers_max = 2,
    );
    let browser = channels.site.browser();
    let first = browser.open(PATH).await;
    let refused = browser.open(PATH).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(channels.hub.channel_view("1", "news").is_some());
    drop(first);
    assert!(channels.hub.channel_view("1", "news").is_none(), "nobody looks any more");
    assert_eq!(browser.open(PATH).await.status(), StatusCode::OK);
    let unknown = browser.open("/channel/tail?app=1&name=a%20b").await;
    assert_eq!(unknown.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn live_views_end_with_the_console() {
    let channels = Channels::open();
    let shutdown = ShutdownToken::new();
    shutdown.spawn(Sampler::new(&channels.site.deps).run(shutdown.clone()));
    let stream = channels.site.browser().open(PATH).await;
    shutdown.request();
    let body = tokio::time::timeout(TIMEOUT, stream.into_body().collect()).await;
    assert!(body.expect("the stream ends").is_ok());
}
