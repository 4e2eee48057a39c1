//! What becomes of jobs that fail.

use serde_json::Value;
use weir_base::clock::Timestamp;
use weir_jobs::model::FailureReport;
use weir_jobs::store::{FailOutcome, JobState, Store, StoreError};

use super::harness::Harness;
use super::world::{World, place, report, seconds};

fn next_at(outcome: FailOutcome) -> Timestamp {
    match outcome {
        FailOutcome::Retry { next_at } => next_at,
        other => panic!("not a retry: {other:?}"),
    }
}

pub(crate) async fn a_failed_job_is_tried_again_when_its_time_comes<H: Harness>(world: World<H>) {
    world.push_with("job-00001", "").await;
    let first = world.fetch_as("w1", "default").await.unwrap();
    world.advance(seconds(1)).await;
    let failed_at = world.now();
    let next = next_at(world.fail("job-00001").await);
    assert_eq!(world.census().await, (0, 0, 0, 1, 0));
    let listed = world.list(&place("retries")).await.remove(0);
    assert_eq!((listed.at, listed.key.order), (next, next.as_micros()));
    let failure = listed.failure.unwrap();
    assert_eq!((failure.retry_count, failure.remaining), (0, 25));
    assert_eq!((failure.failed_at, failure.next_at), (failed_at, Some(next)));
    assert_eq!((&*failure.errtype, &*failure.message), ("Oops", "it broke"));

    world.advance(next.since(world.now()) - std::time::Duration::from_micros(1)).await;
    assert_eq!(world.fetch("default").await, None);
    world.advance(std::time::Duration::from_micros(1)).await;
    let again = world.fetch_as("w1", "default").await.unwrap();
    let json: Value = serde_json::from_slice(&again.json).unwrap();
    assert_eq!(json["failure"]["retry_count"], 0);
    assert_eq!(json["failure"]["backtrace"], serde_json::json!(["line 1"]));
    assert_eq!(json["enqueued_at"], weir_jobs::stamp::rfc3339(next));
    let before: Value = serde_json::from_slice(&first.json).unwrap();
    assert_eq!(json["created_at"], before["created_at"]);
}

pub(crate) async fn every_retry_waits_by_the_formula<H: Harness>(world: World<H>) {
    world.push_with("job-00001", "").await;
    for count in 0..6_u64 {
        assert_eq!(world.fetch("default").await.as_deref(), Some("job-00001"));
        let delay = next_at(world.fail("job-00001").await).since(world.now());
        let least = count.pow(4) + 15;
        let jitter = delay.checked_sub(seconds(least)).expect("never earlier").as_secs();
        assert!(
            jitter < 30 * (count + 1) && jitter.is_multiple_of(count + 1),
            "{count}: {delay:?}"
        );
        let failure = world.found("job-00001").await.unwrap().failure.unwrap();
        assert_eq!(
            (u64::from(failure.retry_count), u64::from(failure.remaining)),
            (count, 25 - count)
        );
        world.advance(delay).await;
    }
}

pub(crate) async fn a_job_dies_when_its_retries_are_used_up<H: Harness>(world: World<H>) {
    let first = world.push_and_fail("job-00001", r#""retry":1"#).await;
    world.advance(next_at(first).since(world.now())).await;
    assert_eq!(world.fetch("default").await.as_deref(), Some("job-00001"));
    assert_eq!(world.fail("job-00001").await, FailOutcome::Dead);
    assert_eq!(world.census().await, (0, 0, 0, 0, 1));
    let dead = world.list(&place("dead")).await.remove(0);
    assert_eq!(dead.at, world.now());
    let failure = dead.failure.unwrap();
    assert_eq!((failure.retry_count, failure.remaining, failure.next_at), (1, 0, None));
}

pub(crate) async fn retry_0_throws_the_job_away<H: Harness>(world: World<H>) {
    assert_eq!(world.push_and_fail("job-00001", r#""retry":0"#).await, FailOutcome::Discarded);
    assert_eq!(world.census().await, (0, 0, 0, 0, 0));
    assert_eq!(world.found("job-00001").await, None);
}

pub(crate) async fn a_negative_retry_goes_straight_to_the_dead<H: Harness>(world: World<H>) {
    for (jid, retry) in [("job-00001", "-1"), ("job-00002", "-5")] {
        let outcome = world.push_and_fail(jid, &format!(r#""retry":{retry}"#)).await;
        assert_eq!(outcome, FailOutcome::Dead);
    }
    assert_eq!(world.census().await, (0, 0, 0, 0, 2));
}

pub(crate) async fn a_report_is_cut_to_what_the_protocol_keeps<H: Harness>(world: World<H>) {
    world.push_with("job-00001", "").await;
    world.push_with("job-00002", r#""backtrace":2"#).await;
    for (jid, lines) in [("job-00001", 50), ("job-00002", 2)] {
        assert_eq!(world.fetch("default").await.as_deref(), Some(jid));
        let long = FailureReport {
            errtype: "é".repeat(200),
            message: "é".repeat(2_000),
            backtrace: vec!["line".to_owned(); 60],
            ..report(jid)
        };
        world.store().fail(long).await.unwrap();
        let failure = world.found(jid).await.unwrap().failure.unwrap();
        assert_eq!(failure.errtype, "é".repeat(100));
        assert_eq!(failure.message, "é".repeat(1_000));
        assert_eq!(failure.backtrace.len(), lines);
    }
}

pub(crate) async fn only_a_reserved_job_can_fail<H: Harness>(world: World<H>) {
    world.push_with("job-00001", "").await;
    for jid in ["job-00001", "unknown-1"] {
        let error = world.store().fail(report(jid)).await.unwrap_err();
        assert_eq!(error, StoreError::NotFound(Box::from(jid)));
        assert_eq!(error.to_string(), format!("Job not found {jid}"));
    }
    assert_eq!(world.found("job-00001").await.unwrap().state, JobState::Enqueued);
    assert_eq!(world.counts().await.failed_total, 0);
}
