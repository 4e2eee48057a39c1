//! Jobs that are due later.

use std::time::Duration;

use serde_json::Value;

use super::harness::Harness;
use super::world::{World, place, seconds};

pub(crate) async fn a_job_waits_for_its_time_to_the_microsecond<H: Harness>(world: World<H>) {
    world.schedule("job-00001", seconds(60)).await;
    let due = world.now() + seconds(60);
    assert_eq!(world.census().await, (0, 0, 1, 0, 0));
    assert_eq!(world.list(&place("scheduled")).await[0].at, due);
    assert_eq!(world.fetch("default").await, None);
    world.advance(seconds(60) - Duration::from_micros(1)).await;
    assert_eq!(world.fetch("default").await, None);
    world.advance(Duration::from_micros(1)).await;
    assert_eq!(world.census().await, (1, 0, 0, 0, 0));
    let delivery = world.fetch_as("w1", "default").await.unwrap();
    let json: Value = serde_json::from_slice(&delivery.json).unwrap();
    assert_eq!(json["enqueued_at"], weir_jobs::stamp::rfc3339(due));
    assert_eq!(json["at"], weir_jobs::stamp::rfc3339(due));
}

pub(crate) async fn due_jobs_are_enqueued_in_the_order_of_their_times<H: Harness>(world: World<H>) {
    for (jid, after) in [("job-00003", 30), ("job-00001", 10), ("job-00002", 20)] {
        world.schedule(jid, seconds(after)).await;
    }
    assert_eq!(world.jids("scheduled").await, "job-00001 job-00002 job-00003");
    world.advance(seconds(3_600)).await;
    assert_eq!(world.drain("default").await, "job-00001 job-00002 job-00003");
}

pub(crate) async fn a_due_job_goes_behind_those_that_wait<H: Harness>(world: World<H>) {
    world.schedule("job-00002", seconds(10)).await;
    world.push_to("default", "job-00001").await;
    world.advance(seconds(20)).await;
    world.push_to("default", "job-00003").await;
    assert_eq!(world.drain("default").await, "job-00001 job-00002 job-00003");
}

pub(crate) async fn nobody_has_to_ask_for_what_is_due<H: Harness>(_: World<H>) {
    let world = World::<H>::on_the_system_clock();
    world.schedule("job-00002", seconds(3_600)).await;
    let fetching = world.wait_as("w1", "default").await;
    world.schedule("job-00001", Duration::from_millis(20)).await;
    assert_eq!(fetching.jid().await.as_deref(), Some("job-00001"));
    assert_eq!(world.census().await, (0, 1, 1, 0, 0));
}
