//! The counters, and the ends: flush and close.

use weir_jobs::store::{Action, Counts, Selection, Store, StoreError};

use super::harness::Harness;
use super::world::{World, job_with, report, seconds};

pub(crate) async fn counts_follow_a_job_through_its_life<H: Harness>(world: World<H>) {
    let totals =
        |counts: Counts| (counts.pushed_total, counts.processed_total, counts.failed_total);
    world.push_to("a", "job-a-01 job-a-02").await;
    world.push_to("b", "job-b-01").await;
    world.schedule("job-00001", seconds(5)).await;
    assert_eq!(world.census().await, (3, 0, 1, 0, 0));
    assert_eq!(totals(world.counts().await), (4, 0, 0));
    assert_eq!(world.queue("a").await.unwrap().oldest, Some(world.now()));

    world.drain("a").await;
    assert_eq!(world.census().await, (1, 2, 1, 0, 0));
    let queue = world.queue("a").await.unwrap();
    assert_eq!((queue.depth, queue.reserved, queue.oldest), (0, 2, None));

    world.ack("job-a-01").await;
    world.fail("job-a-02").await;
    assert_eq!(world.census().await, (1, 0, 1, 1, 0));
    assert_eq!(totals(world.counts().await), (4, 2, 1));
    let queue = world.queue("a").await.unwrap();
    assert_eq!((queue.pushed_total, queue.processed_total, queue.failed_total), (2, 2, 1));

    world.act("retries", Selection::All, Action::Kill).await;
    world.advance(seconds(5)).await;
    assert_eq!(world.census().await, (2, 0, 0, 0, 1));
    world.act("dead", Selection::All, Action::Discard).await;
    assert_eq!(world.drain("b default").await, "job-b-01 job-00001");
    assert_eq!(world.store().ack(&["job-b-01", "job-00001"]).await, Ok(vec![]));
    assert_eq!(world.census().await, (0, 0, 0, 0, 0));
    assert_eq!(totals(world.counts().await), (4, 4, 1), "an operator's action is no processing");
}

pub(crate) async fn flush_forgets_everything<H: Harness>(world: World<H>) {
    world.push_to("a", "job-a-01 job-a-02").await;
    world.fetch("a").await;
    world.schedule("job-00001", seconds(5)).await;
    world.push_and_fail("job-00002", "").await;
    world.push_and_fail("job-00003", r#""retry":-1"#).await;
    world.store().flush().await.unwrap();
    assert_eq!(world.counts().await, Counts::default());
    assert_eq!(world.census().await, (0, 0, 0, 0, 0));
    assert_eq!(world.ack("job-a-01").await, 0);
    assert_eq!(world.found("job-00001").await, None);
    world.push_to("a", "job-a-03").await;
    assert_eq!(world.drain("a default").await, "job-a-03");
    world.advance(seconds(1_000_000)).await;
    assert_eq!(world.jids("retries").await, "job-a-03", "nothing old comes back with time");
}

pub(crate) async fn after_closing_nothing_is_taken<H: Harness>(world: World<H>) {
    world.push_to("a", "job-a-01 job-a-02").await;
    world.fetch("a").await;
    world.store().close().await.unwrap();
    let closed = StoreError::Closed;
    assert_eq!(world.push_json(&job_with("job-a-03", "")).await.unwrap_err(), closed);
    assert_eq!(world.store().fail(report("job-a-01")).await.unwrap_err(), closed);
    assert_eq!(world.store().ack(&["job-a-01"]).await.unwrap_err(), closed);
}
