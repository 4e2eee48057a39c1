//! The progress of tracked jobs: `custom.track` and TRACK.

use weir_jobs::model::{Wid, WorkerEnd};
use weir_jobs::store::{Action, Store};
use weir_jobs::tracks::{Track, TrackUpdate};

use super::harness::{Durable, Harness};
use super::world::{World, seconds};

const TRACKED: &str = r#""custom":{"track":1}"#;

async fn track<H: Harness>(world: &World<H>, jid: &str) -> Option<Track> {
    world.store().track(jid).await.unwrap()
}

/// The state of a job as TRACK names it.
async fn state<H: Harness>(world: &World<H>, jid: &str) -> &'static str {
    track(world, jid).await.map_or("unknown", |track| track.state.as_str())
}

async fn report<H: Harness>(world: &World<H>, jid: &str, percent: u8, description: &str) {
    let description = Some(description).filter(|text| !text.is_empty()).map(Box::from);
    let update = TrackUpdate { percent: Some(percent), description };
    world.store().set_track(jid, update).await.unwrap();
}

pub(crate) async fn a_track_follows_its_job<H: Harness>(world: World<H>) {
    world.push_with("plain-001", "").await;
    world.push_with("track-001", &format!(r#""retry":1,{TRACKED}"#)).await;
    assert_eq!(
        (state(&world, "plain-001").await, state(&world, "other").await),
        ("unknown", "unknown")
    );
    assert_eq!(state(&world, "track-001").await, "enqueued");
    world.drain("default").await;
    assert_eq!(state(&world, "track-001").await, "working");
    report(&world, "plain-001", 10, "").await;
    assert_eq!(track(&world, "plain-001").await, None);
    world.advance(seconds(1)).await;
    report(&world, "track-001", 30, "half").await;
    report(&world, "track-001", 40, "").await;
    world.fail("track-001").await;
    let failed = track(&world, "track-001").await.unwrap();
    assert_eq!((failed.state.as_str(), failed.percent), ("failed", Some(40)));
    assert_eq!((failed.description.as_deref(), failed.updated_at), (Some("half"), world.now()));
    world.advance(seconds(60)).await;
    assert_eq!(state(&world, "track-001").await, "enqueued");
    world.drain("default").await;
    world.fail("track-001").await;
    assert_eq!(state(&world, "track-001").await, "dead");
    assert_eq!(world.act_on("dead", "track-001", Action::Requeue).await, 1);
    assert_eq!(state(&world, "track-001").await, "enqueued");
    world.drain("default").await;
    world.ack("track-001").await;
    assert_eq!(state(&world, "track-001").await, "success");
    assert_eq!(track(&world, "track-001").await.unwrap().percent, Some(40));
}

pub(crate) async fn operators_and_vanished_workers_change_the_state<H: Harness>(world: World<H>) {
    world.push_with("track-001", TRACKED).await;
    world.drain("default").await;
    world.store().release(&Wid::new("w1"), WorkerEnd::Killed).await.unwrap();
    assert_eq!(state(&world, "track-001").await, "enqueued");
    assert_eq!(world.act_on("queue:default", "track-001", Action::Kill).await, 1);
    assert_eq!(state(&world, "track-001").await, "dead");
    world.push_with("track-002", r#""retry":0,"custom":{"track":1}"#).await;
    world.drain("default").await;
    world.fail("track-002").await;
    assert_eq!(state(&world, "track-002").await, "failed");
}

pub(crate) async fn tracks_are_limited_and_expire<H: Harness>(_: World<H>) {
    let world = World::<H>::with_limits(|limits| {
        limits.tracks_max = 2;
        limits.track_age_max = seconds(60);
    });
    for jid in ["track-001", "track-002", "track-003"] {
        world.push_with(jid, TRACKED).await;
        world.advance(seconds(1)).await;
    }
    assert_eq!(state(&world, "track-001").await, "unknown");
    assert_eq!(world.counts().await.tracked, 2);
    world.advance(seconds(57)).await;
    assert_eq!(state(&world, "track-002").await, "enqueued");
    report(&world, "track-003", 1, "").await;
    world.advance(seconds(1)).await;
    assert_eq!(state(&world, "track-002").await, "unknown");
    assert_eq!(state(&world, "track-003").await, "enqueued");
    assert_eq!(world.counts().await.tracked, 1);
    world.drain("default").await;
    assert_eq!(state(&world, "track-002").await, "working", "it is known again");
}

pub(crate) async fn progress_survives_a_crash<H: Durable>(world: World<H>) {
    for jid in ["track-001", "track-002", "track-003"] {
        world.push_with(jid, TRACKED).await;
    }
    world.drain("default").await;
    report(&world, "track-001", 30, "half").await;
    report(&world, "track-002", 90, "").await;
    world.ack("track-002").await;
    world.push_to("default", "plain-001").await;
    let world = world.crash().await;
    let first = track(&world, "track-001").await.unwrap();
    assert_eq!((first.state.as_str(), first.percent), ("enqueued", Some(30)));
    assert_eq!(first.description.as_deref(), Some("half"));
    assert_eq!(state(&world, "track-003").await, "enqueued", "it waits again");
    let second = track(&world, "track-002").await.unwrap();
    assert_eq!((second.state.as_str(), second.percent), ("success", Some(90)));
    world.ack("track-001").await;
    assert_eq!(state(&world, "track-001").await, "success");
    world.advance(seconds(1_800)).await;
    let world = world.restart().await;
    world.advance(seconds(1)).await;
    assert_eq!(world.counts().await.tracked, 0);
}

pub(crate) async fn progress_survives_compaction<H: Durable>(world: World<H>) {
    world.push_with("track-001", TRACKED).await;
    world.drain("default").await;
    report(&world, "track-001", 30, "half").await;
    world.ack("track-001").await;
    let padding = "x".repeat(4_000);
    for number in 0..1_200 {
        let jid = format!("pad-{number:05}");
        let json = format!(r#"{{"jid":"{jid}","jobtype":"T","args":["{padding}"]}}"#);
        world.push_json(&json).await.unwrap();
        world.fetch("default").await;
        world.ack(&jid).await;
        if number % 50 == 0 {
            world.advance(seconds(1)).await;
        }
    }
    let segments = world.store().storage().await.segments;
    assert!(segments < 8, "{segments} segments: nothing was removed");
    let world = world.restart().await;
    let found = track(&world, "track-001").await.unwrap();
    assert_eq!((found.state.as_str(), found.percent), ("success", Some(30)));
}

pub(crate) async fn progress_moves_to_another_store<H: Harness>(world: World<H>) {
    for jid in ["track-001", "track-002", "track-003"] {
        world.push_with(jid, TRACKED).await;
        world.advance(seconds(1)).await;
    }
    world.fetch("default").await;
    report(&world, "track-001", 30, "half").await;
    let target = World::<H>::with_limits(|limits| limits.tracks_max = 2);
    let mut after = None;
    for _ in 0..3 {
        let page = world.store().export_tracks(after, 1).await.unwrap();
        let (jid, track) = page.into_iter().next().unwrap();
        after = Some((track.updated_at, jid.clone()));
        target.store().import_track(&jid, track).await.unwrap();
    }
    assert_eq!(world.store().export_tracks(after, 1).await, Ok(Vec::new()));
    assert_eq!(state(&target, "track-002").await, "unknown", "tracks_max");
    let moved = track(&target, "track-001").await.unwrap();
    assert_eq!((moved.state.as_str(), moved.percent), ("enqueued", Some(30)));
    assert_eq!(moved.updated_at, track(&world, "track-001").await.unwrap().updated_at);
}
