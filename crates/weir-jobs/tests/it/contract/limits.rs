//! Limits that a store has of its own.

use weir_jobs::store::StoreError;

use super::harness::Harness;
use super::world::{World, job_with};

pub(crate) async fn the_memory_has_a_size<H: Harness>(_: World<H>) {
    let world = World::<H>::with_limits(|limits| limits.memory_bytes_max = 400);
    world.push_to("default", "job-00001 job-00002").await;
    let refused = world.push_json(&job_with("job-00003", "")).await;
    let is_named = |text: &str| text.contains("jobs.limits.memory_bytes_max");
    assert!(matches!(&refused, Err(StoreError::Limit(text)) if is_named(text)), "{refused:?}");
    assert_eq!(world.census().await, (2, 0, 0, 0, 0));
    world.fetch("default").await;
    world.ack("job-00001").await;
    world.push_to("default", "job-00003").await;
    assert_eq!(world.drain("default").await, "job-00002 job-00003");
}
