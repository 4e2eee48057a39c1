//! Jobs go in and come out unchanged.

use chrono::{TimeDelta, Utc};
use faktory::{Job, JobId};
use serde_json::{Value, json};

use crate::harness::{TestWorker, assert_unless_original, client, job, unique};

#[tokio::test(flavor = "multi_thread")]
async fn a_pushed_job_is_run_once() {
    let (queue, mut worker) = (unique("rust"), TestWorker::connect().await);
    let args = vec![json!(1), json!("two"), json!([3]), json!({ "four": null })];
    let pushed = job(&queue, args.clone());
    let jid = pushed.id().clone();
    client()
        .await
        .enqueue(pushed)
        .await
        .expect("the job is accepted");
    let ran = worker.run_echo(&queue).await;
    assert_eq!((ran.id(), ran.args()), (&jid, args.as_slice()));
    assert!(
        ran.created_at.is_some() && ran.enqueued_at.is_some(),
        "{ran:?}"
    );
    assert!(!worker.run_one(&queue).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_data_and_reservation_time_are_kept() {
    let (queue, mut worker) = (unique("rust"), TestWorker::connect().await);
    let pushed = Job::builder("echo")
        .queue(&queue)
        .args(["x"])
        .reserve_for(std::time::Duration::from_secs(77))
        .add_to_custom_data("tenant", 7)
        .build();
    client()
        .await
        .enqueue(pushed)
        .await
        .expect("the job is accepted");
    let ran = worker.run_echo(&queue).await;
    assert_eq!(ran.custom.get("tenant"), Some(&json!(7)));
    assert_eq!(ran.reserve_for, Some(std::time::Duration::from_secs(77)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_push_takes_the_good_jobs_and_names_the_bad_one() {
    let (queue, mut worker) = (unique("rust"), TestWorker::connect().await);
    let mut jobs: Vec<Job> = (0..50).map(|n| job(&queue, vec![json!(n)])).collect();
    let short = JobId::new("short");
    jobs.push(
        Job::builder("echo")
            .jid(short)
            .queue(&queue)
            .args(["x"])
            .build(),
    );
    let (accepted, errors) = client().await.enqueue_many(jobs).await.expect("an answer");
    let errors = errors.expect("one job is refused");
    assert_eq!((accepted, errors.len()), (50, 1));
    assert!(errors["short"].contains("jid"), "{errors:?}");
    for n in 0..50 {
        assert_eq!(worker.run_echo(&queue).await.args(), [json!(n)]);
    }
    assert!(!worker.run_one(&queue).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn unicode_and_a_megabyte_come_back_unchanged() {
    let (queue, mut worker) = (unique("rust"), TestWorker::connect().await);
    let texts = [
        "Ünïcödé 日本語 🦀 \0 \t \"quoted\" \\ \u{2028}".to_owned(),
        "0123456789abcdef".repeat(65_536),
    ];
    let mut client = client().await;
    for text in texts {
        client
            .enqueue(job(&queue, vec![json!(text)]))
            .await
            .expect("the job is accepted");
        assert!(
            worker.run_echo(&queue).await.args() == [json!(text)],
            "{} bytes differ",
            text.len()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn integers_above_two_to_the_53_come_back_exactly() {
    let (queue, mut worker) = (unique("rust"), TestWorker::connect().await);
    let numbers = [109_326_485_893_512_345_u64, (1 << 53) + 1, u64::MAX].map(Value::from);
    let pushed = job(&queue, numbers.to_vec());
    client()
        .await
        .enqueue(pushed)
        .await
        .expect("the job is accepted");
    let exact = worker.run_echo(&queue).await.args() == numbers;
    assert_unless_original(exact, "integers above 2^53 are exact");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_priority_of_a_job_is_kept() {
    let (queue, mut worker) = (unique("rust"), TestWorker::connect().await);
    let pushed = Job::builder("echo")
        .queue(&queue)
        .args(["x"])
        .priority(9)
        .build();
    client()
        .await
        .enqueue(pushed)
        .await
        .expect("the job is accepted");
    let priority = worker.run_echo(&queue).await.priority;
    assert_unless_original(priority == Some(9), "a field outside the protocol is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduled_job_runs_when_it_is_due_and_not_before() {
    let (queue, mut worker) = (unique("rust"), TestWorker::connect().await);
    let due = Utc::now() + TimeDelta::seconds(3);
    let pushed = Job::builder("echo")
        .queue(&queue)
        .args(["later"])
        .at(due)
        .build();
    client()
        .await
        .enqueue(pushed)
        .await
        .expect("the job is accepted");
    let ran = worker.wait_and_run_echo(&queue).await;
    assert!(Utc::now() >= due);
    assert_eq!(ran.args(), [json!("later")]);
}
