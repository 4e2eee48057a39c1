//! FETCHes that wait for work.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_jobs::allocation::{Allocation, QueueAllocation};
use weir_jobs::model::{Wid, WorkerEnd};
use weir_jobs::store::{Action, BatchSize, FetchRequest, QueueAction, Store, StoreError};

use super::harness::Harness;
use super::world::{World, queue_name, queue_names, seconds};

pub(crate) async fn a_fetch_wakes_when_work_arrives<H: Harness>(world: World<H>) {
    let fetching = world.wait_as("w1", "a").await;
    assert_eq!(world.counts().await.fetches_waiting, 1);
    world.push_to("b", "job-b-01").await;
    assert!(fetching.is_waiting());
    world.push_to("a", "job-a-01").await;
    assert_eq!(fetching.jid().await.as_deref(), Some("job-a-01"));
    assert_eq!(world.counts().await.fetches_waiting, 0);
    assert_eq!(world.store().busy(&Wid::new("w1")), 1);
}

pub(crate) async fn who_waited_longest_is_served_first<H: Harness>(world: World<H>) {
    let first = world.wait_as("w1", "b a").await;
    let second = world.wait_as("w2", "a").await;
    let third = world.wait_as("w3", "a b").await;
    world.push_to("a", "job-a-01 job-a-02 job-a-03").await;
    assert_eq!(first.jid().await.as_deref(), Some("job-a-01"));
    assert_eq!(second.jid().await.as_deref(), Some("job-a-02"));
    assert_eq!(third.jid().await.as_deref(), Some("job-a-03"));
}

pub(crate) async fn one_job_wakes_one_fetch<H: Harness>(world: World<H>) {
    let first = world.wait_as("w1", "a").await;
    let second = world.wait_as("w2", "a").await;
    world.push_to("a", "job-a-01").await;
    assert_eq!(first.jid().await.as_deref(), Some("job-a-01"));
    assert!(second.is_waiting());
    assert_eq!(world.census().await, (0, 1, 0, 0, 0));
    second.hang_up().await;
}

pub(crate) async fn a_fetch_waits_for_all_its_queues<H: Harness>(world: World<H>) {
    for queue in ["a", "b", "c"] {
        let fetching = world.wait_as("w1", "a b c").await;
        let jid = format!("job-{queue}-01");
        world.push_to(queue, &jid).await;
        assert_eq!(fetching.jid().await, Some(jid));
    }
}

pub(crate) async fn a_dropped_fetch_loses_nothing<H: Harness>(world: World<H>) {
    let fetching = world.wait_as("w1", "a").await;
    fetching.hang_up().await;
    assert_eq!(world.counts().await.fetches_waiting, 0);
    world.push_to("a", "job-a-01").await;
    assert_eq!(world.census().await, (1, 0, 0, 0, 0));
}

pub(crate) async fn work_that_was_handed_over_and_not_taken_goes_back_to_its_place<H: Harness>(
    world: World<H>,
) {
    let fetching = world.stuck_fetch("w1", "a").await;
    world.push_to("a", "job-a-01 job-a-02").await;
    assert_eq!(world.store().busy(&Wid::new("w1")), 1);
    drop(fetching);
    assert_eq!(world.store().busy(&Wid::new("w1")), 0);
    assert_eq!(world.census().await, (2, 0, 0, 0, 0));
    assert_eq!(world.drain("a").await, "job-a-01 job-a-02");
}

pub(crate) async fn work_that_was_not_taken_goes_to_the_next_in_line<H: Harness>(world: World<H>) {
    let first = world.stuck_fetch("w1", "a").await;
    let second = world.wait_as("w2", "a").await;
    world.push_to("a", "job-a-01").await;
    assert!(second.is_waiting());
    drop(first);
    assert_eq!(second.jid().await.as_deref(), Some("job-a-01"));
    assert_eq!(world.store().busy(&Wid::new("w2")), 1);
    assert_eq!(world.census().await, (0, 1, 0, 0, 0));
}

/// A store may give the number of a job that has ended to the next one: many rounds, so that
/// numbers and hashes meet.
pub(crate) async fn a_job_that_ended_in_a_dropped_fetchs_hands_stays_ended<H: Harness>(
    world: World<H>,
) {
    for round in 0..1_000 {
        let (ended, running) = (format!("ended-{round:05}"), format!("running-{round:05}"));
        let first = world.stuck_fetch("w1", "a").await;
        world.push_with(&ended, r#""queue":"a","retry":0"#).await;
        world.fail(&ended).await;
        let second = world.stuck_fetch("w2", "b").await;
        world.push_to("b", &running).await;
        drop(first);
        assert_eq!(world.store().busy(&Wid::new("w2")), 1, "round {round}");
        assert_eq!(world.depth("b").await, 0, "round {round}");
        drop(second);
        assert_eq!(world.drain("b").await, running);
        world.ack(&running).await;
    }
    assert_eq!(world.census().await, (0, 0, 0, 0, 0));
}

pub(crate) async fn what_another_worker_holds_by_now_is_not_given_back<H: Harness>(
    world: World<H>,
) {
    let fetching = world.stuck_fetch("w1", "a").await;
    world.push_to("a", "job-a-01").await;
    world.store().release(&Wid::new("w1"), WorkerEnd::Killed).await.unwrap();
    world.advance(seconds(1)).await;
    assert!(world.fetch_as("w2", "a").await.is_some());
    drop(fetching);
    assert_eq!(world.census().await, (0, 1, 0, 0, 0));
    assert_eq!(world.store().busy(&Wid::new("w2")), 1);
}

pub(crate) async fn a_fetch_that_waits_in_vain_comes_back_empty<H: Harness>(world: World<H>) {
    let (wid, queues) = (Wid::new("w1"), queue_names("a b"));
    let wait = Duration::from_millis(5);
    let request = FetchRequest { wid: Some(&wid), queues: &queues, max: BatchSize::ONE, wait };
    assert_eq!(world.store().fetch(request).await, Ok(vec![]));
    assert_eq!(world.counts().await.fetches_waiting, 0);
}

pub(crate) async fn while_all_is_paused_a_fetch_waits<H: Harness>(world: World<H>) {
    world.push_to("a", "job-a-01 job-a-02").await;
    world.queue_action("a", QueueAction::Pause).await;
    let fetching = world.wait_as("w1", "a").await;
    world.push_to("a", "job-a-03").await;
    assert!(fetching.is_waiting());
    world.queue_action("a", QueueAction::Resume).await;
    assert_eq!(fetching.jid().await.as_deref(), Some("job-a-01"));
    assert_eq!(world.depth("a").await, 2);
}

pub(crate) async fn a_fetch_wakes_for_everything_that_brings_work<H: Harness>(world: World<H>) {
    world.schedule("sched-001", seconds(5)).await;
    let fetching = world.wait_as("w1", "default").await;
    world.advance(seconds(5)).await;
    assert_eq!(fetching.jid().await.as_deref(), Some("sched-001"), "a due job");

    world.fail("sched-001").await;
    let fetching = world.wait_as("w1", "default").await;
    world.advance(seconds(60)).await;
    assert_eq!(fetching.jid().await.as_deref(), Some("sched-001"), "a retry");

    let fetching = world.wait_as("w2", "default").await;
    assert_eq!(world.store().release(&Wid::new("w1"), WorkerEnd::Killed).await, Ok(1));
    assert_eq!(fetching.jid().await.as_deref(), Some("sched-001"), "a vanished worker's job");

    world.fail("sched-001").await;
    let fetching = world.wait_as("w1", "default").await;
    world.act_on("retries", "sched-001", Action::Requeue).await;
    assert_eq!(fetching.jid().await.as_deref(), Some("sched-001"), "an operator's requeue");

    cap(&world, 1);
    world.push_to("default", "job-00002 job-00003").await;
    let fetching = world.wait_as("w1", "default").await;
    assert!(fetching.is_waiting(), "the cap holds");
    world.ack("sched-001").await;
    assert_eq!(fetching.jid().await.as_deref(), Some("job-00002"), "a free slot");
    let fetching = world.wait_as("w1", "default").await;
    cap(&world, 2);
    assert_eq!(fetching.jid().await.as_deref(), Some("job-00003"), "a raised cap");
}

pub(crate) async fn a_fetch_wakes_when_a_lapsed_reservation_frees_a_slot<H: Harness>(
    world: World<H>,
) {
    cap(&world, 1);
    world.push_with("job-00001", r#""reserve_for":60"#).await;
    world.push_with("job-00002", r#""reserve_for":60"#).await;
    assert!(world.fetch("default").await.is_some());
    let fetching = world.wait_as("w2", "default").await;
    assert!(fetching.is_waiting(), "the cap holds");
    world.advance(seconds(60)).await;
    assert_eq!(world.counts().await.fetches_waiting, 0);
    assert_eq!(fetching.jid().await.as_deref(), Some("job-00002"));
}

fn cap<H: Harness>(world: &World<H>, concurrency: u32) {
    let rules = QueueAllocation { concurrency: Some(concurrency), ..QueueAllocation::default() };
    let queues = BTreeMap::from([(queue_name("default"), rules)]);
    world.store().allocate(Allocation { queues, ..Allocation::default() });
}

pub(crate) async fn only_so_many_fetches_wait<H: Harness>(_: World<H>) {
    let world = World::<H>::with_limits(|limits| limits.waiting_fetches_max = 1);
    let fetching = world.wait_as("w1", "a").await;
    let (wid, queues) = (Wid::new("w2"), queue_names("a"));
    let wait = seconds(600);
    let request = FetchRequest { wid: Some(&wid), queues: &queues, max: BatchSize::ONE, wait };
    let refused = world.store().fetch(request).await;
    let is_named = |text: &str| text.contains("jobs.limits.waiting_fetches_max");
    assert!(matches!(&refused, Err(StoreError::Limit(text)) if is_named(text)), "{refused:?}");
    fetching.hang_up().await;
    let fetching = world.wait_as("w2", "a").await;
    assert!(fetching.is_waiting());
    fetching.hang_up().await;
}

pub(crate) async fn closing_ends_every_wait<H: Harness>(world: World<H>) {
    let first = world.wait_as("w1", "a").await;
    let second = world.wait_as("w2", "b").await;
    world.store().close().await.unwrap();
    assert_eq!(first.jid().await, None);
    assert_eq!(second.jid().await, None);
}
