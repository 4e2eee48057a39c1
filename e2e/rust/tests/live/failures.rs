//! What becomes of jobs that fail, and the mutations that move them.

use chrono::{TimeDelta, Utc};
use faktory::Job;
use faktory::mutate::{Filter, JobSet};
use serde_json::json;

use crate::harness::{TestWorker, client, job, raw_command, raw_worker_command, unique};

/// A job that fails when it runs.
fn failing(queue: &str, retry: isize) -> Job {
    Job::builder("boom")
        .queue(queue)
        .args(["x"])
        .retry(retry)
        .build()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_job_waits_in_the_retry_set_and_comes_back_with_its_error() {
    let (queue, mut worker) = (unique("rust"), TestWorker::connect().await);
    let mut client = client().await;
    let pushed = failing(&queue, 2);
    let jid = pushed.id().clone();
    client.enqueue(pushed).await.expect("the job is accepted");
    assert!(worker.run_one(&queue).await);
    assert!(!worker.run_one(&queue).await, "a failed job must wait");
    client
        .requeue_by_ids(JobSet::Retries, &[&jid])
        .await
        .expect("requeued");
    let fetched = raw_fetch(&queue);
    assert!(
        fetched.contains("boom: ünïcödé") && fetched.contains("\"retry_count\":0"),
        "{fetched}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_minus_one_is_dead_and_retry_zero_is_thrown_away() {
    let (queue, mut worker) = (unique("rust"), TestWorker::connect().await);
    let mut client = client().await;
    let (dead, gone) = (failing(&queue, -1), failing(&queue, 0));
    let (dead_jid, gone_jid) = (dead.id().clone(), gone.id().clone());
    for pushed in [dead, gone] {
        client.enqueue(pushed).await.expect("the job is accepted");
        assert!(worker.run_one(&queue).await);
    }
    let both = [&dead_jid, &gone_jid];
    client
        .requeue_by_ids(JobSet::Retries, &both)
        .await
        .expect("nothing to requeue");
    assert!(!worker.run_one(&queue).await);
    client
        .requeue_by_ids(JobSet::Dead, &both)
        .await
        .expect("one to requeue");
    assert_fetches(&queue, &format!("\"jid\":\"{}\"", dead_jid.as_str()));
    assert!(!worker.run_one(&queue).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn mutations_select_by_kind_and_pattern() {
    let (queue, kind) = (unique("rust"), unique("kind"));
    let mut client = client().await;
    let at = Utc::now() + TimeDelta::hours(1);
    let names = ["a", "b", "c"];
    let jobs = names.map(|n| Job::builder(&*kind).queue(&queue).args([n]).at(at).build());
    let jids = jobs.clone().map(|job| job.id().clone());
    client.enqueue_many(jobs).await.expect("all accepted");
    let pattern = format!("*{}*", jids[1].as_str());
    client
        .discard(JobSet::Scheduled, Filter::from_pattern(&pattern))
        .await
        .expect("b is gone");
    client
        .kill(JobSet::Scheduled, Filter::from_kind(&kind))
        .await
        .expect("a, c are dead");
    client
        .requeue(JobSet::Dead, Filter::from_kind(&kind))
        .await
        .expect("a, c are back");
    let (one, other) = (raw_fetch(&queue), raw_fetch(&queue));
    let both = format!("{one}{other}");
    assert!(
        both.contains(jids[0].as_str()) && both.contains(jids[2].as_str()),
        "{both}"
    );
    assert!(raw_fetch(&queue).starts_with("$-1"), "b came back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_an_unknown_kind_is_failed_by_the_worker() {
    let (queue, mut worker) = (unique("rust"), TestWorker::connect().await);
    let mut client = client().await;
    let pushed = Job::builder("nobody-runs-this")
        .queue(&queue)
        .args(["x"])
        .retry(-1)
        .build();
    let jid = pushed.id().clone();
    client.enqueue(pushed).await.expect("the job is accepted");
    assert!(worker.run_one(&queue).await);
    client
        .enqueue(job(&queue, vec![json!("next")]))
        .await
        .expect("the job is accepted");
    assert_eq!(worker.run_echo(&queue).await.args(), [json!("next")]);
    client
        .requeue_by_ids(JobSet::Dead, &[&jid])
        .await
        .expect("requeued");
    assert_fetches(&queue, jid.as_str());
}

/// Fetches a job without running it: the crate's worker shows a job only to its handler.
fn raw_fetch(queue: &str) -> String {
    raw_worker_command(&unique("wid"), &format!("FETCH {queue}"))
}

fn assert_fetches(queue: &str, text: &str) {
    let fetched = raw_fetch(queue);
    assert!(fetched.contains(text), "{fetched} without {text}");
}

#[test]
fn a_retry_count_of_zero_is_not_mistaken_for_the_default() {
    let (queue, jid) = (unique("rust"), unique("jid"));
    let push = format!(
        "PUSH {{\"jid\":\"{jid}\",\"jobtype\":\"x\",\"args\":[],\"queue\":\"{queue}\",\"retry\":0}}"
    );
    assert_eq!(raw_command(&push), "+OK");
    assert_fetches(&queue, "\"retry\":0");
}
