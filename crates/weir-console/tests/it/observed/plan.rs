//! The page Plan: what nobody has seen, and what Postgres may use.

use weir_advisor::observation::{DatabaseHost, RecentActivity};

use super::*;

const PAGE: &str = "/plan?cores=4&memory_gib=8&max_connections=200";

#[tokio::test]
async fn unobserved_facts_are_not_claimed_to_hold() {
    let mut idle = jobs("push");
    idle.queues.retain(|queue| queue.name == "push");
    (idle.queues[0].length, idle.queues[0].flow) = (0, Fact::NotAsked);
    let seen = Observation { jobs: Fact::Known(idle), ..Observation::default() };
    let page = Site::with_observed(ObservedStub::new(seen)).browser().get(PAGE).await;
    for text in [
        "Unknown</span><div><strong>each queue keeps up with arrivals",
        "no job of push was seen in progress in 1 sample",
        "unknown",
        "200 ms, assumed",
    ] {
        page.assert_shows(text);
    }
}

#[tokio::test]
async fn postgres_settings_fit_its_available_memory() {
    for (gib, is_said, expected) in [
        (1, true, "shared_buffers = 256MB"),
        (64, true, "shared_buffers = 16GB"),
        (1, false, "shared_buffers = 512MB"),
    ] {
        let host =
            Fact::Known(DatabaseHost { memory_bytes: gib << 30, share_bytes: gib << 30, is_said });
        let postgres = Fact::Known(DatabaseObservation { host, ..postgres() });
        let seen = Observation { postgres, ..observation("push") };
        let page = Site::with_observed(ObservedStub::new(seen)).browser().get(PAGE).await;
        page.assert_shows(expected);
    }
}

#[tokio::test]
async fn the_plan_form_uses_the_same_postgres_memory_as_the_command() {
    let host =
        Fact::Known(DatabaseHost { memory_bytes: 1 << 30, share_bytes: 1 << 30, is_said: true });
    let postgres = Fact::Known(DatabaseObservation { host, ..postgres() });
    let looks = ObservedStub::new(Observation { postgres, ..observation("push") });
    let mut browser = Site::with_observed(looks).browser();
    for (typed, expected) in [
        ("", "shared_buffers = 256MB"),
        ("2", "shared_buffers = 512MB"),
        ("0.5", "shared_buffers = 128MB"),
    ] {
        let page = browser.get(&format!("{PAGE}&postgres_memory_gib={typed}")).await;
        page.assert_shows(expected);
        let shown = if typed.is_empty() { "1" } else { typed };
        page.assert_shows(&format!("placeholder=\"a quarter\" value=\"{shown}\""));
    }
    let elsewhere = browser.get(&format!("{PAGE}&postgres_memory_gib=0")).await;
    assert!(!elsewhere.text.contains("shared_buffers"), "it runs elsewhere");
    for wrong in ["-1", "much", "1e7", "NaN"] {
        let page = browser.get(&format!("{PAGE}&postgres_memory_gib={wrong}")).await;
        assert_eq!(page.status, StatusCode::BAD_REQUEST, "{wrong}");
        page.assert_shows("is not a number from 0 to 1,000,000");
    }
}

#[tokio::test]
async fn jobs_never_seen_running_get_an_upper_bound() {
    let mut quick = jobs("push");
    quick.queues.retain(|queue| queue.name == "push");
    let queue = &mut quick.queues[0];
    let window = Duration::from_secs(10);
    (queue.length, queue.in_hand) = (0, 0);
    queue.flow = Fact::Known(Flow { window, arrivals_per_second: 3.0, ..Flow::default() });
    queue.lately = Some(RecentActivity { looks: 60, in_hand: 0.0, per_second: 3.0 });
    let seen = Observation { jobs: Fact::Known(quick), ..Observation::default() };
    let page = Site::with_observed(ObservedStub::new(seen)).browser().get(PAGE).await;
    page.assert_shows("at most 0.1");
    page.assert_shows("Holds</span><div><strong>each queue keeps up with arrivals");
}
