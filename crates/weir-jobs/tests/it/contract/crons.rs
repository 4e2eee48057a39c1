//! The times of cron jobs that were handled: `[[jobs.cron]]`.

use weir_base::clock::Timestamp;
use weir_jobs::cron::{CronRunOutcome, CronState};
use weir_jobs::job::JobBatch;
use weir_jobs::settings::JobServerLimits;
use weir_jobs::store::{Store, StoreError};

use super::harness::{Durable, Harness};
use super::world::{World, job_with, seconds};

async fn run_with<H: Harness>(
    world: &World<H>,
    name: &str,
    at: Timestamp,
    members: &str,
) -> Result<CronRunOutcome, StoreError> {
    let json = job_with(&format!("{name}-{}", at.as_micros()), members);
    let mut batch = JobBatch::new();
    let job = batch.parse_one(json.as_bytes(), world.now(), &JobServerLimits::default()).unwrap();
    world.store().cron_run(name, at, Some(job)).await
}

async fn run<H: Harness>(world: &World<H>, name: &str, at: Timestamp) -> bool {
    run_with(world, name, at, "").await.unwrap() == CronRunOutcome::Handled
}

async fn last<H: Harness>(world: &World<H>, name: &str) -> Option<(Timestamp, bool)> {
    let states = world.store().cron_states().await.unwrap();
    states.by_name.get(name).map(|state| (state.last, state.paused))
}

pub(crate) async fn a_time_enqueues_one_job<H: Harness>(world: World<H>) {
    let (first, second) = (world.now(), world.now() + seconds(60));
    let handled = world.store().cron_run("a", first, None).await;
    assert_eq!(handled, Ok(CronRunOutcome::Handled));
    assert_eq!(world.depth("default").await, 0);
    for (at, is_new) in [(first, false), (second, true), (second, false), (first, false)] {
        assert_eq!(run(&world, "a", at).await, is_new);
    }
    assert_eq!(world.depth("default").await, 1);
    assert!(run(&world, "b", first).await, "another name has its own times");
    world.store().cron_pause("a", true).await.unwrap();
    assert_eq!(last(&world, "a").await, Some((second, true)));
    world.store().flush().await.unwrap();
    assert!(!run(&world, "a", second).await, "deleting the jobs does not bring its times back");
    world.store().cron_forget("a").await.unwrap();
    assert_eq!(last(&world, "a").await, None);
}

pub(crate) async fn a_paused_cron_job_passes_its_times<H: Harness>(world: World<H>) {
    let times: Vec<Timestamp> = (0..4).map(|minute| world.now() + seconds(minute * 60)).collect();
    run(&world, "a", times[0]).await;
    world.store().cron_pause("a", true).await.unwrap();
    assert_eq!(run_with(&world, "a", times[1], "").await, Ok(CronRunOutcome::Paused));
    assert_eq!(last(&world, "a").await, Some((times[1], true)));
    world.store().cron_pause("a", false).await.unwrap();
    let before = Ok(CronRunOutcome::HandledBefore);
    assert_eq!(run_with(&world, "a", times[1], "").await, before);
    assert_eq!(world.depth("default").await, 1);
    assert!(run(&world, "a", times[2]).await);
    assert_eq!(world.depth("default").await, 2);
    world.store().cron_pause("other", true).await.unwrap();
    assert_eq!(last(&world, "other").await, None, "it is unknown");
}

pub(crate) async fn names_are_registered_once<H: Harness>(world: World<H>) {
    let begin = world.now();
    let states = world.store().cron_register(&["a", "b"]).await.unwrap();
    assert_eq!((states.now, states.by_name.len()), (begin, 2));
    assert_eq!(last(&world, "a").await, Some((begin, false)), "it begins with its next time");
    run(&world, "a", begin + seconds(60)).await;
    world.store().cron_pause("b", true).await.unwrap();
    world.advance(seconds(90)).await;
    let states = world.store().cron_register(&["a", "b", "c"]).await.unwrap();
    let state = |name: &str| states.by_name.get(name).map(|it| (it.last, it.paused));
    assert_eq!(state("a"), Some((begin + seconds(60), false)));
    assert_eq!(state("b"), Some((begin, true)));
    assert_eq!((states.now, state("c")), (world.now(), Some((world.now(), false))));
}

pub(crate) async fn a_unique_cron_job_is_left_out_while_the_last_one_runs<H: Harness>(
    world: World<H>,
) {
    let members = r#""custom":{"unique_for":3600}"#;
    for minute in 0..3 {
        let at = world.now() + seconds(minute * 60);
        assert_eq!(run_with(&world, "a", at, members).await, Ok(CronRunOutcome::Handled));
    }
    assert_eq!(world.depth("default").await, 1);
}

pub(crate) async fn a_cron_job_wakes_a_fetch<H: Harness>(world: World<H>) {
    let waiting = world.wait_as("w1", "default").await;
    run(&world, "a", world.now()).await;
    world.harness.tick().await;
    assert!(waiting.jid().await.is_some());
}

pub(crate) async fn handled_times_survive_a_crash<H: Durable>(world: World<H>) {
    let (first, second) = (world.now(), world.now() + seconds(60));
    run(&world, "a", first).await;
    run(&world, "b", first).await;
    world.store().cron_pause("b", true).await.unwrap();
    let world = world.crash().await;
    assert_eq!(last(&world, "b").await, Some((first, true)));
    for (at, is_new) in [(first, false), (second, true), (second, false)] {
        assert_eq!(run(&world, "a", at).await, is_new);
    }
    world.store().cron_forget("b").await.unwrap();
    world.store().flush().await.unwrap();
    let world = world.restart().await;
    assert_eq!((last(&world, "a").await, last(&world, "b").await), (Some((second, false)), None));
    assert_eq!(world.depth("default").await, 0);
}

pub(crate) async fn the_state_of_a_cron_job_can_be_replaced<H: Harness>(world: World<H>) {
    let state = CronState { last: world.now() + seconds(60), paused: true };
    world.store().import_cron("a", state.clone()).await.unwrap();
    assert_eq!(last(&world, "a").await, Some((state.last, true)));
    assert!(!run(&world, "a", state.last).await, "it was handled");
}
