//! What operators do to queues.

use weir_jobs::store::{FailOutcome, QueueAction, StoreError};

use super::harness::Harness;
use super::world::{World, job_with, seconds};

pub(crate) async fn the_last_job_of_a_removed_queue_may_fail<H: Harness>(world: World<H>) {
    world.push_with("job-00001", r#""retry":0"#).await;
    assert_eq!(world.fetch("default").await.as_deref(), Some("job-00001"));
    world.queue_action("default", QueueAction::Remove).await;
    assert_eq!(world.fail("job-00001").await, FailOutcome::Discarded);
    assert_eq!(world.counts().await.failed_total, 1);
}

pub(crate) async fn a_paused_queue_is_passed_over<H: Harness>(world: World<H>) {
    world.push_to("a", "job-a-01").await;
    world.push_to("b", "job-b-01").await;
    assert_eq!(world.queue_action("a", QueueAction::Pause).await, 0);
    assert!(world.queue("a").await.unwrap().paused);
    world.push_to("a", "job-a-02").await;
    assert_eq!(world.drain("a b").await, "job-b-01");
    assert_eq!(world.depth("a").await, 2);
    world.queue_action("a", QueueAction::Resume).await;
    assert!(!world.queue("a").await.unwrap().paused);
    assert_eq!(world.drain("a b").await, "job-a-01 job-a-02");
}

pub(crate) async fn clearing_leaves_what_workers_hold<H: Harness>(world: World<H>) {
    world.push_to("a", "job-a-01 job-a-02 job-a-03").await;
    world.push_to("b", "job-b-01").await;
    assert_eq!(world.fetch("a").await.as_deref(), Some("job-a-01"));
    world.queue_action("a", QueueAction::Pause).await;
    assert_eq!(world.queue_action("a", QueueAction::Clear).await, 2);
    let queue = world.queue("a").await.unwrap();
    assert_eq!((queue.depth, queue.reserved, queue.paused), (0, 1, true));
    assert_eq!(world.found("job-a-02").await, None);
    assert_eq!(world.depth("b").await, 1);
    assert_eq!(world.ack("job-a-01").await, 1);
    assert_eq!(world.census().await, (1, 0, 0, 0, 0));
}

pub(crate) async fn removing_forgets_the_queue_but_not_what_workers_hold<H: Harness>(
    world: World<H>,
) {
    world.push_to("a", "job-a-01 job-a-02 job-a-03").await;
    world.push_to("gone", "gone-001").await;
    assert_eq!(world.fetch("a").await.as_deref(), Some("job-a-01"));
    world.queue_action("a", QueueAction::Pause).await;
    assert_eq!(world.queue_action("a gone", QueueAction::Remove).await, 3);
    assert!(world.counts().await.queues.is_empty(), "{:?}", world.counts().await);
    assert_eq!(world.census().await, (0, 1, 0, 0, 0));
    world.fail("job-a-01").await;
    world.advance(seconds(60)).await;
    assert_eq!(world.drain("a").await, "job-a-01", "its retry brings the queue back");
    assert_eq!(world.queue("a").await.unwrap().reserved, 1);
}

pub(crate) async fn a_removed_queue_comes_back_with_its_next_job<H: Harness>(world: World<H>) {
    world.push_to("a", "job-a-01").await;
    world.queue_action("a", QueueAction::Pause).await;
    world.queue_action("a", QueueAction::Remove).await;
    assert_eq!(world.queue("a").await, None);
    world.push_to("a", "job-a-02").await;
    let queue = world.queue("a").await.unwrap();
    assert_eq!((queue.depth, queue.paused, queue.pushed_total), (1, false, 1));
    assert_eq!(world.drain("a").await, "job-a-02");
}

/// More than a store forgets at once.
pub(crate) const THOUSANDS: usize = 10_000;

/// `job-00000 job-00001 ...`
pub(crate) fn many_jids() -> String {
    (0..THOUSANDS).map(|n| format!("job-{n:05}")).collect::<Vec<_>>().join(" ")
}

pub(crate) async fn a_queue_of_thousands_is_empty_at_once<H: Harness>(world: World<H>) {
    world.push_to("a", &many_jids()).await;
    assert_eq!(world.queue_action("a", QueueAction::Clear).await, THOUSANDS as u64);
    assert_eq!(world.depth("a").await, 0);
    for jid in ["job-00000", "job-05000", "job-09999"] {
        assert_eq!(world.found(jid).await, None);
        assert_eq!(world.ack(jid).await, 0);
    }
    world.push_to("a", "job-00000 job-a-01").await;
    assert!(world.found("job-00000").await.is_some(), "its namesake is gone, it is not");
    assert_eq!(world.queue_action("a", QueueAction::Remove).await, 2);
    assert!(world.counts().await.queues.is_empty());
    world.push_to("a", "job-a-02").await;
    world.advance(seconds(1)).await;
    assert_eq!(world.queue("a").await.unwrap().pushed_total, 1, "a removed queue begins anew");
    assert_eq!(world.drain("a").await, "job-a-02");
}

pub(crate) async fn unknown_queues_are_ignored<H: Harness>(world: World<H>) {
    world.push_to("a", "job-a-01").await;
    for action in [QueueAction::Pause, QueueAction::Resume, QueueAction::Clear, QueueAction::Remove]
    {
        assert_eq!(world.queue_action("nobody", action).await, 0);
    }
    assert_eq!(world.fetch("nobody").await, None);
    assert_eq!(world.counts().await.queues.len(), 1, "neither is one made");
}

pub(crate) async fn there_are_only_so_many_queues<H: Harness>(_: World<H>) {
    let world = World::<H>::with_limits(|limits| limits.queues_max = 2);
    world.push_to("a", "job-a-01").await;
    world.push_to("b", "job-b-01").await;
    let refused = world.push_json(&job_with("job-c-01", r#""queue":"c""#)).await;
    assert!(
        matches!(&refused, Err(StoreError::Limit(text)) if text.contains("jobs.limits.advanced.queues_max"))
    );
    world.push_to("a", "job-a-02").await;
    world.queue_action("b", QueueAction::Remove).await;
    world.push_to("c", "job-c-02").await;
    assert_eq!(world.drain("a b c").await, "job-a-01 job-a-02 job-c-02");
}
