//! A node whose connection is under test, and waits for what it does by itself.

use std::time::Duration;

use weir_jobs::settings::JobServerSettings;
use weir_jobs::store::{Store, StoreError};
use weir_sidekiq::RedisEndpoint;
use weir_sidekiq::store::RedisStoreSettings;

use crate::store::rig::Node;

/// Conditions are checked this often.
const PAUSE: Duration = Duration::from_millis(20);
/// Conditions come true much sooner. A test that waits longer has failed. A Sentinel whose timer was late by 2 s does nothing
/// for 30 s (its TILT mode), and one that lost a vote for a failover waits for 10 s.
const CONDITION_TIME_MAX: Duration = Duration::from_secs(150);

/// Timeouts that let tests end soon and leave room for a slow machine.
pub(crate) fn settings() -> RedisStoreSettings {
    RedisStoreSettings {
        connect_timeout: Duration::from_secs(2),
        command_timeout: Duration::from_secs(1),
        retry_wait_max: Duration::from_millis(200),
        sentinel_interval: Duration::from_millis(200),
        // The tests here are not about leases.
        lease: Duration::from_secs(600),
        ..RedisStoreSettings::default()
    }
}

pub(crate) fn open(endpoint: &RedisEndpoint) -> Node {
    Node::open_as(endpoint, settings(), &JobServerSettings::default())
}

pub(crate) fn job(jid: &str) -> String {
    format!(r#"{{"jid":"{jid}","jobtype":"Test","args":[],"queue":"q"}}"#)
}

/// Pushes a job and fetches it again.
pub(crate) async fn pass_a_job(node: &Node, jid: &str) {
    node.push(&job(jid)).await.unwrap();
    assert_eq!(node.fetch_now("q").await.as_deref(), Some(jid));
    assert_eq!(node.store.ack(&[jid]).await, Ok(vec![]));
}

/// The error of a push. It names the server and is not uncertain.
pub(crate) async fn push_error(node: &Node) -> String {
    match node.push(&job("job-rejected")).await {
        Err(StoreError::Unavailable(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// Waits until a push succeeds.
pub(crate) async fn until_pushed(node: &Node, jid: &str) {
    until(async || node.push(&job(jid)).await.is_ok()).await;
}

/// Waits until a push fails with such an error.
pub(crate) async fn until_error(node: &Node, text: &str) -> String {
    let mut last = String::new();
    until(async || {
        last = match node.push(&job("job-rejected")).await {
            Ok(()) => "pushed".to_owned(),
            Err(error) => error.to_string(),
        };
        last.contains(text)
    })
    .await;
    last
}

/// Waits until a condition is true.
pub(crate) async fn until(mut condition: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(CONDITION_TIME_MAX, waiting).await.expect("the condition comes true");
}
