//! What workers hold, and how they lose it.

use std::time::Duration;

use weir_jobs::model::{Wid, WorkerEnd};
use weir_jobs::store::{Action, FailOutcome, JobState, LostWorkers, Store, StoreError};

use super::harness::Harness;
use super::world::{World, report, seconds};

pub(crate) async fn an_ack_ends_the_job<H: Harness>(world: World<H>) {
    world.push_to("default", "job-00001 job-00002 job-00003").await;
    world.drain("default").await;
    assert_eq!(world.store().ack(&["job-00001", "unknown-1", "job-00003"]).await, Ok(vec![1]));
    assert_eq!(world.census().await, (0, 1, 0, 0, 0));
    assert_eq!(world.ack("job-00001").await, 0);
    assert_eq!(world.counts().await.processed_total, 2);
    assert_eq!(world.found("job-00001").await, None);
}

pub(crate) async fn a_late_report_leaves_the_job_of_another_worker<H: Harness>(world: World<H>) {
    world.push_to("default", "job-00001").await;
    let (late, next) = (Wid::new("late"), Wid::new("next"));
    assert!(world.fetch_as("late", "default").await.is_some());
    assert_eq!(world.store().release(&late, WorkerEnd::Killed).await, Ok(1));
    assert!(world.fetch_as("next", "default").await.is_some());
    assert_eq!(world.store().ack_from(Some(&late), &["job-00001"]).await, Ok(vec![0]));
    let failed = world.store().fail_from(Some(&late), vec![report("job-00001")]).await;
    assert_eq!(failed, [Err(StoreError::NotFound("job-00001".into()))]);
    assert_eq!(world.census().await, (0, 1, 0, 0, 0), "the next worker's run goes on");
    assert_eq!(world.store().ack_from(Some(&next), &["job-00001"]).await, Ok(vec![]));
    assert_eq!(world.counts().await.processed_total, 1);
}

pub(crate) async fn a_late_ack_leaves_a_waiting_twin<H: Harness>(world: World<H>) {
    world.push_to("default", "job-00001 job-00001").await;
    let (late, next) = (Wid::new("late"), Wid::new("next"));
    assert!(world.fetch_as("next", "default").await.is_some());
    assert_eq!(world.store().ack_from(Some(&late), &["job-00001"]).await, Ok(vec![0]));
    assert_eq!(world.census().await, (1, 1, 0, 0, 0));
    assert_eq!(world.store().ack_from(Some(&next), &["job-00001"]).await, Ok(vec![]));
}

pub(crate) async fn a_lapsed_reservation_counts_as_a_failure<H: Harness>(world: World<H>) {
    world.push_with("job-00001", r#""reserve_for":60"#).await;
    world.push_with("job-00002", r#""reserve_for":60,"retry":0"#).await;
    world.drain("default").await;
    world.advance(seconds(60)).await;
    assert_eq!(world.census().await, (0, 0, 0, 1, 0));
    let failure = world.found("job-00001").await.unwrap().failure.unwrap();
    assert_eq!(failure.errtype, "ReservationExpired");
    assert_eq!((failure.retry_count, failure.failed_at), (0, world.now()));
    assert_eq!((world.counts().await.failed_total, world.counts().await.processed_total), (2, 2));
}

pub(crate) async fn a_reservation_lapses_to_the_microsecond<H: Harness>(world: World<H>) {
    world.push_to("default", "job-00001").await;
    world.fetch("default").await;
    world.advance(seconds(1_800) - Duration::from_micros(1)).await;
    assert_eq!(world.census().await, (0, 1, 0, 0, 0));
    world.advance(Duration::from_micros(1)).await;
    assert_eq!(world.census().await, (0, 0, 0, 1, 0));
}

pub(crate) async fn a_reservation_can_be_extended_but_not_shortened<H: Harness>(world: World<H>) {
    world.push_with("job-00001", r#""reserve_for":60"#).await;
    world.fetch("default").await;
    let now = world.now();
    assert_eq!(world.store().extend("job-00001", now + seconds(100)).await, Ok(true));
    assert_eq!(world.store().extend("job-00001", now + seconds(1)).await, Ok(true));
    assert_eq!(world.store().extend("unknown-1", now + seconds(100)).await, Ok(false));
    world.advance(seconds(99)).await;
    assert_eq!(world.counts().await.reserved, 1);
    world.advance(seconds(1)).await;
    assert_eq!(world.census().await, (0, 0, 0, 1, 0));
}

pub(crate) async fn a_vanished_worker_gives_its_jobs_back_in_order<H: Harness>(world: World<H>) {
    world.push_to("a", "job-a-01 job-a-02 job-a-03 job-a-04").await;
    world.push_to("b", "job-b-01").await;
    for worker in ["w1", "w2", "w1"] {
        assert!(world.fetch_as(worker, "a").await.is_some());
    }
    assert!(world.fetch_as("w1", "b").await.is_some());
    let (first, second) = (Wid::new("w1"), Wid::new("w2"));
    assert_eq!((world.store().busy(&first), world.store().busy(&second)), (3, 1));
    assert_eq!(world.store().release(&first, WorkerEnd::Killed).await, Ok(3));
    assert_eq!((world.store().busy(&first), world.store().busy(&second)), (0, 1));
    assert_eq!(world.drain("a b").await, "job-a-01 job-a-03 job-a-04 job-b-01");
    assert_eq!(world.store().release(&Wid::new("nobody"), WorkerEnd::Killed).await, Ok(0));
    assert_eq!(world.counts().await.failed_total, 0);
}

/// Fetches the next job of `default`, whose worker then ends.
async fn lose_worker<H: Harness>(world: &World<H>, end: WorkerEnd) {
    assert!(world.fetch("default").await.is_some());
    assert_eq!(world.store().release(&Wid::new("w1"), end).await, Ok(1));
}

/// Returns the failure of the only job, which is dead.
async fn death<H: Harness>(world: &World<H>, jid: &str) -> (String, String) {
    assert_eq!(world.census().await, (0, 0, 0, 0, 1));
    let failure = world.found(jid).await.unwrap().failure.unwrap();
    assert_eq!(failure.next_at, None);
    (failure.errtype, failure.message)
}

pub(crate) async fn a_job_that_kills_three_workers_is_dead<H: Harness>(world: World<H>) {
    // Neither many retries nor none change that.
    for (jid, retry) in [("job-00001", r#""retry":25"#), ("job-00002", r#""retry":0"#)] {
        world.push_with(jid, retry).await;
        for _ in 0..2 {
            lose_worker(&world, WorkerEnd::Killed).await;
            assert_eq!(world.depth("default").await, 1);
        }
        lose_worker(&world, WorkerEnd::Killed).await;
        let (errtype, message) = death(&world, jid).await;
        assert_eq!(errtype, "WorkerKilled");
        assert_eq!(message, "3 workers died while running it (jobs.limits.advanced.returns_max)");
        world.act_on("dead", jid, Action::Requeue).await;
        // It has three more.
        for _ in 0..2 {
            lose_worker(&world, WorkerEnd::Killed).await;
        }
        assert_eq!(world.depth("default").await, 1);
        assert_eq!(world.drain("default").await, jid);
        assert_eq!(world.ack(jid).await, 1);
    }
}

pub(crate) async fn only_what_kills_workers_counts<H: Harness>(world: World<H>) {
    world.push_with("job-00001", r#""reserve_for":60"#).await;
    lose_worker(&world, WorkerEnd::Killed).await;
    for _ in 0..5 {
        lose_worker(&world, WorkerEnd::Stopped).await;
    }
    // A reservation that expires is a failure like others, and does not forgive the kill.
    world.fetch("default").await;
    world.advance(seconds(60)).await;
    assert_eq!(world.census().await, (0, 0, 0, 1, 0));
    world.advance(seconds(60)).await;
    lose_worker(&world, WorkerEnd::Killed).await;
    assert_eq!(world.depth("default").await, 1);
    lose_worker(&world, WorkerEnd::Stopped).await;
    lose_worker(&world, WorkerEnd::Killed).await;
    assert_eq!(death(&world, "job-00001").await.0, "WorkerKilled");
}

pub(crate) async fn what_a_worker_reserves_after_it_was_given_up_stays<H: Harness>(
    world: World<H>,
) {
    world.push_to("default", "job-00001 job-00002").await;
    let wid = Wid::new("w1");
    assert_eq!(world.fetch("default").await.as_deref(), Some("job-00001"));
    let mark = world.store().reservation_mark();
    // It has returned under its wid before its first job is released.
    assert_eq!(world.fetch("default").await.as_deref(), Some("job-00002"));
    let release = async || world.store().release_until(&wid, &mark, WorkerEnd::Killed).await;
    assert_eq!(release().await, Ok(1));
    assert_eq!((world.depth("default").await, world.store().busy(&wid)), (1, 1));
    // It has its first job again when the release is repeated.
    assert_eq!(world.fetch("default").await.as_deref(), Some("job-00001"));
    assert_eq!(release().await, Ok(0));
    assert_eq!(world.store().busy(&wid), 2);
    // Marks outlive the deletion of all jobs.
    world.store().flush().await.unwrap();
    world.push_to("default", "job-00003").await;
    assert_eq!(world.fetch("default").await.as_deref(), Some("job-00003"));
    assert_eq!(release().await, Ok(0));
    assert_eq!(world.store().busy(&wid), 1);
}

pub(crate) async fn a_lease_that_ends_after_its_worker_was_lost_counts_as_a_kill<H: Harness>(
    world: World<H>,
) {
    world.store().watch_workers(LostWorkers::new(|wid| wid.as_str() == "lost"));
    world.push_with("job-00001", r#""reserve_for":60,"retry":0"#).await;
    for _ in 0..2 {
        assert!(world.fetch_as("lost", "default").await.is_some());
        world.advance(seconds(60)).await;
        assert_eq!(world.census().await, (1, 0, 0, 0, 0), "it is not deleted");
    }
    assert_eq!(world.counts().await.failed_total, 0);
    assert!(world.fetch_as("lost", "default").await.is_some());
    world.advance(seconds(60)).await;
    assert_eq!(death(&world, "job-00001").await.0, "WorkerKilled");
}

pub(crate) async fn kills_are_forgotten_when_the_job_is_dead<H: Harness>(world: World<H>) {
    world.push_with("job-00001", r#""retry":1"#).await;
    for _ in 0..2 {
        lose_worker(&world, WorkerEnd::Killed).await;
    }
    world.fetch("default").await;
    world.fail("job-00001").await;
    world.advance(seconds(60)).await;
    world.fetch("default").await;
    assert_eq!(world.fail("job-00001").await, FailOutcome::Dead);
    world.act_on("dead", "job-00001", Action::Requeue).await;
    for _ in 0..2 {
        lose_worker(&world, WorkerEnd::Killed).await;
    }
    assert_eq!(world.census().await, (1, 0, 0, 0, 0));
    // So does an operator who kills it.
    world.act_on("queue:default", "job-00001", Action::Kill).await;
    world.act_on("dead", "job-00001", Action::Requeue).await;
    for _ in 0..2 {
        lose_worker(&world, WorkerEnd::Killed).await;
    }
    assert_eq!(world.census().await, (1, 0, 0, 0, 0));
    lose_worker(&world, WorkerEnd::Killed).await;
    assert_eq!(death(&world, "job-00001").await.0, "WorkerKilled");
}

pub(crate) async fn kills_are_forgotten_after_three_days<H: Harness>(world: World<H>) {
    world.push_to("default", "job-00001").await;
    lose_worker(&world, WorkerEnd::Killed).await;
    lose_worker(&world, WorkerEnd::Killed).await;
    world.advance(seconds(72 * 3_600 + 1)).await;
    lose_worker(&world, WorkerEnd::Killed).await;
    assert_eq!(world.depth("default").await, 1);
}

pub(crate) async fn without_a_limit_kills_change_nothing<H: Harness>(_: World<H>) {
    let world = World::<H>::with_limits(|limits| limits.returns_max = 0);
    world.push_to("default", "job-00001").await;
    for _ in 0..10 {
        lose_worker(&world, WorkerEnd::Killed).await;
        assert_eq!(world.depth("default").await, 1);
    }
}

pub(crate) async fn a_late_ack_removes_the_job_that_waits_again<H: Harness>(world: World<H>) {
    world.push_to("default", "job-00001 job-00002").await;
    world.fetch("default").await;
    world.store().release(&Wid::new("w1"), WorkerEnd::Killed).await.unwrap();
    assert_eq!(world.depth("default").await, 2);
    assert_eq!(world.ack("job-00001").await, 1);
    assert_eq!(world.drain("default").await, "job-00002");
    assert_eq!(world.counts().await.processed_total, 1);
}

pub(crate) async fn a_late_ack_leaves_a_retry_alone<H: Harness>(world: World<H>) {
    world.push_with("job-00001", r#""reserve_for":60"#).await;
    world.fetch("default").await;
    world.advance(seconds(60)).await;
    assert_eq!(world.ack("job-00001").await, 0);
    assert_eq!(world.census().await, (0, 0, 0, 1, 0));
}

pub(crate) async fn reservations_are_listed_oldest_first<H: Harness>(world: World<H>) {
    world.push_with("job-00001", r#""reserve_for":600"#).await;
    world.push_with("job-00002", r#""reserve_for":60"#).await;
    let since = world.now();
    world.fetch_as("w1", "default").await;
    world.advance(seconds(1)).await;
    world.fetch_as("w2", "default").await;
    let held = world.store().reservations(10).await;
    let jids: Vec<_> = held.iter().map(|held| &*held.jid).collect();
    assert_eq!(jids, ["job-00001", "job-00002"]);
    assert_eq!((held[0].since, held[0].expires_at), (since, since + seconds(600)));
    assert_eq!(held[1].wid, Some(Wid::new("w2")));
    assert_eq!((&*held[0].jobtype, held[0].queue.as_str()), ("Test", "default"));
    assert_eq!(world.store().reservations(1).await.len(), 1);
    let found = world.found("job-00002").await.unwrap();
    let (wid, expires_at) = (Some(Wid::new("w2")), since + seconds(61));
    assert_eq!(found.state, JobState::Reserved { wid, expires_at });
    assert_eq!(found.at, since + seconds(1));
}
