//! The crate's own worker loop: it runs jobs, and obeys what its heartbeat is told.

use faktory::StopReason;
use serde_json::json;

use crate::harness::{TestWorker, client, job, raw_command, unique};

/// Moves a worker to `state` as its own heartbeat would.
fn signal(wid: &str, state: &str) {
    let answer = raw_command(&format!(
        "BEAT {{\"wid\":\"{wid}\",\"current_state\":\"{state}\"}}"
    ));
    assert!(
        answer.ends_with(&format!("{{\"state\":\"{state}\"}}")),
        "{answer}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_worker_wakes_up_for_jobs_and_ends_when_told_to() {
    let queue = unique("rust");
    let mut worker = TestWorker::connect().await;
    let running = worker.start(&queue);
    let mut client = client().await;
    for n in 0..20 {
        client
            .enqueue(job(&queue, vec![json!(n)]))
            .await
            .expect("the job is accepted");
        assert_eq!(worker.next_job().await.args(), [json!(n)]);
    }
    signal(&worker.wid, "terminate");
    let details = running.await.expect("no panic");
    assert_eq!(details.reason, StopReason::ServerInstruction);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_worker_gets_no_more_jobs() {
    let queue = unique("rust");
    let (mut quiet, mut other) = (TestWorker::connect().await, TestWorker::connect().await);
    signal(&quiet.wid, "quiet");
    client()
        .await
        .enqueue(job(&queue, vec![json!("x")]))
        .await
        .expect("the job is accepted");
    assert!(!quiet.run_one(&queue).await);
    assert_eq!(other.run_echo(&queue).await.args(), [json!("x")]);
}

#[test]
fn an_unknown_worker_cannot_beat() {
    let answer = raw_command("BEAT {\"wid\":\"nobody-knows-me\"}").to_lowercase();
    assert!(
        answer.starts_with("-err") && answer.contains("unknown worker"),
        "{answer}"
    );
}
