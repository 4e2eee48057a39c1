//! What the server says about itself, and who it lets in.

use faktory::{Client, Error};
use serde_json::json;

use crate::harness::{TestWorker, client, job, password_url, unique};

#[tokio::test(flavor = "multi_thread")]
async fn info_is_read_by_the_strict_parser_of_this_client() {
    let queue = unique("rust");
    let mut client = client().await;
    client
        .enqueue(job(&queue, vec![json!(1)]))
        .await
        .expect("the job is accepted");
    let state = client.current_info().await.expect("INFO parses");
    assert_eq!(state.data.queues.get(&queue), Some(&1));
    assert!(
        state.data.total_enqueued >= 1 && state.server.connections >= 1,
        "{state:?}"
    );
    assert!(state.server.version.major >= 1, "{state:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_queue_hands_out_nothing_until_it_is_resumed() {
    let (queue, mut worker) = (unique("rust"), TestWorker::connect().await);
    let mut client = client().await;
    client
        .enqueue(job(&queue, vec![json!("waits")]))
        .await
        .expect("the job is accepted");
    client.queue_pause(&[&queue]).await.expect("paused");
    assert!(!worker.run_one(&queue).await);
    client.queue_resume(&[&queue]).await.expect("resumed");
    assert_eq!(worker.run_echo(&queue).await.args(), [json!("waits")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_queue_has_lost_its_jobs() {
    let (queue, mut worker) = (unique("rust"), TestWorker::connect().await);
    let mut client = client().await;
    client
        .enqueue(job(&queue, vec![json!("gone")]))
        .await
        .expect("the job is accepted");
    client.queue_remove(&[&queue]).await.expect("removed");
    assert!(!worker.run_one(&queue).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_right_password_is_let_in_and_a_wrong_one_is_not() {
    let url = password_url();
    let mut client = Client::connect_to(&url)
        .await
        .expect("the password is right");
    client.current_info().await.expect("an answer");
    let refused = Client::connect_to(&url.replace('@', "x@")).await;
    assert!(
        matches!(refused, Err(Error::Connect(_) | Error::Protocol(_))),
        "let in"
    );
}
