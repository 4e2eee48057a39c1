//! The dead set and the ways into and out of it.

use std::time::Duration;

use weir_jobs::store::{Action, JobState, Selection};

use super::harness::Harness;
use super::world::{World, seconds};

async fn kill<H: Harness>(world: &World<H>, jids: &str) {
    for jid in jids.split_whitespace() {
        world.push_and_fail(jid, r#""retry":-1"#).await;
        world.advance(seconds(1)).await;
    }
}

pub(crate) async fn the_dead_set_has_a_size<H: Harness>(_: World<H>) {
    let world = World::<H>::with_limits(|limits| limits.dead_jobs_max = 2);
    kill(&world, "job-00001 job-00002 job-00003").await;
    assert_eq!(world.jids("dead").await, "job-00002 job-00003", "the oldest goes first");
    world.push_to("default", "job-00004").await;
    assert_eq!(world.act_on("queue:default", "job-00004", Action::Kill).await, 1);
    assert_eq!(world.jids("dead").await, "job-00003 job-00004");
    assert_eq!(world.census().await, (0, 0, 0, 0, 2));
}

pub(crate) async fn the_dead_are_forgotten_with_age<H: Harness>(_: World<H>) {
    let world = World::<H>::with_limits(|limits| limits.dead_age_max = seconds(3_600));
    kill(&world, "job-00001 job-00002").await;
    world.advance(seconds(3_598) - Duration::from_micros(1)).await;
    assert_eq!(world.jids("dead").await, "job-00001 job-00002");
    world.advance(Duration::from_micros(1)).await;
    assert_eq!(world.jids("dead").await, "job-00002");
    world.advance(seconds(1)).await;
    assert_eq!(world.census().await, (0, 0, 0, 0, 0));
}

pub(crate) async fn the_dead_can_be_brought_back<H: Harness>(world: World<H>) {
    kill(&world, "job-00001 job-00002").await;
    assert_eq!(world.act_on("dead", "job-00002", Action::Requeue).await, 1);
    assert_eq!(world.jids("dead").await, "job-00001");
    let again = world.found("job-00002").await.unwrap();
    assert_eq!(again.state, JobState::Enqueued);
    assert_eq!(again.failure.unwrap().errtype, "Oops", "its story goes with it");
    assert_eq!(world.drain("default").await, "job-00002");
}

pub(crate) async fn any_resting_job_can_be_killed_or_discarded<H: Harness>(world: World<H>) {
    world.push_and_fail("retry-001", "").await;
    world.push_and_fail("retry-002", "").await;
    world.schedule("sched-001", seconds(60)).await;
    world.schedule("sched-002", seconds(61)).await;
    world.push_to("default", "queue-001 queue-002").await;
    for (place, jid) in
        [("retries", "retry-001"), ("scheduled", "sched-001"), ("queue:default", "queue-001")]
    {
        world.advance(seconds(1)).await;
        assert_eq!(world.act_on(place, jid, Action::Kill).await, 1);
    }
    assert_eq!(world.jids("dead").await, "retry-001 sched-001 queue-001");
    for (place, jid) in
        [("retries", "retry-002"), ("scheduled", "sched-002"), ("queue:default", "queue-002")]
    {
        assert_eq!(world.act_on(place, jid, Action::Discard).await, 1);
        assert_eq!(world.found(jid).await, None);
    }
    assert_eq!(world.act("dead", Selection::All, Action::Discard).await, 3);
    assert_eq!(world.census().await, (0, 0, 0, 0, 0));
}
