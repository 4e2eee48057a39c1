//! How an allocation shares the workers among the queues.

use std::collections::BTreeMap;

use weir_jobs::allocation::{Allocation, DispatchPolicy, QueueAllocation};
use weir_jobs::model::{Wid, WorkerEnd};
use weir_jobs::store::Store;

use super::harness::Harness;
use super::world::{World, queue_name, seconds};

fn allocate<H: Harness>(world: &World<H>, rules: &[(&str, QueueAllocation)]) {
    let queues = rules.iter().map(|(name, rules)| (queue_name(name), rules.clone()));
    let queues = queues.collect::<BTreeMap<_, _>>();
    world.store().allocate(Allocation { queues, ..Allocation::default() });
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

pub(crate) async fn queues_without_rules_of_their_own_have_shares<H: Harness>(world: World<H>) {
    let others = QueueAllocation { share: Some(1), ..QueueAllocation::default() };
    let policy = DispatchPolicy::Weighted;
    world.store().allocate(Allocation { policy, others, ..Allocation::default() });
    push_many(&world, "a", 20).await;
    push_many(&world, "b", 20).await;
    let letters = served(&world, "a b", 20).await;
    assert_eq!(letters.matches('a').count(), 10, "{letters}");
}

pub(crate) async fn a_late_queue_serves_the_newest_and_a_share_of_the_backlog<H: Harness>(
    world: World<H>,
) {
    let target_latency = Some(seconds(5));
    let fresh = QueueAllocation { fresh_lane: true, target_latency, ..QueueAllocation::default() };
    allocate(&world, &[("a", fresh)]);
    push_many(&world, "a", 2).await;
    assert_eq!(world.fetch("a").await.as_deref(), Some("a-000000"), "in time: the oldest first");
    world.advance(seconds(6)).await;
    let new: Vec<String> = (2..10).map(|number| format!("a-{number:06}")).collect();
    world.push_to("a", &new.join(" ")).await;
    let mut numbers = String::new();
    for _ in 0..9 {
        numbers.push_str(&world.fetch("a").await.unwrap()[7..]);
    }
    assert_eq!(numbers, "987612345");
    assert_eq!(world.fetch("a").await, None);
    // All but the one of the backlog, in stores that know it.
    let in_time = world.counts().await.queues[0].in_time;
    assert!(in_time.is_none_or(|starts| starts.total == 9), "{in_time:?}");
}

pub(crate) async fn by_targets_queues_are_guaranteed_what_they_need<H: Harness>(world: World<H>) {
    let target = |seconds_| QueueAllocation {
        target_latency: Some(seconds(seconds_)),
        ..QueueAllocation::default()
    };
    let queues = [(queue_name("a"), target(60)), (queue_name("b"), target(5))];
    world.store().allocate(Allocation {
        policy: DispatchPolicy::Targets,
        queues: BTreeMap::from(queues),
        ..Allocation::default()
    });
    // A job of b arrives every second and takes two seconds: it needs three workers.
    for number in 0..120 {
        world.push_to("b", &format!("measured-{number:04}")).await;
        world.fetch("b").await;
        world.advance(seconds(1)).await;
        if number > 0 {
            world.ack(&format!("measured-{:04}", number - 1)).await;
        }
    }
    world.advance(seconds(1)).await;
    world.ack("measured-0119").await;
    push_many(&world, "a", 9).await;
    push_many(&world, "b", 9).await;
    push_many(&world, "c", 9).await;
    assert_eq!(served(&world, "c a b", 5).await, "bacbb", "one each, by slack; then b");
    // All have what they need: only the queue without a target takes the rest.
    assert_eq!(served(&world, "a b c", 3).await, "ccc");
    world.advance(seconds(3)).await;
    assert_eq!(served(&world, "a b c", 1).await, "b", "it has used half of its target");
    // Too late: what the others leave is shared by weight.
    world.advance(seconds(30)).await;
    assert_eq!(served(&world, "a b c", 1).await, "a");
    world.advance(seconds(86_400)).await;
    let letters = served(&world, "a b c", 9).await;
    assert!(["a", "b", "c"].iter().all(|queue| letters.contains(queue)), "{letters}");
}

pub(crate) async fn by_targets_each_end_of_a_new_job_frees_its_place<H: Harness>(world: World<H>) {
    let target_latency = Some(seconds(5));
    let fresh = QueueAllocation { fresh_lane: true, target_latency, ..QueueAllocation::default() };
    world.store().allocate(Allocation {
        policy: DispatchPolicy::Targets,
        queues: BTreeMap::from([(queue_name("a"), fresh)]),
        ..Allocation::default()
    });
    for end in ["ack", "fail", "lapse", "vanish", "flush", "none"] {
        world.push_to("a", &format!("older-{end}")).await;
        world.advance(seconds(6)).await;
        world.push_to("a", &format!("newer-{end}")).await;
        world.push_to(end, &format!("other-{end}-0 other-{end}-1")).await;
        // Both are guaranteed one worker; a has a target and goes first.
        let queues = format!("{end} a");
        let jid = world.fetch_as("w", &queues).await.unwrap().jid;
        assert_eq!(&*jid, format!("newer-{end}"));
        world.push_to("a", &format!("later-{end}")).await;
        let other = world.fetch(&queues).await;
        assert_eq!(other, Some(format!("other-{end}-0")), "a has its worker");
        match end {
            "ack" => drop(world.ack(&jid).await),
            "fail" => drop(world.fail(&jid).await),
            "lapse" => world.advance(seconds(3_600)).await,
            "vanish" => drop(world.store().release(&Wid::new("w"), WorkerEnd::Killed).await),
            _ => world.store().flush().await.unwrap(),
        }
    }
}

pub(crate) async fn by_targets_jobs_that_are_due_count_as_arrivals<H: Harness>(world: World<H>) {
    world.store().allocate(Allocation { policy: DispatchPolicy::Targets, ..Allocation::default() });
    // Each second one job is due, and takes two seconds: the queue needs three workers.
    for number in 0..120 {
        world.schedule(&format!("due-{number:04}"), seconds(number + 1)).await;
    }
    // Those that wait in the end are due, too: a push would count as an arrival by itself.
    for number in 0..9 {
        world.schedule(&format!("due-last-{number}"), seconds(121)).await;
    }
    for number in 0..120 {
        world.advance(seconds(1)).await;
        world.fetch("default").await;
        if number > 1 {
            world.ack(&format!("due-{:04}", number - 2)).await;
        }
    }
    world.advance(seconds(1)).await;
    world.ack("due-0118").await;
    world.ack("due-0119").await;
    push_many(&world, "c", 9).await;
    let guaranteed = served(&world, "c default", 4).await;
    assert_eq!(guaranteed, "cddd", "one each, then what it needs");
}

pub(crate) async fn the_fresh_lane_counts_the_time_of_workers<H: Harness>(world: World<H>) {
    let target_latency = Some(seconds(60));
    let fresh = QueueAllocation { fresh_lane: true, target_latency, ..QueueAllocation::default() };
    allocate(&world, &[("a", fresh)]);
    let old: Vec<String> = (0..100).map(|number| format!("old-{number:05}")).collect();
    world.push_to("a", &old.join(" ")).await;
    world.advance(seconds(86_400)).await;
    let mut spent = [0, 0];
    for number in 0..300 {
        world.push_to("a", &format!("new-{number:05}")).await;
        let jid = world.fetch("a").await.unwrap();
        // Old jobs take ten times as long.
        let (kind, ran) = if jid.starts_with("old") { (0, 10) } else { (1, 1) };
        spent[kind] += ran;
        world.clock.advance(seconds(ran));
        world.ack(&jid).await;
    }
    let part = spent[0] * 100 / (spent[0] + spent[1]);
    assert!((17..=23).contains(&part), "{spent:?}");
}
