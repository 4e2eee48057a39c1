//! Who comes first, and what arrives.

use serde_json::Value;
use weir_jobs::job::JobBatch;
use weir_jobs::settings::JobServerLimits;
use weir_jobs::store::{Store, StoreError};

use super::harness::Harness;
use super::world::{World, job_with};

pub(crate) async fn a_queue_is_served_in_the_order_of_its_pushes<H: Harness>(world: World<H>) {
    let jids: Vec<String> = (0..1_100).map(|n| format!("job-{n:05}")).collect();
    world.push_to("default", &jids.join(" ")).await;
    assert_eq!(world.drain("default").await, jids.join(" "));
}

pub(crate) async fn queues_are_served_in_the_order_of_the_request<H: Harness>(world: World<H>) {
    world.push_to("low", "low-0001").await;
    world.push_to("high", "high-0001 high-0002").await;
    world.push_to("other", "other-001").await;
    assert_eq!(world.drain("high low").await, "high-0001 high-0002 low-0001");
    assert_eq!(world.depth("other").await, 1);
}

pub(crate) async fn a_payload_arrives_as_it_was_pushed<H: Harness>(world: World<H>) {
    let members =
        "\"zz\" : {\"b\":1,\"a\":[109326485893512345,1e400, -0.0 ]}\t,\"args2\":\"\\u00e9é\\/\"";
    let pushed = job_with("job-00001", members);
    world.push_json(&pushed).await.unwrap();
    let delivery = world.fetch_as("w1", "default").await.unwrap();
    let text = String::from_utf8(delivery.json).unwrap();
    let kept = &pushed[..pushed.len() - 1];
    let added = text.strip_prefix(kept).expect("the pushed text comes first, byte for byte");
    let added: Value =
        serde_json::from_str(&format!("{{{}", added.strip_prefix(',').unwrap())).unwrap();
    let now = weir_jobs::stamp::rfc3339(world.now());
    let expected = serde_json::json!({
        "created_at": now, "queue": "default", "retry": 25, "enqueued_at": now,
    });
    assert_eq!(added, expected);
}

pub(crate) async fn two_jobs_may_have_one_jid<H: Harness>(world: World<H>) {
    world.push_to("default", "twin-0001 twin-0001").await;
    assert_eq!(world.drain("default").await, "twin-0001 twin-0001");
    assert_eq!(world.ack("twin-0001").await, 1);
    assert_eq!(world.census().await, (0, 1, 0, 0, 0));
    assert_eq!(world.ack("twin-0001").await, 1);
    assert_eq!(world.ack("twin-0001").await, 0);
    assert_eq!(world.census().await, (0, 0, 0, 0, 0));
}

pub(crate) async fn a_batch_is_stored_whole_or_not_at_all<H: Harness>(_: World<H>) {
    let world = World::<H>::with_limits(|limits| limits.queues_max = 2);
    let array = ["a", "b", "c"]
        .map(|queue| job_with(&format!("job-{queue}-01"), &format!(r#""queue":"{queue}""#)));
    let mut batch = JobBatch::new();
    let text = format!("[{}]", array.join(","));
    let rejected =
        batch.parse_array(text.as_bytes(), world.now(), &JobServerLimits::default()).unwrap();
    assert!(rejected.is_empty());
    let result = world.store().push(&batch.jobs()).await;
    assert!(
        matches!(&result, Err(StoreError::Limit(text)) if text.contains("queues_max")),
        "{result:?}"
    );
    assert_eq!(world.census().await, (0, 0, 0, 0, 0));
    assert_eq!(world.fetch("a b c").await, None);
    world.store().push(&batch.jobs()[..2]).await.unwrap();
    assert_eq!(world.drain("a b").await, "job-a-01 job-b-01");
}
