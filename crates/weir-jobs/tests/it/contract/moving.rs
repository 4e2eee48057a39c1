//! Moving jobs to another queue.

use weir_jobs::model::{EntryKey, QueueName};
use weir_jobs::settings::JobServerLimits;
use weir_jobs::store::{Action, QueueAction, Store, StoreError};

use super::harness::{Durable, Harness};
use super::world::{World, place, seconds};

async fn moved<H: Harness>(
    world: &World<H>,
    from: &str,
    jids: &str,
    to: &str,
    paused: bool,
) -> Result<u64, StoreError> {
    let mut keys: Vec<EntryKey> = Vec::new();
    for jid in jids.split_whitespace() {
        keys.push(world.key(from, jid).await);
    }
    let to = QueueName::parse(to, &JobServerLimits::default()).unwrap();
    world.store().move_to(&place(from), &keys, &to, paused).await
}

pub(crate) async fn jobs_move_to_the_end_of_another_queue<H: Harness>(world: World<H>) {
    world.push_to("other", "other-01").await;
    world.push_to("default", "job-00001 job-00002 job-00003").await;
    world.schedule("later-01", seconds(60)).await;
    assert_eq!(moved(&world, "queue:default", "job-00003 job-00001", "other", false).await, Ok(2));
    assert_eq!(moved(&world, "scheduled", "later-01", "new", false).await, Ok(1));
    assert_eq!(world.jids("queue:default").await, "job-00002");
    assert_eq!(world.jids("scheduled").await, "");
    assert_eq!(world.jids("queue:new").await, "later-01");
    let delivery = world.fetch_as("w1", "new").await.unwrap();
    let json = String::from_utf8(delivery.json).unwrap();
    assert!(json.contains(r#""queue":"new""#), "{json}");
    assert_eq!(world.drain("other").await, "other-01 job-00003 job-00001");
    assert_eq!(world.ack("job-00001").await, 1);
    let counts = world.counts().await;
    let depths: Vec<_> = counts.queues.iter().map(|it| (it.name.to_string(), it.depth)).collect();
    assert_eq!(depths.iter().map(|(_, depth)| depth).sum::<u64>(), 1, "{depths:?}");
}

pub(crate) async fn a_moved_job_fails_and_is_retried_in_its_new_queue<H: Harness>(world: World<H>) {
    world.push_and_fail("job-00001", "").await;
    assert_eq!(moved(&world, "retries", "job-00001", "other", false).await, Ok(1));
    assert_eq!(world.fetch("other").await.as_deref(), Some("job-00001"));
    world.fail("job-00001").await;
    assert_eq!(world.act_on("retries", "job-00001", Action::Requeue).await, 1);
    assert_eq!(world.jids("queue:other").await, "job-00001");
    let job = world.found("job-00001").await.unwrap();
    assert_eq!(job.failure.unwrap().retry_count, 1, "its failures still count");
}

pub(crate) async fn jobs_that_move_to_a_paused_queue_wait<H: Harness>(world: World<H>) {
    world.push_to("default", "job-00001 job-00002").await;
    let fetch = world.wait_as("w1", "apart").await;
    assert_eq!(moved(&world, "queue:default", "job-00001", "apart", true).await, Ok(1));
    assert_eq!(world.fetch("apart").await, None);
    drop(fetch);
    assert_eq!(moved(&world, "queue:apart", "job-00001", "default", false).await, Ok(1));
    assert_eq!(world.drain("default").await, "job-00002 job-00001");
}

pub(crate) async fn a_move_changes_only_what_is_there<H: Harness>(world: World<H>) {
    world.push_to("default", "job-00001").await;
    let key = world.key("queue:default", "job-00001").await;
    let gone = EntryKey { order: key.order + 1, ..key.clone() };
    world.fetch("default").await.unwrap();
    let other = QueueName::parse("other", &JobServerLimits::default()).unwrap();
    let moved = world.store().move_to(&place("queue:default"), &[key, gone], &other, false).await;
    assert_eq!(moved, Ok(0), "a reserved job stays with its worker");
    assert_eq!(world.ack("job-00001").await, 1);
}

pub(crate) async fn a_removed_queue_ends_with_its_last_job<H: Harness>(world: World<H>) {
    world.schedule("later-01", seconds(60)).await;
    world.queue_action("default", QueueAction::Remove).await;
    assert_eq!(moved(&world, "scheduled", "later-01", "other", false).await, Ok(1));
    let names: Vec<_> = world.counts().await.queues.into_iter().map(|it| it.name).collect();
    assert_eq!(names.iter().map(QueueName::as_str).collect::<Vec<_>>(), ["other"]);
    world.push_to("default", "job-00001").await;
    assert_eq!(world.drain("default other").await, "job-00001 later-01");
}

pub(crate) async fn a_move_frees_the_unique_lock<H: Harness>(world: World<H>) {
    let unique = r#""custom":{"unique_for":600}"#;
    world.push_with("job-00001", unique).await;
    assert_eq!(moved(&world, "queue:default", "job-00001", "other", false).await, Ok(1));
    world.push_with("job-00002", unique).await;
    assert_eq!(world.counts().await.unique_locks, 1);
}

pub(crate) async fn moved_jobs_survive_a_crash<H: Durable>(world: World<H>) {
    world.push_to("default", "job-00001 job-00002").await;
    world.schedule("later-01", seconds(60)).await;
    moved(&world, "queue:default", "job-00001", "apart", true).await.unwrap();
    moved(&world, "scheduled", "later-01", "apart", true).await.unwrap();
    let world = world.crash().await;
    assert_eq!(world.jids("queue:default").await, "job-00002");
    assert_eq!(world.jids("queue:apart").await, "job-00001 later-01");
    assert_eq!(world.fetch("apart").await, None, "it is still paused");
    moved(&world, "queue:apart", "job-00001 later-01", "default", false).await.unwrap();
    world.queue_action("apart", QueueAction::Remove).await;
    let world = world.crash().await;
    assert_eq!(world.drain("default").await, "job-00002 job-00001 later-01");
}
