//! Jobs that are due later.

use std::time::Duration;

use serde_json::Value;
use weir_jobs::rules;
use weir_jobs::store::Action;

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

pub(crate) async fn a_rescheduled_job_is_due_at_its_new_time<H: Harness>(world: World<H>) {
    world.schedule("job-00001", seconds(3_600)).await;
    world.schedule("job-00002", seconds(10)).await;
    world.push_and_fail("job-00003", "").await;
    let (sooner, later) = (world.now() + seconds(5), world.now() + seconds(3_600));
    let reschedule = async |place: &str, jid: &str, at| {
        assert_eq!(world.act_on(place, jid, Action::Reschedule(at)).await, 1, "{jid}");
        let job = world.found(jid).await.unwrap();
        assert_eq!(job.at, rules::spread(at, jid), "{jid}");
        assert!(job.at >= at && job.at.since(at) < seconds(1));
        job
    };
    reschedule("scheduled", "job-00001", sooner).await;
    reschedule("scheduled", "job-00002", later).await;
    let failed = reschedule("retries", "job-00003", later).await;
    assert_eq!(failed.failure.unwrap().next_at, Some(rules::spread(later, "job-00003")));
    assert_eq!(world.jids("scheduled").await, "job-00001 job-00002");
    world.advance(seconds(300)).await;
    assert_eq!(world.jids("retries").await, "job-00003");
    let delivery = world.fetch_as("w1", "default").await.unwrap();
    assert_eq!(&*delivery.jid, "job-00001");
    let json: Value = serde_json::from_slice(&delivery.json).unwrap();
    let at = weir_jobs::stamp::rfc3339(rules::spread(sooner, "job-00001"));
    assert!(json["at"] == at || json["at"].is_null(), "{json}");
    world.advance(seconds(3_600)).await;
    assert_eq!(world.drain("default").await, "job-00002 job-00003");
}

pub(crate) async fn a_rescheduled_job_wakes_a_fetch<H: Harness>(_: World<H>) {
    let world = World::<H>::on_the_system_clock();
    world.schedule("job-00001", seconds(3_600)).await;
    let fetching = world.wait_as("w1", "default").await;
    let now = world.now();
    assert_eq!(world.act_on("scheduled", "job-00001", Action::Reschedule(now)).await, 1);
    assert_eq!(fetching.jid().await.as_deref(), Some("job-00001"));
}
