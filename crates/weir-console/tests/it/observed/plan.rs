//! The page Plan: what nobody has seen, and what Postgres may use.

use weir_advisor::observation::DatabaseHost;

use super::*;

const PAGE: &str = "/plan?cores=4&memory_gib=8&max_connections=200";

#[tokio::test]
async fn what_nobody_saw_is_not_said_to_hold() {
    let mut idle = jobs("push");
    idle.queues.retain(|queue| queue.name == "push");
    (idle.queues[0].length, idle.queues[0].flow) = (0, Fact::NotAsked);
    let seen = Observation { jobs: Fact::Known(idle), ..Observation::default() };
    let page = Site::with_observed(Looks::of(seen)).browser().get(PAGE).await;
    for text in [
        "Unknown</span><div><strong>each queue keeps up with what comes",
        "push was not seen at work",
        "not seen",
        "200 ms, assumed",
    ] {
        page.assert_shows(text);
    }
}

#[tokio::test]
async fn settings_are_for_the_memory_that_postgres_may_use() {
    for (gib, is_said, expected) in [
        (1, true, "shared_buffers = 256MB"),
        (64, true, "shared_buffers = 16GB"),
        (1, false, "shared_buffers = 512MB"),
    ] {
        let host = Fact::Known(DatabaseHost { memory_bytes: gib << 30, is_said });
        let postgres = Fact::Known(Postgres { host, ..postgres() });
        let seen = Observation { postgres, ..observation("push") };
        let page = Site::with_observed(Looks::of(seen)).browser().get(PAGE).await;
        page.assert_shows(expected);
    }
}
