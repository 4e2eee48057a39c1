//! Many jobs fetched, acknowledged and failed together: each as if it were alone.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_jobs::allocation::{Allocation, QueueAllocation};
use weir_jobs::model::{Delivery, Wid};
use weir_jobs::store::{BatchSize, FailOutcome, FetchRequest, QueueAction, Store, StoreError};

use super::harness::{Durable, Harness};
use super::world::{LONG, World, queue_name, queue_names, report, seconds};

/// What is there now for `w1`; the jids.
async fn fetch<H: Harness>(world: &World<H>, queues: &str, max: BatchSize) -> String {
    jids(&fetch_within(world, queues, max, Duration::ZERO).await)
}

async fn fetch_within<H: Harness>(
    world: &World<H>,
    queues: &str,
    max: BatchSize,
    wait: Duration,
) -> Vec<Delivery> {
    let (wid, queues) = (Wid::new("w1"), queue_names(queues));
    let request = FetchRequest { wid: Some(&wid), queues: &queues, max, wait };
    world.store().fetch(request).await.unwrap()
}

fn jids(jobs: &[Delivery]) -> String {
    jobs.iter().map(|job| &*job.jid).collect::<Vec<_>>().join(" ")
}

pub(crate) async fn one_fetch_takes_up_to_its_maximum<H: Harness>(world: World<H>) {
    world.push_to("a", "job-a-01 job-a-02 job-a-03").await;
    world.push_to("b", "job-b-01").await;
    assert_eq!(fetch(&world, "b a", BatchSize::of(3)).await, "job-b-01 job-a-01 job-a-02");
    assert_eq!(fetch(&world, "b a", BatchSize::of(3)).await, "job-a-03");
    assert_eq!(fetch(&world, "b a", BatchSize::of(3)).await, "");
    assert_eq!(world.store().busy(&Wid::new("w1")), 4);
}

pub(crate) async fn a_fetch_takes_no_job_after_so_many_bytes<H: Harness>(world: World<H>) {
    world.push_to("a", "job-a-01 job-a-02 job-a-03 job-a-04").await;
    let bytes = world.fetch_as("w1", "a").await.unwrap().json.len();
    let max = |bytes| BatchSize { jobs: 10, bytes };
    assert_eq!(fetch(&world, "a", max(1)).await, "job-a-02", "the first one always");
    assert_eq!(fetch(&world, "a", max(bytes + 1)).await, "job-a-03 job-a-04");
}

pub(crate) async fn each_job_of_a_batch_keeps_to_the_rules<H: Harness>(world: World<H>) {
    let capped = QueueAllocation { concurrency: Some(2), ..QueueAllocation::default() };
    let target_latency = Some(seconds(5));
    let fresh = QueueAllocation { fresh_lane: true, target_latency, ..QueueAllocation::default() };
    let queues = [(queue_name("capped"), capped), (queue_name("fresh"), fresh)];
    world.store().allocate(Allocation { queues: BTreeMap::from(queues), ..Allocation::default() });
    world.push_to("capped", "capped-01 capped-02 capped-03").await;
    world.push_to("fresh", "fresh-01").await;
    world.push_to("paused", "paused-01").await;
    world.queue_action("paused", QueueAction::Pause).await;
    world.advance(seconds(6)).await;
    world.push_to("fresh", "fresh-02 fresh-03 fresh-04 fresh-05 fresh-06").await;
    let batch = fetch(&world, "paused capped fresh", BatchSize::of(10)).await;
    let fresh = "fresh-06 fresh-05 fresh-04 fresh-03 fresh-01 fresh-02";
    assert_eq!(batch, format!("capped-01 capped-02 {fresh}"));
    assert_eq!(world.census().await, (2, 8, 0, 0, 0));
    world.ack("capped-02").await;
    assert_eq!(fetch(&world, "capped", BatchSize::of(10)).await, "capped-03");
}

pub(crate) async fn a_waiting_batch_takes_what_comes_together<H: Harness>(world: World<H>) {
    world.push_to("a", "job-a-01 job-a-02 job-a-03").await;
    world.queue_action("a", QueueAction::Pause).await;
    let (fetched, _) = tokio::join!(fetch_within(&world, "a", BatchSize::of(2), LONG), async {
        while world.counts().await.fetches_waiting == 0 {
            tokio::task::yield_now().await;
        }
        world.queue_action("a", QueueAction::Resume).await
    });
    assert_eq!(jids(&fetched), "job-a-01 job-a-02");
    assert_eq!(world.depth("a").await, 1);
}

pub(crate) async fn a_batch_that_was_not_taken_goes_back_in_order<H: Harness>(world: World<H>) {
    world.push_to("a", "job-a-01 job-a-02 job-a-03").await;
    world.queue_action("a", QueueAction::Pause).await;
    {
        let fetching = fetch_within(&world, "a", BatchSize::of(3), LONG);
        let mut fetching = std::pin::pin!(fetching);
        // A store on another machine asks more than once before the fetch waits.
        for _ in 0..10 {
            assert!(is_pending(fetching.as_mut()).await);
            assert_eq!(world.census().await, (3, 0, 0, 0, 0));
        }
        world.queue_action("a", QueueAction::Resume).await;
        assert_eq!(world.store().busy(&Wid::new("w1")), 3);
    }
    assert_eq!(world.store().busy(&Wid::new("w1")), 0);
    assert_eq!(world.drain("a").await, "job-a-01 job-a-02 job-a-03");
}

async fn is_pending<F: Future>(mut future: std::pin::Pin<&mut F>) -> bool {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(future.as_mut().poll(context).is_pending())
    })
    .await
}

pub(crate) async fn an_ack_says_which_jids_it_did_not_know<H: Harness>(world: World<H>) {
    world.push_to("a", "job-a-01 job-a-02 twin-0001 twin-0001").await;
    fetch(&world, "a", BatchSize::of(10)).await;
    let jids = ["job-a-01", "unknown-1", "twin-0001", "job-a-01", "twin-0001", "twin-0001"];
    assert_eq!(world.store().ack(&jids).await, Ok(vec![1, 3, 5]));
    assert_eq!(world.store().ack(&[]).await, Ok(vec![]));
    assert_eq!(world.census().await, (0, 1, 0, 0, 0));
    assert_eq!(world.counts().await.processed_total, 3);
}

pub(crate) async fn each_job_of_a_batch_fails_by_its_own_rules<H: Harness>(world: World<H>) {
    for (jid, retry) in [("retry-001", 3), ("gone-0001", 0), ("dead-0001", -1)] {
        world.push_with(jid, &format!(r#""retry":{retry}"#)).await;
    }
    world.push_to("default", "waiting-1").await;
    fetch(&world, "default", BatchSize::of(3)).await;
    let jids = ["retry-001", "waiting-1", "gone-0001", "dead-0001", "dead-0001"];
    let outcomes = world.store().fail_all(jids.map(report).to_vec()).await;
    let not_found = |jid: &str| Err(StoreError::NotFound(jid.into()));
    assert!(matches!(outcomes[0], Ok(FailOutcome::Retry { .. })), "{outcomes:?}");
    assert_eq!(outcomes[1], not_found("waiting-1"));
    assert_eq!(outcomes[2..4], [Ok(FailOutcome::Discarded), Ok(FailOutcome::Dead)]);
    assert_eq!(outcomes[4..], [not_found("dead-0001")]);
    assert_eq!(world.census().await, (1, 0, 0, 1, 1));
    assert_eq!(world.store().fail_all(Vec::new()).await, []);
}

pub(crate) async fn after_a_crash_what_a_batch_did_not_acknowledge_is_back<H: Durable>(
    world: World<H>,
) {
    world.push_to("a", "job-a-01 job-a-02 job-a-03 job-a-04").await;
    fetch(&world, "a", BatchSize::of(3)).await;
    assert_eq!(world.store().ack(&["job-a-01", "job-a-03"]).await, Ok(vec![]));
    world.push_to("a", "job-a-05").await;
    let world = world.crash().await;
    assert_eq!(world.census().await, (3, 0, 0, 0, 0));
    assert_eq!(fetch(&world, "a", BatchSize::of(9)).await, "job-a-02 job-a-04 job-a-05");
}
