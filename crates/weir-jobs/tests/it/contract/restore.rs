//! Exported jobs on their way back.

use weir_base::clock::Timestamp;
use weir_jobs::job::JobBatch;
use weir_jobs::job_text;
use weir_jobs::model::{FailureState, NewJob, SetName};
use weir_jobs::settings::JobServerLimits;
use weir_jobs::store::{FailOutcome, Restored, Store, StoreError};

use super::harness::Harness;
use super::world::{World, job_with, place, report, seconds};

fn old_failure(at: Timestamp) -> FailureState {
    FailureState {
        retry_count: 3,
        remaining: 22,
        failed_at: at,
        message: "long ago".to_owned(),
        errtype: "Old".to_owned(),
        ..FailureState::default()
    }
}

/// One job on its way back to `set`; its text carries `failure`.
async fn restore<H: Harness>(
    world: &World<H>,
    jid: &str,
    queue: &str,
    set: Option<(SetName, Timestamp)>,
    failure: Option<FailureState>,
) -> Result<(), StoreError> {
    let mut batch = JobBatch::new();
    let pushed = job_with(jid, &format!(r#""queue":"{queue}""#));
    let job = batch.parse_one(pushed.as_bytes(), world.now(), &JobServerLimits::default()).unwrap();
    let failed =
        failure.as_ref().map(|failure| job_text::failed(job.json, job.base_bytes, failure));
    let json = failed.as_deref().unwrap_or(job.json);
    let job = NewJob { json, ..job };
    let (set, at) = set.map_or((None, world.now()), |(set, at)| (Some(set), at));
    let restored = Restored { job, set, at, failure, features: None };
    world.store().restore(&[restored]).await
}

pub(crate) async fn a_restored_job_rests_where_it_was<H: Harness>(world: World<H>) {
    let now = world.now();
    let failure = old_failure(now - seconds(600));
    let later = now + seconds(60);
    let sets = [
        ("sched-001", SetName::Scheduled, later, None),
        ("retry-001", SetName::Retries, later, Some(failure.clone())),
        ("dead-0001", SetName::Dead, now - seconds(60), Some(failure.clone())),
    ];
    for (jid, set, at, failure) in sets {
        restore(&world, jid, "q", Some((set, at)), failure.clone()).await.unwrap();
        let listed = world.list(&place(set.as_str())).await.remove(0);
        assert_eq!((&*listed.key.jid, listed.at), (jid, at));
        assert_eq!(listed.failure, failure);
    }
    world.push_to("q", "first-001").await;
    restore(&world, "queue-001", "q", None, Some(failure)).await.unwrap();
    assert_eq!(world.jids("queue:q").await, "first-001 queue-001");
    assert_eq!(world.census().await, (2, 0, 1, 1, 1));
    world.advance(seconds(60)).await;
    assert_eq!(world.drain("q").await, "first-001 queue-001 sched-001 retry-001");
}

pub(crate) async fn its_next_failure_counts_on<H: Harness>(world: World<H>) {
    let failure = old_failure(world.now());
    restore(&world, "queue-001", "q", None, Some(failure)).await.unwrap();
    assert_eq!(world.fetch("q").await.as_deref(), Some("queue-001"));
    let outcome = world.store().fail(report("queue-001")).await.unwrap();
    assert!(matches!(outcome, FailOutcome::Retry { .. }));
    let failure = world.found("queue-001").await.unwrap().failure.unwrap();
    assert_eq!((failure.retry_count, failure.remaining), (4, 21));
    assert_eq!(failure.errtype, "Oops");
}

pub(crate) async fn restored_work_wakes_a_fetch<H: Harness>(world: World<H>) {
    let fetching = world.wait_as("w1", "q").await;
    restore(&world, "queue-001", "q", None, None).await.unwrap();
    assert_eq!(fetching.jid().await.as_deref(), Some("queue-001"));
}

pub(crate) async fn the_caps_hold_for_restored_jobs<H: Harness>(_: World<H>) {
    let world = World::<H>::with_limits(|limits| {
        limits.dead_jobs_max = 2;
        limits.queues_max = 1;
    });
    for (jid, ago) in [("dead-0001", 30), ("dead-0002", 10), ("dead-0003", 20)] {
        let died = world.now() - seconds(ago);
        restore(&world, jid, "q", Some((SetName::Dead, died)), None).await.unwrap();
    }
    assert_eq!(world.jids("dead").await, "dead-0003 dead-0002");
    let refused = restore(&world, "other-001", "other", None, None).await;
    assert!(matches!(refused, Err(StoreError::Limit(_))), "{refused:?}");
    assert_eq!(world.census().await, (0, 0, 0, 0, 2));
}
