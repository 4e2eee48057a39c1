//! Batches of jobs with callbacks: `custom.bid` and BATCH.

use weir_jobs::batches::{BatchDefinition, BatchStatus};
use weir_jobs::custom::BatchId;
use weir_jobs::job::JobBatch;
use weir_jobs::model::{NewJob, SetName};
use weir_jobs::settings::JobServerLimits;
use weir_jobs::store::{
    Action, FailOutcome, QueueAction, Restored, Selection, Store, StoreError, StoredJob,
};

use super::harness::{Durable, Harness};
use super::world::{World, seconds};

/// A batch with the callbacks whose names `callbacks` contains, in the queue `callbacks`.
async fn create<H: Harness>(
    world: &World<H>,
    parent: Option<BatchId>,
    name: &str,
    callbacks: &str,
) -> BatchId {
    let callback = |kind: &str| {
        callbacks.contains(kind).then(|| {
            format!(r#"{{"jid":"{name}-{kind}","jobtype":"C","args":[],"queue":"callbacks"}}"#)
                .into_bytes()
        })
    };
    let (complete, success) = (callback("complete"), callback("success"));
    let description = name.to_owned();
    let definition = BatchDefinition { parent, description, complete, success };
    world.store().batch_new(definition).await.unwrap()
}

async fn push<H: Harness>(world: &World<H>, batch: BatchId, jids: &str, members: &str) {
    for jid in jids.split_whitespace() {
        let comma = if members.is_empty() { "" } else { "," };
        let custom = format!(r#"{members}{comma}"custom":{{"bid":"{batch}"}}"#);
        world.push_with(jid, &custom).await;
    }
}

async fn status<H: Harness>(world: &World<H>, batch: BatchId) -> BatchStatus {
    world.store().batch_status(batch).await.unwrap()
}

/// `total pending failed complete success`.
async fn counts<H: Harness>(world: &World<H>, batch: BatchId) -> String {
    let BatchStatus { total, pending, failed, complete, success, .. } = status(world, batch).await;
    format!("{total} {pending} {failed} {:?} {:?}", complete.as_str(), success.as_str())
}

async fn commit<H: Harness>(world: &World<H>, batch: BatchId) {
    world.store().batch_commit(batch).await.unwrap();
}

/// Fetches the waiting callbacks and acknowledges them; their jids.
async fn run_callbacks<H: Harness>(world: &World<H>) -> String {
    let jids = world.drain("callbacks").await;
    for jid in jids.split_whitespace() {
        world.ack(jid).await;
    }
    jids
}

pub(crate) async fn callbacks_come_when_all_jobs_have_ended<H: Harness>(world: World<H>) {
    let batch = create(&world, None, "b", "complete success").await;
    push(&world, batch, "job-00001 job-00002", "").await;
    assert_eq!(counts(&world, batch).await, r#"2 2 0 "" """#);
    world.fetch("default").await;
    world.ack("job-00001").await;
    commit(&world, batch).await;
    assert_eq!(world.drain("callbacks").await, "");
    world.fetch("default").await;
    world.ack("job-00002").await;
    assert_eq!(counts(&world, batch).await, r#"2 0 0 "1" """#);
    let callback = world.fetch_as("w1", "callbacks").await.unwrap();
    let json = String::from_utf8(callback.json).unwrap();
    assert!(json.contains(&format!(r#""custom":{{"_bid":"{batch}"}}"#)), "{json}");
    world.ack("b-complete").await;
    assert_eq!(counts(&world, batch).await, r#"2 0 0 "2" "1""#);
    assert_eq!(run_callbacks(&world).await, "b-success");
    assert_eq!(counts(&world, batch).await, r#"2 0 0 "2" "2""#);
    let found = status(&world, batch).await;
    assert_eq!((found.description.as_str(), found.created_at), ("b", world.now()));
    world.advance(seconds(1_799)).await;
    assert_eq!(world.counts().await.batches, 1, "its status can still be read");
    world.advance(seconds(1)).await;
    assert_eq!(world.counts().await.batches, 0);
}

pub(crate) async fn a_failed_job_completes_its_batch_and_its_retry_succeeds<H: Harness>(
    world: World<H>,
) {
    let batch = create(&world, None, "b", "complete success").await;
    push(&world, batch, "job-00001", r#""retry":1"#).await;
    commit(&world, batch).await;
    let waiting = async || world.counts().await.batches_waiting;
    assert_eq!(waiting().await, 0);
    world.fetch("default").await;
    world.fail("job-00001").await;
    assert_eq!(waiting().await, 1, "all jobs that are left have failed");
    assert_eq!(counts(&world, batch).await, r#"1 1 1 "1" """#);
    assert_eq!(run_callbacks(&world).await, "b-complete");
    world.advance(seconds(60)).await;
    world.fetch("default").await;
    assert_eq!(world.fail("job-00001").await, FailOutcome::Dead);
    assert_eq!(counts(&world, batch).await, r#"1 1 1 "2" """#);
    world.act_on("dead", "job-00001", Action::Requeue).await;
    world.fetch("default").await;
    world.ack("job-00001").await;
    assert_eq!(waiting().await, 0);
    assert_eq!(counts(&world, batch).await, r#"1 0 0 "2" "1""#);
    assert_eq!(run_callbacks(&world).await, "b-success");
}

pub(crate) async fn a_job_that_is_lost_counts_as_failed<H: Harness>(world: World<H>) {
    let batch = create(&world, None, "b", "complete success").await;
    push(&world, batch, "job-00001", r#""retry":0"#).await;
    push(&world, batch, "job-00002 job-00003 job-00004", "").await;
    commit(&world, batch).await;
    world.fetch("default").await;
    assert_eq!(world.fail("job-00001").await, FailOutcome::Discarded);
    assert_eq!(counts(&world, batch).await, r#"4 4 1 "" """#);
    world.act_on("queue:default", "job-00002", Action::Discard).await;
    assert_eq!(counts(&world, batch).await, r#"4 4 2 "" """#);
    world.act_on("queue:default", "job-00003", Action::Kill).await;
    assert_eq!(counts(&world, batch).await, r#"4 4 3 "" """#);
    world.queue_action("default", QueueAction::Clear).await;
    world.act("dead", Selection::All, Action::Discard).await;
    world.advance(seconds(0)).await;
    assert_eq!(counts(&world, batch).await, r#"4 4 4 "1" """#);
    assert_eq!(run_callbacks(&world).await, "b-complete");
    assert_eq!(run_callbacks(&world).await, "", "it never succeeds");
}

pub(crate) async fn an_empty_batch_fires_at_its_commit<H: Harness>(world: World<H>) {
    let both = create(&world, None, "both", "complete success").await;
    let one = create(&world, None, "one", "success").await;
    commit(&world, both).await;
    commit(&world, one).await;
    assert_eq!(counts(&world, both).await, r#"0 0 0 "1" """#);
    assert_eq!(counts(&world, one).await, r#"0 0 0 "" "1""#);
    let jids = run_callbacks(&world).await;
    assert!(jids == "both-complete one-success" || jids == "one-success both-complete", "{jids}");
    assert_eq!(run_callbacks(&world).await, "both-success");
    commit(&world, both).await;
    assert_eq!(run_callbacks(&world).await, "", "a second commit fires nothing");
}

pub(crate) async fn parents_wait_for_their_children<H: Harness>(world: World<H>) {
    let parent = create(&world, None, "parent", "success").await;
    let child = create(&world, Some(parent), "child", "complete success").await;
    let grandchild = create(&world, Some(child), "grandchild", "complete success").await;
    push(&world, parent, "job-00001", "").await;
    push(&world, grandchild, "job-00002", "").await;
    for batch in [parent, child, grandchild] {
        commit(&world, batch).await;
    }
    assert_eq!(status(&world, grandchild).await.parent, Some(child));
    for jid in world.drain("default").await.split_whitespace() {
        world.ack(jid).await;
    }
    // Each group is due at once: success of one batch, complete of the next.
    for expected in [
        "grandchild-complete",
        "child-complete grandchild-success",
        "child-success",
        "parent-success",
        "",
    ] {
        let jids = run_callbacks(&world).await;
        let mut sorted: Vec<&str> = jids.split_whitespace().collect();
        sorted.sort_unstable();
        assert_eq!(sorted.join(" "), expected);
    }
}

pub(crate) async fn a_batch_can_be_opened_again<H: Harness>(world: World<H>) {
    let batch = create(&world, None, "b", "success").await;
    push(&world, batch, "job-00001", "").await;
    commit(&world, batch).await;
    world.fetch("default").await;
    world.store().batch_open(batch).await.unwrap();
    push(&world, batch, "job-00002", "").await;
    commit(&world, batch).await;
    world.ack("job-00001").await;
    assert_eq!(counts(&world, batch).await, r#"2 1 0 "" """#);
    world.fetch("default").await;
    world.ack("job-00002").await;
    assert_eq!(run_callbacks(&world).await, "b-success");
    push(&world, batch, "job-00003", "").await;
    assert_eq!(counts(&world, batch).await, r#"3 1 0 "" "2""#, "it is stored; nothing fires again");
    world.advance(seconds(3_600)).await;
    assert_eq!(counts(&world, batch).await, r#"3 1 0 "" "2""#, "it has a job again");
    world.fetch("default").await;
    world.ack("job-00003").await;
    assert_eq!(run_callbacks(&world).await, "");
    world.advance(seconds(1_799)).await;
    commit(&world, batch).await;
    world.advance(seconds(1_799)).await;
    assert_eq!(world.counts().await.batches, 1, "its status can still be read");
    world.advance(seconds(1)).await;
    assert_eq!(world.counts().await.batches, 0);
}

pub(crate) async fn the_texts_of_all_batches_are_limited<H: Harness>(_: World<H>) {
    let world = World::<H>::with_limits(|limits| limits.batch_memory_bytes_max = 1_000);
    let first = create(&world, None, "first", "success").await;
    let bytes = world.counts().await.batch_bytes;
    assert!(bytes > 50, "{bytes}");
    let large = BatchDefinition { description: "x".repeat(1_000), ..BatchDefinition::default() };
    let refused = world.store().batch_new(large).await;
    let text = "too much memory for batches: their descriptions and callbacks may have 1000 bytes; raise jobs.limits.advanced.batch_memory_bytes_max, or wait until some have ended";
    assert_eq!(refused, Err(StoreError::Limit(text.to_owned())));
    commit(&world, first).await;
    assert_eq!(run_callbacks(&world).await, "first-success");
    world.advance(seconds(0)).await;
    world.advance(seconds(1_800)).await;
    assert_eq!((world.counts().await.batches, world.counts().await.batch_bytes), (0, 0));
}

pub(crate) async fn a_callback_belongs_to_no_batch<H: Harness>(world: World<H>) {
    let parent = create(&world, None, "parent", "success").await;
    let json =
        format!(r#"{{"jid":"c-0000001","jobtype":"C","args":[],"custom":{{"bid":"{parent}"}}}}"#);
    let definition =
        BatchDefinition { success: Some(json.into_bytes()), ..BatchDefinition::default() };
    let batch = world.store().batch_new(definition).await.unwrap();
    commit(&world, batch).await;
    assert_eq!(counts(&world, parent).await, r#"0 0 0 "" """#);
    assert_eq!(world.fetch("default").await.as_deref(), Some("c-0000001"));
}

pub(crate) async fn a_large_queue_is_cleared_in_slices<H: Harness>(world: World<H>) {
    let batch = create(&world, None, "b", "complete").await;
    let bid = format!(r#""bid":"{batch}""#);
    for number in 0..3_000 {
        let json = format!(
            r#"{{"jid":"job-{number:05}","jobtype":"T","args":[{number}],"custom":{{"unique_for":600,{bid}}}}}"#
        );
        world.push_json(&json).await.unwrap();
    }
    commit(&world, batch).await;
    assert_eq!(world.queue_action("default", QueueAction::Clear).await, 3_000);
    let last = r#"{"jid":"new-00001","jobtype":"T","args":[2999],"custom":{"unique_for":600}}"#;
    world.push_json(last).await.expect("its lock is free at once");
    world.advance(seconds(0)).await;
    assert_eq!(world.counts().await.unique_locks, 1);
    assert_eq!(counts(&world, batch).await, r#"3000 3000 3000 "1" """#);
    assert_eq!(world.fetch("default").await.as_deref(), Some("new-00001"));
}

pub(crate) async fn a_job_of_an_unknown_batch_is_refused<H: Harness>(world: World<H>) {
    let unknown = BatchId::parse("b-00000000000000ff").unwrap();
    let job =
        |bid: &str| super::world::job_with("job-00001", &format!(r#""custom":{{"bid":"{bid}"}}"#));
    let refused = world.push_json(&job("b-00000000000000ff")).await;
    assert_eq!(refused, Err(StoreError::NoSuchBatch(unknown)));
    let refused = world.push_json(&job("check-check")).await;
    assert_eq!(refused, Err(StoreError::NoSuchBatch(BatchId::NONE)));
    let store = world.store();
    let missing = Err(StoreError::NoSuchBatch(unknown));
    assert_eq!(store.batch_open(unknown).await, missing);
    assert_eq!(store.batch_commit(unknown).await, missing);
    assert_eq!(store.batch_status(unknown).await.map(drop), missing);
    let definition = BatchDefinition { parent: Some(unknown), ..BatchDefinition::default() };
    assert_eq!(store.batch_new(definition).await.map(drop), missing);
}

pub(crate) async fn batches_expire_and_are_limited<H: Harness>(_: World<H>) {
    let world = World::<H>::with_limits(|limits| {
        limits.batches_max = 2;
        limits.batch_age_max = seconds(7_200);
    });
    let parent = create(&world, None, "parent", "success").await;
    let child = create(&world, Some(parent), "child", "success").await;
    let refused = world.store().batch_new(BatchDefinition::default()).await;
    let text =
        "too many batches: at most 2; raise jobs.limits.batches_max, or wait until some have ended";
    assert_eq!(refused, Err(StoreError::Limit(text.to_owned())));
    push(&world, child, "job-00001", "").await;
    commit(&world, parent).await;
    world.advance(seconds(1_800)).await;
    assert_eq!(
        world.store().batch_status(child).await.map(drop),
        Err(StoreError::NoSuchBatch(child))
    );
    assert_eq!(run_callbacks(&world).await, "parent-success", "it waits no longer");
    world.fetch("default").await;
    assert_eq!(world.ack("job-00001").await, 1);
    let next = create(&world, None, "next", "success").await;
    push(&world, next, "job-00002", "").await;
    commit(&world, next).await;
    world.advance(seconds(7_199)).await;
    assert_eq!(counts(&world, next).await, r#"1 1 0 "" """#);
    world.advance(seconds(1)).await;
    assert_eq!(world.counts().await.batches, 0);
    world.fetch("default").await;
    world.ack("job-00002").await;
    assert_eq!(run_callbacks(&world).await, "");
}

pub(crate) async fn a_callback_wakes_a_fetch<H: Harness>(world: World<H>) {
    let batch = create(&world, None, "b", "success").await;
    let waiting = world.wait_as("w2", "callbacks").await;
    commit(&world, batch).await;
    world.harness.tick().await;
    assert_eq!(waiting.jid().await.as_deref(), Some("b-success"));
}

pub(crate) async fn batches_survive_a_crash<H: Durable>(world: World<H>) {
    let parent = create(&world, None, "parent", "complete success").await;
    let child = create(&world, Some(parent), "child", "success").await;
    push(&world, parent, "parent-job", r#""queue":"parent""#).await;
    push(&world, child, "job-00001 job-00002 job-00003", r#""retry":1"#).await;
    commit(&world, parent).await;
    commit(&world, child).await;
    world.fetch("default").await;
    world.ack("job-00001").await;
    world.fetch("default").await;
    world.fail("job-00002").await;
    world.push_to("default", "plain-001").await;
    let world = world.crash().await;
    assert_eq!(counts(&world, child).await, r#"3 2 1 "" """#);
    assert_eq!(status(&world, child).await.parent, Some(parent));
    for jid in world.drain("default").await.split_whitespace() {
        world.ack(jid).await;
    }
    world.push_to("other", "plain-002").await;
    let world = world.crash().await;
    world.advance(seconds(60)).await;
    assert_eq!(world.fetch("default").await.as_deref(), Some("job-00002"));
    world.ack("job-00002").await;
    assert_eq!(counts(&world, child).await, r#"3 0 0 "" "1""#);
    world.push_to("other", "plain-003").await;
    let world = world.crash().await;
    assert_eq!(counts(&world, child).await, r#"3 0 0 "" "1""#, "it was stored before");
    assert_eq!(run_callbacks(&world).await, "child-success");
    world.push_to("other", "plain-004").await;
    let world = world.crash().await.restart().await;
    assert_eq!(counts(&world, child).await, r#"3 0 0 "" "2""#);
    assert_eq!(run_callbacks(&world).await, "");
    assert_eq!(world.fetch("parent").await.as_deref(), Some("parent-job"));
    world.ack("parent-job").await;
    assert_eq!(run_callbacks(&world).await, "parent-complete");
    let world = world.restart().await;
    assert_eq!(run_callbacks(&world).await, "parent-success");
    let world = world.restart().await;
    assert_eq!(run_callbacks(&world).await, "");
}

pub(crate) async fn jobs_that_were_cleared_stay_lost<H: Durable>(world: World<H>) {
    let batch = create(&world, None, "b", "success").await;
    push(&world, batch, "job-00001 job-00002", "").await;
    world.queue_action("default", QueueAction::Clear).await;
    push(&world, batch, "job-00003 job-00004", "").await;
    world.act_on("queue:default", "job-00003", Action::Discard).await;
    commit(&world, batch).await;
    for _ in 0..2 {
        assert_eq!(counts(&world, batch).await, r#"4 4 3 "" """#);
    }
    let world = world.crash().await;
    assert_eq!(counts(&world, batch).await, r#"4 4 3 "" """#);
    let world = world.restart().await;
    assert_eq!(counts(&world, batch).await, r#"4 4 3 "" """#);
    world.fetch("default").await;
    world.ack("job-00004").await;
    assert_eq!(counts(&world, batch).await, r#"4 3 3 "" """#);
    assert_eq!(run_callbacks(&world).await, "");
}

pub(crate) async fn callbacks_survive_compaction_and_fire_once<H: Durable>(world: World<H>) {
    let batch = create(&world, None, "b", "complete success").await;
    push(&world, batch, "job-00001 job-00002 job-00003", "").await;
    world.queue_action("default", QueueAction::Pause).await;
    world.act_on("queue:default", "job-00003", Action::Discard).await;
    commit(&world, batch).await;
    let padding = "x".repeat(4_000);
    for number in 0..1_200 {
        let jid = format!("pad-{number:05}");
        let json = format!(r#"{{"jid":"{jid}","jobtype":"T","args":["{padding}"],"queue":"q"}}"#);
        world.push_json(&json).await.unwrap();
        world.fetch("q").await;
        world.ack(&jid).await;
        if number % 50 == 0 {
            world.advance(seconds(1)).await;
        }
    }
    let segments = world.store().storage().await.segments;
    assert!(segments < 8, "{segments} segments: nothing was removed");
    let world = world.restart().await;
    assert_eq!(counts(&world, batch).await, r#"3 3 1 "" """#);
    world.queue_action("default", QueueAction::Resume).await;
    for jid in world.drain("default").await.split_whitespace() {
        world.ack(jid).await;
    }
    let world = world.restart().await;
    assert_eq!(run_callbacks(&world).await, "b-complete");
    let world = world.restart().await;
    assert_eq!(counts(&world, batch).await, r#"3 1 1 "2" """#);
    assert_eq!(run_callbacks(&world).await, "");
}

/// Moves a job with what the store knows of it.
async fn move_job<H: Harness>(from: &World<H>, to: &World<H>, jid: &str, set: Option<SetName>) {
    let stored = from.found(jid).await.expect("the job is there");
    let mut batch = JobBatch::new();
    let job = batch.parse_one(&stored.json, to.now(), &JobServerLimits::default()).unwrap();
    let job = NewJob { at: None, ..job };
    let StoredJob { at, failure, features, .. } = stored;
    let restored = Restored { job, set, at, failure, features: Some(features) };
    to.store().restore(&[restored]).await.unwrap();
}

/// A batch with a parent: a job has succeeded, one has failed, one waits, one is deleted.
async fn move_batches<H: Harness>(world: &World<H>, target: &World<H>) -> (BatchId, BatchId) {
    let parent = create(world, None, "parent", "success").await;
    let child = create(world, Some(parent), "child", "complete success").await;
    push(world, child, "job-00001 job-00002 job-00003", "").await;
    commit(world, parent).await;
    commit(world, child).await;
    world.fetch("default").await;
    world.ack("job-00001").await;
    world.fetch("default").await;
    world.fail("job-00002").await;
    let first = world.store().export_batches(None, 1).await.unwrap();
    let second = world.store().export_batches(Some(first[0].id), 9).await.unwrap();
    assert_eq!((first.len(), second.len()), (1, 1), "a page at a time, in the order of ids");
    for batch in first.into_iter().chain(second) {
        assert!(batch.committed);
        assert_eq!(target.store().import_batch(batch.clone()).await, Ok(true));
        assert_eq!(target.store().import_batch(batch).await, Ok(false), "it is there");
    }
    target.advance(seconds(0)).await;
    assert_eq!(run_callbacks(target).await, "", "its jobs are not there yet");
    move_job(world, target, "job-00002", Some(SetName::Retries)).await;
    move_job(world, target, "job-00003", None).await;
    commit(target, child).await;
    commit(target, parent).await;
    (parent, child)
}

pub(crate) async fn batches_move_to_another_store<H: Harness>(world: World<H>) {
    let target = World::<H>::with_limits(|_| {});
    let (parent, child) = move_batches(&world, &target).await;
    assert_eq!(counts(&target, child).await, counts(&world, child).await);
    assert_eq!(status(&target, child).await.parent, Some(parent));
    assert_eq!(status(&target, child).await.created_at, status(&world, child).await.created_at);
    target.fetch("default").await;
    target.ack("job-00003").await;
    assert_eq!(run_callbacks(&target).await, "child-complete");
    target.advance(seconds(60)).await;
    target.fetch("default").await;
    target.ack("job-00002").await;
    assert_eq!(counts(&target, child).await, r#"3 0 0 "2" "1""#);
    assert_eq!(run_callbacks(&target).await, "child-success");
    assert_eq!(run_callbacks(&target).await, "parent-success");
}

pub(crate) async fn a_callback_in_progress_moves_with_its_batch<H: Harness>(world: World<H>) {
    let batch = create(&world, None, "b", "complete success").await;
    commit(&world, batch).await;
    assert_eq!(counts(&world, batch).await, r#"0 0 0 "1" """#);
    let target = World::<H>::with_limits(|_| {});
    for batch in world.store().export_batches(None, 9).await.unwrap() {
        target.store().import_batch(batch).await.unwrap();
    }
    move_job(&world, &target, "b-complete", None).await;
    commit(&target, batch).await;
    assert_eq!(run_callbacks(&target).await, "b-complete", "it is not enqueued again");
    assert_eq!(run_callbacks(&target).await, "b-success");
}

pub(crate) async fn imported_batches_survive_a_crash<H: Durable>(world: World<H>) {
    let target = World::<H>::with_limits(|_| {});
    let (_, child) = move_batches(&world, &target).await;
    let expected = counts(&world, child).await;
    target.push_to("other", "plain-001").await;
    let target = target.crash().await;
    assert_eq!(counts(&target, child).await, expected);
    target.push_to("other", "plain-002").await;
    let target = target.crash().await.restart().await;
    assert_eq!(counts(&target, child).await, expected);
    for jid in target.drain("default").await.split_whitespace() {
        target.ack(jid).await;
    }
    assert_eq!(run_callbacks(&target).await, "child-complete");
}

pub(crate) async fn a_lock_moves_with_its_time<H: Harness>(world: World<H>) {
    let unique = |jid: &str, until: &str| {
        format!(
            r#"{{"jid":"{jid}","jobtype":"T","args":[],"queue":"{until}","custom":{{"unique_for":600,"unique_until":"{until}"}}}}"#
        )
    };
    for until in ["success", "start"] {
        world.push_json(&unique(&format!("of-{until}-01"), until)).await.unwrap();
        world.fetch(until).await;
        world.fail(&format!("of-{until}-01")).await;
    }
    world.clock.advance(seconds(500));
    let target = World::<H>::with_limits(|_| {});
    target.clock.advance(seconds(500));
    for until in ["success", "start"] {
        move_job(&world, &target, &format!("of-{until}-01"), Some(SetName::Dead)).await;
    }
    let again = |until: &str| unique("again-0001", until);
    assert_eq!(target.push_json(&again("success")).await, Err(StoreError::NotUnique));
    assert_eq!(target.push_json(&again("start")).await, Ok(()), "the fetch had freed it");
    target.clock.advance(seconds(100));
    assert_eq!(target.push_json(&again("success")).await, Ok(()), "it lasts from the push");
}
