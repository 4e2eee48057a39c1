//! The sampler, the live stream and the charts.

use axum::http::StatusCode;
use http_body_util::BodyExt;
use weir_base::shutdown::ShutdownToken;
use weir_console::sampler::Sampler;

use crate::site::{Site, TIMEOUT, eventually, job, seconds};

#[tokio::test]
async fn a_live_stream_reports_job_counts() {
    let site = Site::open();
    let shutdown = ShutdownToken::new();
    shutdown.spawn(Sampler::new(&site.deps).run(shutdown.clone()));
    let response = site.browser().open("/events").await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body();
    site.push((0..9).map(|n| job(&format!("stream-{n:03}"), "Work", "default"))).await;
    let wait = async {
        let mut text = String::new();
        while !text.contains("\"enqueued\":9") {
            let frame = body.frame().await.expect("the stream goes on").expect("a frame");
            text.push_str(std::str::from_utf8(frame.data_ref().expect("data")).expect("text"));
        }
        text
    };
    let text = tokio::time::timeout(TIMEOUT, wait).await.expect("a tick");
    assert!(text.contains("event: tick"), "{text}");
    shutdown.request();
    shutdown.drain(TIMEOUT).await;
}

#[tokio::test]
async fn sampled_values_are_charted() {
    let site = Site::open();
    site.push((0..5).map(|n| job(&format!("chart-{n:04}"), "Work", "default"))).await;
    let shutdown = ShutdownToken::new();
    shutdown.spawn(Sampler::new(&site.deps).run(shutdown.clone()));
    let mut browser = site.browser();
    let chart = eventually(async || {
        site.clock.advance(std::time::Duration::from_secs(1));
        let page = browser.get("/chart?series=enqueued,dead&seconds=60").await;
        page.text.contains("5.0").then_some(page)
    })
    .await;
    assert_eq!(chart.header("content-type"), "application/json");
    assert!(chart.text.contains("\"times\":["), "{}", chart.text);
    assert!(seconds(site.clock.now()) > 0.0);
    shutdown.request();
    shutdown.drain(TIMEOUT).await;
}

#[tokio::test]
async fn a_chart_is_bounded_and_rejects_unknown_series() {
    let site = Site::open();
    let mut browser = site.browser();
    let page = browser.get("/chart?series=dead&seconds=999999999&points=999999").await;
    let points = page.text.matches("null").count();
    assert!(points <= 2 * site.deps.settings.limits.chart_points_max, "{points}");
    let page = browser.get("/chart?series=nothing&seconds=60").await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn live_streams_end_with_the_console() {
    let site = Site::open();
    let shutdown = ShutdownToken::new();
    shutdown.spawn(Sampler::new(&site.deps).run(shutdown.clone()));
    let stream = site.browser().open("/events").await;
    shutdown.request();
    let body = tokio::time::timeout(TIMEOUT, stream.into_body().collect()).await;
    assert!(body.expect("the stream ends").is_ok());
}

#[tokio::test]
async fn reached_limits_are_counted() {
    let site = Site::with(|settings| settings.limits.streams_max = 1);
    let browser = site.browser();
    let _held = browser.open("/events").await;
    browser.open("/events").await;
    let text = site.limit_hits();
    assert!(text.contains("weir_console_limit_hits_total{limit=\"streams_max\"} 1"), "{text}");
}

#[tokio::test]
async fn live_streams_are_limited_and_freed() {
    let site = Site::with(|settings| settings.limits.streams_max = 2);
    let browser = site.browser();
    let first = browser.open("/events").await;
    let second = browser.open("/events").await;
    assert_eq!(second.status(), StatusCode::OK);
    let third = browser.open("/events").await;
    assert_eq!(third.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(third.headers().contains_key("retry-after"));
    drop(first);
    assert_eq!(browser.open("/events").await.status(), StatusCode::OK);
}
