//! How often jobs of a queue and of its tenants start.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_base::token_bucket::Rate;
use weir_jobs::allocation::{Allocation, LaneLimits, QueueAllocation};
use weir_jobs::lanes::BlockedJobs;
use weir_jobs::model::{Wid, WorkerEnd};
use weir_jobs::store::{QueueAction, Store};

use super::fair::{allocate, by_tenant, push, served, with};
use super::harness::{Durable, Harness};
use super::world::{World, seconds};

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// So many at once after a pause, and one more per second.
const fn burst(jobs: u32) -> Rate {
    Rate::new(jobs, Duration::from_secs(1))
}

fn of_queue(rate: Rate) -> QueueAllocation {
    QueueAllocation { rate: Some(rate), ..QueueAllocation::default() }
}

fn of_tenants(rate: Rate) -> QueueAllocation {
    with(|rules| rules.limits.each.rate = Some(rate))
}

async fn blocked<H: Harness>(world: &World<H>) -> (u64, u64) {
    let BlockedJobs { concurrency, rate, .. } = world.queue("a").await.unwrap().blocked;
    (concurrency, rate)
}

pub(crate) async fn a_queue_starts_its_burst_and_then_one_per_interval<H: Harness>(
    world: World<H>,
) {
    allocate(&world, of_queue(burst(2)));
    push(&world, 1, "h h h h h").await;
    assert_eq!(blocked(&world).await, (0, 0));
    assert_eq!(served(&world, 3).await, "h1 h2 -");
    assert_eq!(blocked(&world).await, (0, 3));
    world.ack("h-000001").await;
    world.fail("h-000002").await;
    assert_eq!(served(&world, 1).await, "-", "the end of a job does not give its start back");
    let (first, second) = (world.wait_as("w1", "b a").await, world.wait_as("w2", "a").await);
    world.advance(millis(999)).await;
    assert!(first.is_waiting());
    world.advance(millis(1)).await;
    assert_eq!(first.jid().await.as_deref(), Some("h-000003"));
    assert!(second.is_waiting());
    world.advance(seconds(1)).await;
    assert_eq!(second.jid().await.as_deref(), Some("h-000004"));
    // A pause saves up the burst, and no more.
    world.advance(seconds(100)).await;
    push(&world, 6, "h h h").await;
    // The second one is a retry that was due.
    assert_eq!(served(&world, 3).await, "h5 h2 -");
}

pub(crate) async fn a_fetch_serves_other_queues_while_one_waits_for_its_rate<H: Harness>(
    world: World<H>,
) {
    allocate(&world, of_queue(burst(1)));
    push(&world, 1, "h h").await;
    world.push_to("b", "other-001 other-002").await;
    assert_eq!(world.drain("a b").await, "h-000001 other-001 other-002");
    let waiting = world.wait_as("w1", "a b").await;
    world.push_to("b", "other-003").await;
    assert_eq!(waiting.jid().await.as_deref(), Some("other-003"));
}

pub(crate) async fn each_tenant_has_its_rate<H: Harness>(world: World<H>) {
    let own = LaneLimits { rate: Some(burst(3)), ..LaneLimits::default() };
    allocate(
        &world,
        with(|rules| {
            rules.limits.each.rate = Some(burst(1));
            rules.limits.of = BTreeMap::from([("v".to_owned(), own)]);
        }),
    );
    push(&world, 1, "h h h q q v v v v").await;
    let mut first = served(&world, 6).await;
    assert!(first.ends_with(" -"), "{first}");
    first.truncate(first.len() - 2);
    let mut jobs: Vec<&str> = first.split(' ').collect();
    jobs.sort_unstable();
    assert_eq!(jobs, ["h1", "q4", "v6", "v7", "v8"]);
    assert_eq!(blocked(&world).await, (0, 4));
    assert_eq!(world.queue("a").await.unwrap().lanes.sleeping, 3);
    push(&world, 10, "r").await;
    assert_eq!(served(&world, 2).await, "r10 -", "a tenant that is not at its rate");
    let waiting = [world.wait_as("w1", "a").await, world.wait_as("w2", "a").await];
    world.advance(millis(999)).await;
    assert!(waiting.iter().all(super::world::Fetching::is_waiting));
    world.advance(millis(1)).await;
    // v has more jobs in progress.
    for (waiting, expected) in waiting.into_iter().zip(["h-000002", "q-000005"]) {
        assert_eq!(waiting.jid().await.as_deref(), Some(expected));
    }
    assert_eq!((blocked(&world).await, world.depth("a").await), ((0, 1), 2));
}

pub(crate) async fn a_tenant_without_jobs_keeps_what_it_has_used<H: Harness>(world: World<H>) {
    allocate(&world, of_tenants(burst(1)));
    for number in 1..4 {
        push(&world, number, "h").await;
        assert_eq!(served(&world, 1).await, format!("h{number}"));
        world.ack(&format!("h-00000{number}")).await;
        push(&world, 10 * number, "h").await;
        assert_eq!(served(&world, 1).await, "-", "its lane had no jobs for a moment");
        world.advance(seconds(1)).await;
        assert_eq!(served(&world, 1).await, format!("h{}", 10 * number));
        world.ack(&format!("h-0000{}", 10 * number)).await;
        world.advance(millis(999)).await;
        let tenants = async || world.queue("a").await.unwrap().lanes.tenants;
        assert_eq!(tenants().await, 1, "it is kept until its rate has recovered");
        world.advance(millis(1)).await;
        assert_eq!(tenants().await, 0, "then it is dropped");
    }
}

pub(crate) async fn tenants_without_a_lane_have_one_rate_together<H: Harness>(world: World<H>) {
    allocate(
        &world,
        with(|rules| {
            rules.tenants_max = 1;
            rules.limits.each.rate = Some(burst(1));
        }),
    );
    // Each starts one job. Their lanes are kept, so none is free for another tenant.
    let mut names: Vec<String> = Vec::new();
    loop {
        assert!(names.len() < 1_000, "there are 1,024 lanes: two of so many tenants share one");
        names.push(format!("t{}", names.len()));
        push(&world, 1_000 + names.len(), &names[names.len() - 1]).await;
        let lanes = world.queue("a").await.unwrap().lanes;
        if lanes.tenants + lanes.shared < names.len() as u64 {
            break;
        }
    }
    let lanes = world.queue("a").await.unwrap().lanes;
    assert_eq!(lanes.tenants + lanes.shared, names.len() as u64 - 1, "two share one");
    let first = world.drain("a").await.split(' ').count();
    assert_eq!(first, names.len() - 1, "those two start one job together");
    push(&world, 2_000, &names.join(" ")).await;
    assert_eq!(served(&world, 1).await, "-", "all lanes are at their rate");
    world.advance(seconds(1)).await;
    assert_eq!(world.drain("a").await.split(' ').count(), names.len() - 1);
}

pub(crate) async fn a_clock_that_is_set_back_holds_a_rate_back_for_one_interval<H: Harness>(
    world: World<H>,
) {
    let mut number = 1;
    for is_running in [true, false] {
        allocate(&world, of_tenants(burst(1)));
        push(&world, number, "h").await;
        assert_eq!(served(&world, 1).await, format!("h{number}"));
        if !is_running {
            world.ack(&format!("h-{number:06}")).await;
        }
        world.clock.set_back(seconds(3_600));
        // This FETCH notices it while the tenant has no jobs that wait.
        assert_eq!(served(&world, 1).await, "-");
        push(&world, number + 1, "h").await;
        assert_eq!(served(&world, 1).await, "-");
        world.advance(seconds(1)).await;
        assert_eq!(served(&world, 1).await, format!("h{}", number + 1), "{is_running}");
        for jid in [number, number + 1] {
            world.store().ack(&[&format!("h-{jid:06}")]).await.unwrap();
        }
        world.advance(seconds(10)).await;
        number += 2;
    }
}

pub(crate) async fn a_clock_that_is_set_back_holds_no_queue_back_beside_another_one<H: Harness>(
    world: World<H>,
) {
    allocate(&world, of_queue(burst(1)));
    push(&world, 1, "h h").await;
    world.push_to("b", "other-001 other-002 other-003").await;
    assert_eq!(world.fetch("a b").await.as_deref(), Some("h-000001"));
    world.clock.set_back(seconds(3_600));
    assert_eq!(world.fetch("a b").await.as_deref(), Some("other-001"));
    world.advance(millis(999)).await;
    assert_eq!(world.fetch("a b").await.as_deref(), Some("other-002"));
    world.advance(millis(1)).await;
    assert_eq!(world.fetch("a b").await.as_deref(), Some("h-000002"));
}

pub(crate) async fn a_fetch_that_waits_across_a_reload_is_served_by_the_new_rate<H: Harness>(
    _: World<H>,
) {
    // The store's own timer serves it.
    let world = World::<H>::on_the_system_clock();
    allocate(&world, of_queue(Rate::new(1, Duration::from_secs(3_600))));
    push(&world, 1, "h h").await;
    assert_eq!(served(&world, 1).await, "h1");
    let waiting = world.wait_as("w1", "a").await;
    allocate(&world, of_queue(Rate::new(1, millis(100))));
    assert_eq!(waiting.jid().await.as_deref(), Some("h-000002"));
}

pub(crate) async fn a_concurrency_and_a_rate_hold_together<H: Harness>(world: World<H>) {
    let mut rules = with(|rules| {
        rules.limits.each = LaneLimits { concurrency: Some(1), rate: Some(burst(2)) };
    });
    allocate(&world, rules.clone());
    push(&world, 1, "h h h h").await;
    assert_eq!(served(&world, 2).await, "h1 -");
    assert_eq!(blocked(&world).await, (3, 0));
    world.ack("h-000001").await;
    assert_eq!(served(&world, 2).await, "h2 -");
    world.ack("h-000002").await;
    assert_eq!((served(&world, 1).await.as_str(), blocked(&world).await), ("-", (0, 2)));
    let waiting = world.wait_as("w2", "a").await;
    world.advance(seconds(1)).await;
    assert_eq!(waiting.jid().await.as_deref(), Some("h-000003"));
    world.advance(seconds(5)).await;
    assert_eq!((served(&world, 1).await.as_str(), blocked(&world).await), ("-", (1, 0)));
    rules.concurrency = Some(1);
    rules.rate = Some(burst(1));
    allocate(&world, rules);
    assert_eq!(blocked(&world).await, (1, 0));
    world.ack("h-000003").await;
    assert_eq!(served(&world, 1).await, "h4");
}

pub(crate) async fn rates_change_at_a_reload<H: Harness>(world: World<H>) {
    let hourly = Rate::new(1, Duration::from_secs(3_600));
    allocate(&world, of_queue(hourly));
    push(&world, 1, "h h h h h").await;
    assert_eq!(served(&world, 2).await, "h1 -");
    allocate(&world, of_queue(burst(1)));
    let waiting = world.wait_as("w1", "a").await;
    assert!(waiting.is_waiting(), "the start counts for the new rate");
    world.advance(seconds(1)).await;
    assert_eq!(waiting.jid().await.as_deref(), Some("h-000002"), "not only after an hour");
    allocate(&world, of_queue(hourly));
    let waiting = world.wait_as("w1", "a").await;
    // Without rules, the queue is not named in them.
    world.store().allocate(Allocation::default());
    assert_eq!(waiting.jid().await.as_deref(), Some("h-000003"));
    allocate(&world, of_tenants(hourly));
    world.advance(seconds(0)).await;
    assert_eq!(served(&world, 2).await, "h4 -");
    allocate(&world, of_tenants(burst(1)));
    world.advance(seconds(1)).await;
    assert_eq!(served(&world, 1).await, "h5");
    push(&world, 6, "h").await;
    assert_eq!(served(&world, 1).await, "-");
    allocate(&world, by_tenant());
    world.advance(seconds(0)).await;
    assert_eq!(served(&world, 1).await, "h6");
}

pub(crate) async fn only_jobs_that_are_handed_out_count_as_starts<H: Harness>(world: World<H>) {
    for rules in [of_queue(burst(1)), of_tenants(burst(1))] {
        allocate(&world, rules);
        let expired = r#""queue":"a","custom":{"tenant":"h","expires_at":"2020-01-01T00:00:00Z"}"#;
        for number in 0..5 {
            world.push_with(&format!("expired-{number}"), expired).await;
        }
        push(&world, 1, "h h").await;
        assert_eq!(served(&world, 2).await, "h1 -");
        // A job that its worker had counts, although it waits again.
        assert_eq!(world.store().release(&Wid::new("w1"), WorkerEnd::Killed).await, Ok(1));
        assert_eq!(served(&world, 1).await, "-");
        world.advance(seconds(1)).await;
        assert_eq!(served(&world, 2).await, "h1 -");
        world.queue_action("a", QueueAction::Clear).await;
        assert_eq!(blocked(&world).await, (0, 0));
        world.ack("h-000001").await;
        world.advance(seconds(1)).await;
    }
}

pub(crate) async fn rates_begin_with_their_burst_after_a_crash<H: Durable>(world: World<H>) {
    let mut rules = of_tenants(burst(2));
    rules.rate = Some(burst(3));
    push(&world, 1, "h h h q q q q").await;
    allocate(&world, rules.clone());
    world.advance(seconds(0)).await;
    assert_eq!(served(&world, 4).await, "h1 q4 h2 -");
    let world = world.restart().await;
    allocate(&world, rules);
    world.advance(seconds(0)).await;
    assert_eq!(served(&world, 4).await, "h1 q4 h2 -", "one more burst, of the same jobs");
}
