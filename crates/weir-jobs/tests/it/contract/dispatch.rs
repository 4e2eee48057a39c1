//! How an allocation shares the workers among the queues.

use std::collections::BTreeMap;

use weir_jobs::allocation::{Allocation, QueueAllocation};
use weir_jobs::store::Store;

use super::harness::Harness;
use super::world::{World, queue_name, seconds};

fn allocate<H: Harness>(world: &World<H>, rules: &[(&str, QueueAllocation)]) {
    let queues = rules.iter().map(|(name, rules)| (queue_name(name), rules.clone()));
    world.store().allocate(Allocation { queues: queues.collect::<BTreeMap<_, _>>() });
}

async fn push_many<H: Harness>(world: &World<H>, queue: &str, count: usize) {
    let jids: Vec<String> = (0..count).map(|n| format!("{queue}-{n:06}")).collect();
    world.push_to(queue, &jids.join(" ")).await;
}

/// The queues that serve so many fetches in a row; each queue has a name of one letter.
async fn served<H: Harness>(world: &World<H>, queues: &str, fetches: usize) -> String {
    let mut letters = String::new();
    for _ in 0..fetches {
        let jid = world.fetch(queues).await;
        letters.push_str(jid.as_deref().map_or("-", |jid| &jid[..1]));
    }
    letters
}

pub(crate) async fn a_cap_holds_over_all_workers<H: Harness>(world: World<H>) {
    let capped = QueueAllocation { concurrency: Some(2), ..QueueAllocation::default() };
    allocate(&world, &[("a", capped)]);
    push_many(&world, "a", 5).await;
    push_many(&world, "b", 2).await;
    assert!(world.fetch_as("w1", "a").await.is_some());
    assert!(world.fetch_as("w2", "a").await.is_some());
    assert!(world.fetch_as("w3", "a").await.is_none());
    assert_eq!(served(&world, "a b", 3).await, "bb-");
    world.ack("a-000000").await;
    world.fail("a-000001").await;
    assert_eq!(served(&world, "a", 3).await, "aa-");
}

pub(crate) async fn a_guarantee_goes_before_the_order<H: Harness>(world: World<H>) {
    let guaranteed = QueueAllocation { guaranteed_slots: 2, ..QueueAllocation::default() };
    allocate(&world, &[("b", guaranteed)]);
    push_many(&world, "a", 5).await;
    push_many(&world, "b", 5).await;
    assert_eq!(served(&world, "a b", 4).await, "bbaa");
    world.ack("b-000000").await;
    assert_eq!(served(&world, "a b", 2).await, "ba");
}

pub(crate) async fn shares_are_kept<H: Harness>(world: World<H>) {
    let share = |share| QueueAllocation { share: Some(share), ..QueueAllocation::default() };
    allocate(&world, &[("a", share(3)), ("b", share(1))]);
    push_many(&world, "a", 20).await;
    push_many(&world, "b", 20).await;
    let letters = served(&world, "a b", 20).await;
    assert_eq!(letters.matches('a').count(), 15, "{letters}");
    assert_eq!(letters.matches('b').count(), 5, "{letters}");
}

pub(crate) async fn a_late_queue_serves_the_newest_and_a_share_of_the_backlog<H: Harness>(
    world: World<H>,
) {
    let target_latency = Some(seconds(5));
    let fresh = QueueAllocation { fresh_lane: true, target_latency, ..QueueAllocation::default() };
    allocate(&world, &[("a", fresh)]);
    push_many(&world, "a", 10).await;
    assert_eq!(world.fetch("a").await.as_deref(), Some("a-000000"), "in time: the oldest first");
    world.advance(seconds(6)).await;
    let mut numbers = String::new();
    for _ in 0..9 {
        numbers.push_str(&world.fetch("a").await.unwrap()[7..]);
    }
    assert_eq!(numbers, "987615432");
    assert_eq!(world.fetch("a").await, None);
}
