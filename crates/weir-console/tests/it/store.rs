//! The page of the job store.

use std::time::Duration;

use axum::http::StatusCode;
use weir_base::shutdown::ShutdownToken;
use weir_console::sampler::Sampler;
use weir_jobs::metrics::{CommandFigures, CommandKind, StoreOperation, StoreServerFigures};

use crate::site::{Site, eventually};

const HOSTILE: &str = "<script>alert(1)</script>\u{202e}'\"";

fn server(calls: u64) -> StoreServerFigures {
    let command = |name: &str, kind| CommandFigures {
        name: name.to_owned(),
        kind,
        calls,
        took: Duration::from_micros(300 * calls),
    };
    StoreServerFigures {
        memory_bytes: 3 << 20,
        memory_bytes_max: 1 << 30,
        commands: vec![
            command("evalsha", CommandKind::Script),
            command(HOSTILE, CommandKind::Other),
        ],
        ..StoreServerFigures::default()
    }
}

#[tokio::test]
async fn each_shard_shows_its_operations_and_its_redis() {
    let site = Site::open();
    let mut browser = site.browser();
    let shard = site.metrics.store("10.0.0.1:6379", 1);
    shard.end(StoreOperation::Fetch, shard.begin(StoreOperation::Fetch));
    shard.publish_server(Some(server(7)));
    let other = site.metrics.store("10.0.0.2:6379", 1);
    other.malformed(3);
    let page = browser.get("/store").await;
    for text in [
        "10.0.0.1:6379",
        "Fetch",
        "Inside Redis, for all its clients",
        "3.0 MiB of 1.0 GiB",
        "href=\"/store?shard=10.0.0.2%3A6379\"",
    ] {
        page.assert_shows(text);
    }
    assert!(!page.text.contains("no worker could run"));
    let page = browser.get("/store?shard=10.0.0.2:6379").await;
    page.assert_shows("3 payloads that no worker could run");
    page.assert_shows("None yet.");
    assert!(!page.text.contains("Inside Redis"), "{}", page.text);
    let section = browser.get("/live/store?shard=10.0.0.1:6379").await;
    section.assert_shows("Inside Redis");
    assert!(!section.text.contains("<html"));
    assert_eq!(browser.get("/store?shard=nobody").await.status, StatusCode::NOT_FOUND);
    browser.get("/").await.assert_shows("Payloads that are no jobs");
}

#[tokio::test]
async fn names_are_escaped_and_charts_begin_with_the_first_sample() {
    let site = Site::open();
    let mut browser = site.browser();
    let shard = site.metrics.store(HOSTILE, 1);
    shard.publish_server(Some(server(7)));
    let page = browser.get("/store").await;
    assert!(!page.text.contains("<script>alert") && !page.text.contains('\u{202e}'));
    page.assert_shows("&#60;script&#62;alert(1)&#60;/script&#62;\\u202e");
    let name = "%3Cscript%3Ealert%281%29%3C%2Fscript%3E%E2%80%AE%27%22";
    let chart = format!("/store/chart?shard={name}&series=memory_bytes&seconds=60");
    assert_eq!(browser.get(&chart).await.status, StatusCode::NOT_FOUND);
    let shutdown = ShutdownToken::new();
    shutdown.spawn(Sampler::new(&site.deps).run(shutdown.clone()));
    let points = eventually(async || {
        site.clock.advance(Duration::from_secs(1));
        let points = browser.get(&chart).await;
        (points.status == StatusCode::OK && points.text.contains("3145728")).then_some(points)
    });
    points.await;
    shutdown.request();
    let unknown = format!("/store/chart?shard={name}&series=nothing&seconds=60");
    assert_eq!(browser.get(&unknown).await.status, StatusCode::BAD_REQUEST);
}
