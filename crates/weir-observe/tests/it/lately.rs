//! Jobs in hand that one sample does not meet.

use std::time::Duration;

use weir_advisor::observation::{Observation, RecentActivity};
use weir_advisor::plan::{DemandSource, demands};
use weir_base::clock::{Clock, Timestamp};
use weir_observe::{PollSchedule, Sources, Watcher, observe};

use crate::findings::{PROCESS, now, push, serve, sources};
use crate::redis_server::RedisServer;

const SAMPLES: u32 = 12;

fn in_hand(redis: &RedisServer, is_one: bool) {
    let key = format!("{PROCESS}:work");
    let work =
        r#"{"queue":"push","payload":"{\"class\":\"A\",\"jid\":\"1\"}","run_at":1700000000}"#;
    match is_one {
        true => redis.run(&[&["HSET", &key, "tid", work]]),
        false => redis.run(&[&["DEL", &key]]),
    };
}

fn recent_operations(observation: &Observation) -> Option<RecentActivity> {
    observation.jobs.known()?.queue("push")?.lately
}

#[tokio::test]
async fn looks_a_heartbeat_apart_tell_what_is_in_hand_on_average() {
    let Some(redis) = RedisServer::start() else { return };
    serve(&redis, r#"{"push":0}"#).await;
    let clock = Clock::manual(Timestamp::from_millis(1_000_000));
    let interval = Duration::from_secs(15);
    let schedule =
        PollSchedule { interval, sample_timeout: Duration::from_secs(30), retry_max: interval };
    let mut random = fastrand::Rng::with_seed(7);
    let sources = Sources { proc: None, ..sources(vec![redis.endpoint()]) };
    let mut watcher = Watcher::new(sources, schedule, clock.clone(), &mut random);
    let mut seen = None;
    for sample in 0..SAMPLES {
        in_hand(&redis, sample == 4);
        // Five come, and are gone by the next sample.
        match sample % 2 {
            0 => push(&redis, "push", 5, 0.0).await,
            _ => redis.run(&[&["DEL", "queue:push"]]),
        }
        seen = Some(watcher.round().await.observation);
        clock.advance(interval);
    }
    let seen = seen.unwrap();
    let RecentActivity { looks: samples, in_hand, .. } = recent_operations(&seen).unwrap();
    assert_eq!((samples, in_hand), (SAMPLES, 1.0 / f64::from(SAMPLES)));
    let jobs = seen.jobs.known().unwrap();
    assert_eq!(jobs.queue("push").unwrap().in_hand, 0);
    assert_eq!(demands(jobs, &[]).queues[0].known, DemandSource::All);
}

#[tokio::test]
async fn a_long_window_is_looked_at_more_than_once() {
    let Some(redis) = RedisServer::start() else { return };
    serve(&redis, r#"{"push":0}"#).await;
    in_hand(&redis, true);
    let from = now(&redis).await;
    // Its last count is more than a heartbeat behind the first sample.
    let window = Duration::from_secs(12);
    let sources = Sources { window, proc: None, ..sources(vec![redis.endpoint()]) };
    let observation = observe(&sources).await;
    assert!(now(&redis).await - from > 10.0);
    let RecentActivity { looks: samples, in_hand, .. } = recent_operations(&observation).unwrap();
    assert_eq!((samples, in_hand), (2, 1.0));
}
