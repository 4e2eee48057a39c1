//! Moving jobs to another queue.

use weir_jobs::model::{EntryKey, QueueName, Wid, WorkerEnd};
use weir_jobs::store::{Action, Filter, QueueAction, ScanRequest, Store, StoreError, StoredJob};

use super::harness::{Durable, Harness};
use super::world::{World, place, queue_name, seconds};

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
    move_keys(world, from, &keys, to, paused).await
}

async fn move_keys<H: Harness>(
    world: &World<H>,
    from: &str,
    keys: &[EntryKey],
    to: &str,
    paused: bool,
) -> Result<u64, StoreError> {
    world.store().move_to(&place(from), keys, &queue_name(to), paused).await
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
    let keys = [key, gone];
    let moved = move_keys(&world, "queue:default", &keys, "other", false).await;
    assert_eq!(moved, Ok(0), "a reserved job stays with its worker");
    assert_eq!(world.ack("job-00001").await, 1);
}

/// More than one step of a store moves.
const MANY: usize = 1_500;

/// All jobs of a queue, in their order.
async fn all_jobs<H: Harness>(world: &World<H>, queue: &str) -> Vec<StoredJob> {
    let (after, limit) = (None, 2 * MANY);
    let (newest_first, filter) = (false, Filter::default());
    let place = place(&format!("queue:{queue}"));
    let request = ScanRequest { place, after, newest_first, limit, scan_max: limit, filter };
    world.store().scan(request).await.unwrap().jobs
}

async fn all_jids<H: Harness>(world: &World<H>, queue: &str) -> Vec<String> {
    all_jobs(world, queue).await.into_iter().map(|job| job.key.jid.into()).collect()
}

pub(crate) async fn jobs_move_out_of_the_middle_of_a_long_queue<H: Harness>(world: World<H>) {
    let jids: Vec<String> = (0..MANY).map(|number| format!("job-{number:05}")).collect();
    world.push_to("default", &jids.join(" ")).await;
    let keys: Vec<EntryKey> = all_jobs(&world, "default")
        .await
        .into_iter()
        .map(|job| job.key)
        .skip(1)
        .step_by(3)
        .collect();
    // A worker comes in between, and others push.
    for jid in &jids[..10] {
        assert_eq!(world.fetch("default").await.as_ref(), Some(jid));
    }
    world.push_to("default", "late-0001 late-0002").await;
    let moved = move_keys(&world, "queue:default", &keys, "other", false).await;
    let of_worker = jids[..10].iter().skip(1).step_by(3).count();
    assert_eq!(moved, Ok((keys.len() - of_worker) as u64));
    let (mut left, mut expected) = (Vec::new(), Vec::new());
    for (number, jid) in jids.iter().enumerate().skip(10) {
        if number % 3 == 1 { &mut expected } else { &mut left }.push(jid.clone());
    }
    left.extend(["late-0001", "late-0002"].map(str::to_owned));
    assert_eq!(all_jids(&world, "other").await, expected);
    assert_eq!(all_jids(&world, "default").await, left);
}

pub(crate) async fn a_moved_job_takes_its_kills_along<H: Harness>(world: World<H>) {
    world.push_to("default", "job-00001").await;
    for (queue, next) in [("default", "other"), ("other", "default"), ("default", "")] {
        assert_eq!(world.fetch(queue).await.as_deref(), Some("job-00001"));
        let released = world.store().release(&Wid::new("w1"), WorkerEnd::Killed).await;
        assert_eq!(released, Ok(1));
        if !next.is_empty() {
            let place = format!("queue:{queue}");
            assert_eq!(moved(&world, &place, "job-00001", next, false).await, Ok(1));
        }
    }
    assert_eq!(world.jids("dead").await, "job-00001");
}

pub(crate) async fn a_move_makes_only_so_many_queues<H: Harness>(_: World<H>) {
    let world = World::<H>::with_limits(|limits| limits.queues_max = 2);
    world.push_to("a", "job-a-01").await;
    world.push_to("b", "job-b-01").await;
    let rejected = moved(&world, "queue:a", "job-a-01", "c", true).await;
    assert!(
        matches!(&rejected, Err(StoreError::Limit(text)) if text.contains("jobs.limits.advanced.queues_max")),
        "{rejected:?}"
    );
    assert_eq!(moved(&world, "queue:a", "job-a-01", "b", false).await, Ok(1));
    assert_eq!(world.drain("a b").await, "job-b-01 job-a-01");
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
