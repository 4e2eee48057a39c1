//! Clients that guess keys, and clients that share their address.

use std::time::Duration;

use hyper::StatusCode;
use weir_gems::package::sample::Sample;
use weir_gems::settings::Readers;
use weir_gems::store::Scope;

use super::{Answer, Index};

async fn read(index: &Index, key: &str) -> Answer {
    index.ask("GET", "/versions", &[("authorization", key)], "").await
}

#[tokio::test]
async fn wrong_keys_are_counted_and_slowed_and_right_ones_are_not() {
    let index = Index::new().await;
    let reader = index.new_key(|key| key.scopes = vec![Scope::IndexRubygems]).await;
    let late = index.new_key(|key| key.scopes = vec![Scope::IndexRubygems]).await;
    index.change(|settings| {
        settings.read = Readers::WithKey;
        settings.limits.wrong_keys_max = 3;
        settings.limits.wrong_key_delay = Duration::from_millis(1);
    });
    assert_eq!(read(&index, &reader).await.status, StatusCode::OK);
    let slowed =
        || index.metrics().contains("weir_gems_limit_hits_total{limit=\"wrong_keys_max\"} 0\n");
    for number in 0..3 {
        let refused = index.ask("POST", "/api/v1/gems", &[("authorization", "weir_x")], "").await;
        assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
        assert!(slowed(), "after {number}");
    }
    assert!(index.metrics().contains("weir_gems_wrong_keys_total 3\n"), "{}", index.metrics());
    // A key that was valid before is not delayed, even when it has to be looked up again.
    index.clock.advance(Duration::from_secs(5));
    assert_eq!(read(&index, &reader).await.status, StatusCode::OK);
    assert!(slowed());
    // Any other key is delayed, whether valid or not.
    assert_eq!(read(&index, "weir_y").await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(read(&index, &late).await.status, StatusCode::OK);
    let push = index.push(Sample::new("a", "1.0").build()).await;
    assert_eq!(push.status, StatusCode::OK);
    let hits = "weir_gems_limit_hits_total{limit=\"wrong_keys_max\"} 3\n";
    assert!(index.metrics().contains(hits), "{}", index.metrics());
    // Only a limited number of keys may wait at once.
    index.change(|settings| {
        settings.limits.waiting_keys_max = 1;
        settings.limits.wrong_key_delay = Duration::from_millis(50);
    });
    let (one, other) = tokio::join!(read(&index, "weir_y"), read(&index, "weir_z"));
    assert_eq!(one.status, StatusCode::UNAUTHORIZED);
    assert_eq!(other.status, StatusCode::TOO_MANY_REQUESTS, "{}", other.text());
    assert!(other.text().contains("gems.limits.advanced.waiting_keys_max"), "{}", other.text());
    // After a minute the count starts again.
    index.clock.advance(Duration::from_secs(61));
    assert_eq!(read(&index, "weir_y").await.status, StatusCode::UNAUTHORIZED);
    assert!(index.metrics().contains("limit=\"wrong_keys_max\"} 5\n"), "{}", index.metrics());
}
