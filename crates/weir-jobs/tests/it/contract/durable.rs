//! What survives the process.
//!
//! An ACK alone is promised only after a bounded time (its job may be served again after a crash);
//! a push that is acknowledged after it carries it along.

use weir_jobs::model::{Wid, WorkerEnd};
use weir_jobs::rules;
use weir_jobs::store::{Action, JobState, QueueAction, Selection, Store};

use super::harness::Durable;
use super::queues::{THOUSANDS, many_jids};
use super::world::{World, place, seconds};

async fn fill<H: Durable>(world: &World<H>) {
    world.push_and_fail("dead-0001", r#""retry":-1"#).await;
    world.push_and_fail("retry-001", "").await;
    world.schedule("sched-001", seconds(3_600)).await;
    world.push_to("a", "job-a-01 job-a-02 job-a-03").await;
    world.push_to("paused", "job-p-01").await;
    world.queue_action("paused", QueueAction::Pause).await;
    world.push_to("gone", "gone-0001").await;
    world.queue_action("gone", QueueAction::Remove).await;
}

pub(crate) async fn a_restart_keeps_every_state<H: Durable>(world: World<H>) {
    fill(&world).await;
    let before = world.census().await;
    let mut lists = Vec::new();
    for name in ["queue:a", "queue:paused", "scheduled", "retries", "dead"] {
        lists.push((name, world.list(&place(name)).await));
    }
    let counts = world.counts().await;
    let world = world.restart().await;
    assert_eq!(world.census().await, before);
    for (name, jobs) in lists {
        assert_eq!(world.list(&place(name)).await, jobs, "{name}");
    }
    let totals = (counts.pushed_total, counts.processed_total, counts.failed_total);
    let after = world.counts().await;
    assert_eq!((after.pushed_total, after.processed_total, after.failed_total), totals);
    assert!(world.queue("paused").await.unwrap().paused);
    assert_eq!(world.queue("gone").await, None);
    assert_eq!(world.drain("paused a").await, "job-a-01 job-a-02 job-a-03");
    world.advance(seconds(3_600)).await;
    let again = world.drain("default").await;
    assert!(again.contains("sched-001") && again.contains("retry-001"), "{again}");
}

pub(crate) async fn a_crash_puts_reserved_jobs_back_in_their_places<H: Durable>(world: World<H>) {
    world.push_to("a", "job-a-01 job-a-02 job-a-03").await;
    assert_eq!(world.fetch("a").await.as_deref(), Some("job-a-01"));
    assert_eq!(world.fetch("a").await.as_deref(), Some("job-a-02"));
    world.ack("job-a-01").await;
    world.push_to("a", "job-a-04").await;
    let world = world.crash().await;
    assert_eq!(world.census().await, (3, 0, 0, 0, 0));
    assert_eq!(world.drain("a").await, "job-a-02 job-a-03 job-a-04");
}

pub(crate) async fn a_late_ack_after_a_crash_removes_the_job<H: Durable>(world: World<H>) {
    world.push_to("a", "job-a-01 job-a-02").await;
    world.fetch("a").await;
    let world = world.crash().await;
    assert_eq!(world.found("job-a-01").await.unwrap().state, JobState::Enqueued);
    assert_eq!(world.ack("job-a-01").await, 1);
    assert_eq!(world.drain("a").await, "job-a-02");
    world.push_to("a", "job-a-03").await;
    let world = world.crash().await;
    assert_eq!(world.drain("a").await, "job-a-02 job-a-03");
}

pub(crate) async fn order_goes_on_after_a_restart<H: Durable>(world: World<H>) {
    // The clock stands still, so places in the queue can't come from it alone.
    world.push_to("a", "job-a-01 job-a-02").await;
    let world = world.restart().await;
    world.push_to("a", "job-a-03").await;
    let world = world.crash().await;
    world.push_to("a", "job-a-04").await;
    assert_eq!(world.drain("a").await, "job-a-01 job-a-02 job-a-03 job-a-04");
}

pub(crate) async fn what_was_emptied_stays_empty<H: Durable>(world: World<H>) {
    world.push_to("a", &many_jids()).await;
    world.schedule("sched-001", seconds(60)).await;
    assert_eq!(world.fetch("a").await.as_deref(), Some("job-00000"));
    let all = THOUSANDS as u64 - 1;
    assert_eq!(world.act("queue:a", Selection::All, Action::Discard).await, all);
    assert_eq!(world.act("scheduled", Selection::All, Action::Discard).await, 1);
    world.push_to("a", "job-a-01").await;
    // Most of what was cleared is still in memory.
    let world = world.crash().await;
    assert_eq!(world.census().await, (2, 0, 0, 0, 0));
    assert_eq!(world.drain("a").await, "job-00000 job-a-01");
}

pub(crate) async fn a_removed_queue_stays_away_while_its_jobs_are_in_sets<H: Durable>(
    world: World<H>,
) {
    world.push_and_fail("retry-001", "").await;
    world.queue_action("default", QueueAction::Remove).await;
    assert_eq!(world.queue("default").await, None);
    let world = world.restart().await.restart().await;
    assert_eq!(world.queue("default").await, None);
    world.advance(seconds(60)).await;
    assert_eq!(world.depth("default").await, 1, "its retry brings the queue back");
    let world = world.restart().await;
    assert_eq!(world.drain("default").await, "retry-001");
}

pub(crate) async fn a_rescheduled_job_keeps_its_time_over_a_crash<H: Durable>(world: World<H>) {
    world.schedule("sched-001", seconds(60)).await;
    world.push_and_fail("retry-001", "").await;
    let at = world.now() + seconds(7_200);
    for (place, jid) in [("scheduled", "sched-001"), ("retries", "retry-001")] {
        assert_eq!(world.act_on(place, jid, Action::Reschedule(at)).await, 1);
    }
    let world = world.crash().await;
    for jid in ["sched-001", "retry-001"] {
        assert_eq!(world.found(jid).await.unwrap().at, rules::spread(at, jid), "{jid}");
    }
    assert_eq!(world.census().await, (0, 0, 1, 1, 0));
    world.advance(seconds(7_201)).await;
    assert_eq!(world.depth("default").await, 2);
}

pub(crate) async fn kills_count_over_crashes<H: Durable>(mut world: World<H>) {
    world.push_with("job-00001", r#""custom":{"track":1}"#).await;
    for _ in 0..2 {
        // What a worker holds when the server crashes does not count.
        world.fetch("default").await;
        world = world.crash().await;
        world.fetch("default").await;
        world.store().release(&Wid::new("w1"), WorkerEnd::Killed).await.unwrap();
        assert_eq!(world.depth("default").await, 1);
        world = world.crash().await;
    }
    world.fetch("default").await;
    world.store().release(&Wid::new("w1"), WorkerEnd::Killed).await.unwrap();
    assert_eq!(world.census().await, (0, 0, 0, 0, 1));
    let world = world.crash().await;
    assert_eq!(world.census().await, (0, 0, 0, 0, 1));
}
