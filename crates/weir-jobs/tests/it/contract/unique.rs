//! Unique jobs and expiry: `custom.unique_for`, `unique_until` and `expires_at`.

use weir_jobs::job::JobBatch;
use weir_jobs::model::{NewJob, SetName};
use weir_jobs::settings::JobServerLimits;
use weir_jobs::stamp::rfc3339;
use weir_jobs::store::{Action, FailOutcome, QueueAction, Restored, Selection, Store, StoreError};

use super::harness::{Durable, Harness};
use super::world::{World, job_with, place, queue_name, seconds};

const UNIQUE: &str = r#""custom":{"unique_for":600}"#;
const UNTIL_START: &str = r#""custom":{"unique_for":600,"unique_until":"start"}"#;

async fn push<H: Harness>(world: &World<H>, jid: &str, members: &str) -> Result<(), StoreError> {
    world.push_json(&job_with(jid, members)).await
}

async fn assert_locked<H: Harness>(world: &World<H>) {
    assert_eq!(push(world, "other-001", UNIQUE).await, Err(StoreError::NotUnique));
}

async fn assert_free<H: Harness>(world: &World<H>) {
    assert_eq!(push(world, "other-001", UNIQUE).await, Ok(()));
}

/// Stores a batch as PUSHB does.
async fn push_each<H: Harness>(world: &World<H>, jobs: &[String]) -> Vec<Result<(), StoreError>> {
    let mut batch = JobBatch::new();
    for job in jobs {
        batch.add(job.as_bytes(), world.now(), &JobServerLimits::default()).unwrap();
    }
    world.store().push_each(&batch.jobs()).await
}

pub(crate) async fn equal_jobs_are_refused_until_the_first_succeeds<H: Harness>(world: World<H>) {
    push(&world, "first-001", UNIQUE).await.unwrap();
    assert_locked(&world).await;
    push(&world, "plain-001", "").await.expect("a job without unique_for ignores the lock");
    push(&world, "queue-001", &format!(r#""queue":"q",{UNIQUE}"#)).await.expect("another queue");
    let other_args = format!(r#"{{"jid":"args-0001","jobtype":"Test","args":[1],{UNIQUE}}}"#);
    world.push_json(&other_args).await.expect("other args");
    assert_eq!(world.counts().await.unique_locks, 3);
    assert_eq!(world.fetch("default").await.as_deref(), Some("first-001"));
    assert_locked(&world).await;
    world.ack("first-001").await;
    assert_free(&world).await;
}

pub(crate) async fn a_batch_refuses_its_repeats_one_by_one<H: Harness>(world: World<H>) {
    let jobs: Vec<String> = (0..40)
        .map(|number| {
            let args = number % 10;
            format!(r#"{{"jid":"job-{number:05}","jobtype":"T","args":[{args}],{UNIQUE}}}"#)
        })
        .collect();
    let results = push_each(&world, &jobs).await;
    for (number, result) in results.iter().enumerate() {
        let expected = if number < 10 { Ok(()) } else { Err(StoreError::NotUnique) };
        assert_eq!(*result, expected, "{number}");
    }
    assert_eq!(world.depth("default").await, 10);
}

pub(crate) async fn all_or_none_counts_a_repeat_in_the_same_batch<H: Harness>(world: World<H>) {
    let mut batch = JobBatch::new();
    for jid in ["first-001", "first-002"] {
        let json = job_with(jid, UNIQUE);
        batch.add(json.as_bytes(), world.now(), &JobServerLimits::default()).unwrap();
    }
    assert_eq!(world.store().push(&batch.jobs()).await, Err(StoreError::NotUnique));
    assert_eq!((world.depth("default").await, world.counts().await.unique_locks), (0, 0));
    assert_free(&world).await;
}

pub(crate) async fn the_lock_lives_through_retries_and_death<H: Harness>(world: World<H>) {
    push(&world, "first-001", &format!(r#""retry":1,{UNIQUE}"#)).await.unwrap();
    world.fetch("default").await;
    assert!(matches!(world.fail("first-001").await, FailOutcome::Retry { .. }));
    assert_locked(&world).await;
    world.advance(seconds(60)).await;
    assert_locked(&world).await;
    assert_eq!(world.fetch("default").await.as_deref(), Some("first-001"));
    assert_eq!(world.fail("first-001").await, FailOutcome::Dead);
    assert_locked(&world).await;
    world.advance(seconds(540)).await;
    assert_free(&world).await;
}

pub(crate) async fn a_job_that_is_thrown_away_frees_its_lock<H: Harness>(world: World<H>) {
    push(&world, "first-001", &format!(r#""retry":0,{UNIQUE}"#)).await.unwrap();
    world.fetch("default").await;
    assert_eq!(world.fail("first-001").await, FailOutcome::Discarded);
    assert_free(&world).await;
}

pub(crate) async fn until_start_the_fetch_frees_the_lock<H: Harness>(world: World<H>) {
    push(&world, "first-001", UNTIL_START).await.unwrap();
    assert_locked(&world).await;
    assert_eq!(world.fetch("default").await.as_deref(), Some("first-001"));
    assert_free(&world).await;
    assert!(matches!(world.fail("first-001").await, FailOutcome::Retry { .. }));
    assert_eq!(world.fetch("default").await.as_deref(), Some("other-001"));
    world.ack("other-001").await;
    assert_free(&world).await;
}

pub(crate) async fn a_job_that_was_not_delivered_has_its_lock_again<H: Harness>(world: World<H>) {
    let stuck = world.stuck_fetch("w1", "default").await;
    push(&world, "first-001", UNTIL_START).await.unwrap();
    assert_eq!(world.counts().await.unique_locks, 0, "it was handed out");
    drop(stuck);
    assert_locked(&world).await;
    assert_eq!(world.fetch("default").await.as_deref(), Some("first-001"));
    assert_free(&world).await;
}

pub(crate) async fn a_lock_runs_out_and_passes_to_the_next_job<H: Harness>(world: World<H>) {
    push(&world, "first-001", UNIQUE).await.unwrap();
    world.advance(seconds(600)).await;
    assert_free(&world).await;
    world.fetch("default").await;
    world.ack("first-001").await;
    assert_locked(&world).await;
}

pub(crate) async fn the_lock_of_a_scheduled_job_lasts_from_its_time<H: Harness>(world: World<H>) {
    let at = rfc3339(world.now() + seconds(3_600));
    push(&world, "first-001", &format!(r#""at":"{at}",{UNIQUE}"#)).await.unwrap();
    world.advance(seconds(4_199)).await;
    assert_locked(&world).await;
    world.advance(seconds(1)).await;
    assert_free(&world).await;
}

pub(crate) async fn an_operator_frees_the_lock<H: Harness>(world: World<H>) {
    for action in [Action::Kill, Action::Discard, Action::Requeue] {
        push(&world, "first-001", UNIQUE).await.unwrap();
        assert_eq!(world.act_on("queue:default", "first-001", action).await, 1);
        assert_free(&world).await;
        world.queue_action("default", QueueAction::Clear).await;
    }
    assert_eq!(world.counts().await.unique_locks, 0, "clearing a queue frees its locks");
    push(&world, "first-002", &format!(r#""retry":5,{UNIQUE}"#)).await.unwrap();
    world.fetch("default").await;
    world.fail("first-002").await;
    assert_locked(&world).await;
    world.act("retries", Selection::All, Action::Discard).await;
    assert_free(&world).await;
    world.store().flush().await.unwrap();
    assert_free(&world).await;
}

pub(crate) async fn a_move_frees_the_lock<H: Harness>(world: World<H>) {
    push(&world, "first-001", UNIQUE).await.unwrap();
    let keys = [world.key("queue:default", "first-001").await];
    let (from, to) = (place("queue:default"), queue_name("other"));
    assert_eq!(world.store().move_to(&from, &keys, &to, false).await, Ok(1));
    push(&world, "first-002", UNIQUE).await.unwrap();
    assert_eq!(world.counts().await.unique_locks, 1);
}

pub(crate) async fn locks_are_limited<H: Harness>(_: World<H>) {
    let world = World::<H>::with_limits(|limits| limits.unique_locks_max = 2);
    for queue in ["a", "b"] {
        push(&world, "first-001", &format!(r#""queue":"{queue}",{UNIQUE}"#)).await.unwrap();
    }
    let refused = push(&world, "first-001", &format!(r#""queue":"c",{UNIQUE}"#)).await;
    let text = "too many unique jobs: at most 2; raise jobs.limits.unique_locks_max, or wait until some have ended";
    assert_eq!(refused, Err(StoreError::Limit(text.to_owned())));
    push(&world, "plain-001", r#""queue":"c""#).await.expect("other jobs need no lock");
    world.advance(seconds(600)).await;
    push(&world, "first-001", &format!(r#""queue":"c",{UNIQUE}"#)).await.expect("two ran out");
}

pub(crate) async fn an_imported_job_is_stored_whoever_holds_its_lock<H: Harness>(world: World<H>) {
    push(&world, "first-001", UNIQUE).await.unwrap();
    for jid in ["again-001", "again-002"] {
        let mut batch = JobBatch::new();
        let json = job_with(jid, UNIQUE);
        let job: NewJob<'_> =
            batch.parse_one(json.as_bytes(), world.now(), &JobServerLimits::default()).unwrap();
        let at = world.now() + seconds(5);
        let restored =
            Restored { job, set: Some(SetName::Retries), at, failure: None, features: None };
        world.store().restore(&[restored]).await.unwrap();
    }
    world.act("retries", Selection::All, Action::Discard).await;
    assert_locked(&world).await;
}

pub(crate) async fn an_expired_job_is_dropped_when_it_would_be_fetched<H: Harness>(
    world: World<H>,
) {
    let expires_at = rfc3339(world.now() + seconds(10));
    let members = format!(r#""custom":{{"expires_at":"{expires_at}","unique_for":600}}"#);
    push(&world, "first-001", &members).await.unwrap();
    push(&world, "plain-001", "").await.unwrap();
    world.advance(seconds(9)).await;
    assert_eq!(world.fetch("default").await.as_deref(), Some("first-001"), "still valid");
    assert!(matches!(world.fail("first-001").await, FailOutcome::Retry { .. }));
    world.advance(seconds(60)).await;
    assert_eq!(world.depth("default").await, 2, "it waits until it would be fetched");
    assert_locked(&world).await;
    assert_eq!(world.drain("default").await, "plain-001");
    assert_eq!(world.found("first-001").await, None);
    assert_free(&world).await;
}

pub(crate) async fn many_expired_jobs_do_not_keep_a_fetch_waiting<H: Harness>(world: World<H>) {
    let expires_at = rfc3339(world.now() + seconds(10));
    for number in 0..1_000 {
        let members = format!(r#""custom":{{"expires_at":"{expires_at}"}}"#);
        push(&world, &format!("old-{number:05}"), &members).await.unwrap();
    }
    push(&world, "plain-001", "").await.unwrap();
    world.clock.advance(seconds(10));
    let fetching = world.wait_as("w1", "default").await;
    assert_eq!(fetching.jid().await.as_deref(), Some("plain-001"));
    assert_eq!(world.census().await, (0, 1, 0, 0, 0));
}

pub(crate) async fn locks_survive_a_crash<H: Durable>(world: World<H>) {
    push(&world, "first-001", &format!(r#""queue":"a",{UNIQUE}"#)).await.unwrap();
    push(&world, "first-002", &format!(r#""queue":"b",{UNIQUE}"#)).await.unwrap();
    push(&world, "first-003", &format!(r#""queue":"c",{UNIQUE}"#)).await.unwrap();
    push(&world, "first-004", &format!(r#""queue":"d",{UNIQUE}"#)).await.unwrap();
    world.fetch("a").await;
    world.fail("first-001").await;
    world.fetch("b").await;
    world.ack("first-002").await;
    world.act_on("queue:c", "first-003", Action::Kill).await;
    world.queue_action("d", QueueAction::Clear).await;
    let world = world.crash().await;
    assert_eq!(world.counts().await.unique_locks, 1);
    for (queue, is_locked) in [("a", true), ("b", false), ("c", false), ("d", false)] {
        let pushed = push(&world, "other-001", &format!(r#""queue":"{queue}",{UNIQUE}"#)).await;
        assert_eq!(pushed == Err(StoreError::NotUnique), is_locked, "{queue}");
    }
    let world = world.crash().await.restart().await;
    assert_eq!(world.counts().await.unique_locks, 4);
}

pub(crate) async fn after_a_crash_a_lock_is_that_of_its_last_holder<H: Durable>(world: World<H>) {
    push(&world, "first-001", UNTIL_START).await.unwrap();
    world.fetch("default").await;
    push(&world, "other-001", UNIQUE).await.unwrap();
    let world = world.crash().await;
    // The first waits again; only the second has the lock.
    world.act_on("queue:default", "first-001", Action::Discard).await;
    assert_eq!(push(&world, "other-002", UNIQUE).await, Err(StoreError::NotUnique));
    world.act_on("queue:default", "other-001", Action::Discard).await;
    assert_free(&world).await;
}

pub(crate) async fn features_survive_compaction<H: Durable>(world: World<H>) {
    let expires_at = rfc3339(world.now() + seconds(86_400));
    let members =
        format!(r#""queue":"a","custom":{{"unique_for":1e6,"expires_at":"{expires_at}"}}"#);
    push(&world, "first-001", &members).await.unwrap();
    let padding = "x".repeat(4_000);
    for number in 0..1_200 {
        let jid = format!("pad-{number:05}");
        let json = format!(r#"{{"jid":"{jid}","jobtype":"T","args":["{padding}"]}}"#);
        world.push_json(&json).await.unwrap();
        world.fetch("default").await;
        world.ack(&jid).await;
        if number % 50 == 0 {
            world.advance(seconds(1)).await;
        }
    }
    let world = world.restart().await;
    assert_eq!(push(&world, "other-001", &members).await, Err(StoreError::NotUnique));
    world.advance(seconds(86_400)).await;
    assert_eq!(world.fetch("a").await, None, "it has expired");
    push(&world, "other-001", r#""queue":"a","custom":{"unique_for":60}"#).await.unwrap();
}
