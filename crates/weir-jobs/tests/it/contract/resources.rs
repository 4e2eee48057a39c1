//! Limits that jobs of several types and queues have together.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_jobs::allocation::{Allocation, QueueAllocation, ResourceLimits, ResourceRules};
use weir_jobs::model::{Wid, WorkerEnd};
use weir_jobs::settings::{JobServerSettings, ResourceSettings};
use weir_jobs::store::{Action, QueueAction, Selection, Store};

use super::fair::by_tenant;
use super::harness::{Durable, Harness};
use super::world::{World, queue_name, seconds};

/// A resource for so many jobs at once of these types.
fn limit(most: u32, types: &str) -> ResourceLimits {
    ResourceLimits {
        concurrency: Some(most),
        types: types.split_whitespace().map(str::to_owned).collect(),
        ..ResourceLimits::default()
    }
}

fn of_queue(limits: ResourceLimits, queue: &str) -> ResourceLimits {
    let mut queues = limits.queues;
    queues.insert(queue_name(queue));
    ResourceLimits { queues, ..limits }
}

fn with_rate(rate: &str, types: &str) -> ResourceLimits {
    ResourceLimits { concurrency: None, rate: Some(rate.parse().unwrap()), ..limit(1, types) }
}

fn allocation(resources: &[(&str, ResourceLimits)]) -> Allocation {
    let of = resources.iter().map(|(name, limits)| ((*name).to_owned(), limits.clone()));
    Allocation { resources: ResourceRules { of: of.collect() }, ..Allocation::default() }
}

/// Applies resources, and lets the jobs that wait get other lanes.
async fn allocate<H: Harness>(world: &World<H>, resources: &[(&str, ResourceLimits)]) {
    world.store().allocate(allocation(resources));
    world.advance(Duration::ZERO).await;
}

/// Pushes jobs of types, named by a letter: `A B` are `A-000001` and `B-000002`, counted from `first`. A letter after
/// the type is the tenant.
async fn push<H: Harness>(world: &World<H>, queue: &str, first: usize, jobs: &str) {
    for (number, job) in (first..).zip(jobs.split_whitespace()) {
        let (jobtype, tenant) = job.split_at(1);
        let jid = format!("{job}-{number:06}");
        let custom = format!(r#""custom":{{"tenant":"{tenant}"}}"#);
        let json = format!(
            r#"{{"jid":"{jid}","jobtype":"{jobtype}","args":[],"queue":"{queue}",{custom}}}"#
        );
        world.push_json(&json).await.unwrap();
    }
}

/// Fetches from `queues`, until nothing may start; the type and the number of each job.
async fn served<H: Harness>(world: &World<H>, queues: &str) -> String {
    let mut jobs = Vec::new();
    while let Some(jid) = world.fetch(queues).await {
        jobs.push(short(&jid));
    }
    jobs.join(" ")
}

fn short(jid: &str) -> String {
    let (job, number) = jid.split_once('-').unwrap();
    format!("{job}{}", number.trim_start_matches('0'))
}

async fn used<H: Harness>(world: &World<H>, name: &str) -> (u64, u64) {
    let counts = world.counts().await;
    let resource = counts.resources.iter().find(|resource| resource.name == name).unwrap();
    (resource.used, resource.blocked)
}

pub(crate) async fn a_resource_holds_over_types_and_queues<H: Harness>(world: World<H>) {
    allocate(&world, &[("pay", of_queue(limit(2, "A B"), "c"))]).await;
    push(&world, "a", 1, "A A A").await;
    push(&world, "b", 4, "B X").await;
    push(&world, "c", 6, "X X").await;
    assert_eq!(served(&world, "a").await, "A1 A2");
    assert_eq!(served(&world, "b c a").await, "X5", "of no resource in b");
    let waiting = world.wait_as("w2", "c").await;
    world.ack("A-000001").await;
    assert_eq!(waiting.jid().await.as_deref(), Some("X-000006"), "of another queue");
    assert_eq!(served(&world, "a b c").await, "");
    world.ack("A-000002").await;
    world.ack("X-000006").await;
    assert_eq!(served(&world, "c b a").await, "X7 B4");
}

pub(crate) async fn other_types_of_a_queue_start_in_their_order<H: Harness>(world: World<H>) {
    allocate(&world, &[("one", limit(1, "A")), ("two", limit(2, "B"))]).await;
    push(&world, "a", 1, "X A X B A X B B X").await;
    assert_eq!(served(&world, "a").await, "X1 A2 X3 B4 X6 B7 X9");
    world.ack("A-000002").await;
    push(&world, "a", 10, "X A").await;
    assert_eq!(served(&world, "a").await, "A5 X10");
    world.ack("B-000004").await;
    world.ack("A-000005").await;
    assert_eq!(served(&world, "a").await, "B8 A11");
}

pub(crate) async fn a_job_starts_when_all_its_resources_have_room<H: Harness>(world: World<H>) {
    let rules = [("one", limit(1, "A")), ("two", of_queue(limit(2, "A B"), "c"))];
    allocate(&world, &rules).await;
    push(&world, "a", 1, "B B A").await;
    push(&world, "c", 4, "A X").await;
    assert_eq!(served(&world, "a c").await, "B1 B2");
    assert_eq!((used(&world, "one").await, used(&world, "two").await), ((0, 0), (2, 3)));
    let waiting = world.wait_as("w2", "c a").await;
    world.ack("B-000001").await;
    let first = waiting.jid().await.unwrap();
    assert!(["A-000003", "A-000004"].contains(&first.as_str()), "{first}");
    world.ack("B-000002").await;
    // One of `two` is free, and `one` is not.
    assert_eq!(served(&world, "a").await, "");
    assert_eq!(used(&world, "two").await.0, 1);
    world.ack(&first).await;
    assert_eq!(served(&world, "c a").await.split(' ').count(), 2);
}

pub(crate) async fn a_rate_holds_over_queues<H: Harness>(world: World<H>) {
    allocate(&world, &[("api", with_rate("1/s burst 2", "A B"))]).await;
    push(&world, "a", 1, "A A X").await;
    push(&world, "b", 4, "B B").await;
    assert_eq!(served(&world, "a b").await, "A1 A2 X3");
    world.ack("A-000001").await;
    assert_eq!(served(&world, "a b").await, "", "the end of a job does not give its start back");
    let waiting = world.wait_as("w2", "b").await;
    world.advance(Duration::from_millis(999)).await;
    assert!(waiting.is_waiting());
    world.advance(Duration::from_millis(1)).await;
    assert_eq!(waiting.jid().await.as_deref(), Some("B-000004"));
    world.advance(seconds(100)).await;
    push(&world, "a", 6, "A A A").await;
    assert_eq!(served(&world, "b a").await, "B5 A6");
    allocate(&world, &[("api", with_rate("1/s burst 3", "A B"))]).await;
    assert_eq!(served(&world, "a").await, "A7", "two starts count");
}

/// Fetches a job of `a`, then lets a fetch wait for each queue in `fetches`. Each job of type `A`
/// that one gets ends (or a second passes), and the fetch waits again. Returns the queues that were served.
async fn turns<H: Harness>(world: &World<H>, fetches: &str, has_rate: bool) -> String {
    for queue in ["a", "b", "c"] {
        for number in 0..9 {
            let json = format!(
                r#"{{"jid":"{queue}-00000{number}","jobtype":"A","args":[],"queue":"{queue}"}}"#
            );
            world.push_json(&json).await.unwrap();
        }
    }
    let mut running = world.fetch("a").await.unwrap();
    let mut waiting = Vec::new();
    for queue in fetches.split_whitespace() {
        waiting.push((queue, world.wait_as("w2", queue).await));
    }
    let mut order = String::new();
    for _ in 0..6 {
        if has_rate {
            world.advance(seconds(1)).await;
        } else {
            world.ack(&running).await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let served = waiting.iter().position(|(_, waiting)| !waiting.is_waiting());
        let (queue, fetch) = waiting.remove(served.expect("one of them got a job"));
        order.push_str(queue);
        running = fetch.jid().await.unwrap();
        waiting.push((queue, world.wait_as("w2", queue).await));
    }
    order
}

pub(crate) async fn queues_get_a_resource_in_turn<H: Harness>(world: World<H>) {
    allocate(&world, &[("one", limit(1, "A"))]).await;
    assert_eq!(turns(&world, "a b c", false).await, "abcabc");
}

pub(crate) async fn many_fetches_of_a_queue_keep_no_resource_from_others<H: Harness>(
    world: World<H>,
) {
    allocate(&world, &[("one", limit(1, "A"))]).await;
    assert_eq!(turns(&world, "a a a a b", false).await, "ababab");
}

pub(crate) async fn queues_get_the_rate_of_a_resource_in_turn<H: Harness>(world: World<H>) {
    allocate(&world, &[("one", with_rate("1/s", "A"))]).await;
    assert_eq!(turns(&world, "a b c", true).await, "abcabc");
}

pub(crate) async fn many_fetches_of_a_queue_keep_no_rate_from_others<H: Harness>(world: World<H>) {
    let limits = ResourceLimits { concurrency: Some(9), ..with_rate("1/s", "") };
    allocate(&world, &[("one", of_queue(of_queue(limits, "b"), "a"))]).await;
    assert_eq!(turns(&world, "a a a a b", true).await, "ababab");
}

pub(crate) async fn a_tenant_whose_next_job_waits_is_left_out<H: Harness>(world: World<H>) {
    let queues = BTreeMap::from([(queue_name("a"), by_tenant())]);
    let rules = allocation(&[("one", limit(1, "A"))]);
    world.store().allocate(Allocation { queues, ..rules });
    push(&world, "a", 1, "Ah Ah Xh Aq Xq Xr Ar").await;
    push(&world, "b", 8, "X").await;
    assert_eq!(served(&world, "a b").await, "Ah1 Xr6 X8", "and the queue is left out then");
    assert_eq!(used(&world, "one").await, (1, 5), "and those behind them, of the same tenants");
    push(&world, "a", 9, "Ar").await;
    // In the memory store, a tenant whose jobs changed counts after the next fetch.
    assert_eq!(served(&world, "a").await, "");
    assert_eq!(used(&world, "one").await, (1, 6));
    world.act_on("queue:a", "Ar-000009", Action::Discard).await;
    assert_eq!(served(&world, "a").await, "");
    assert_eq!(used(&world, "one").await, (1, 5));
    // Its next job is another one now.
    world.act_on("queue:a", "Aq-000004", Action::Discard).await;
    assert_eq!(served(&world, "a").await, "Xq5");
    let waiting = world.wait_as("w2", "a").await;
    world.ack("Ah-000001").await;
    assert_eq!(waiting.jid().await.as_deref(), Some("Ah-000002"));
    assert_eq!(served(&world, "a").await, "Xh3");
    world.ack("Ah-000002").await;
    assert_eq!(served(&world, "a").await, "Ar7");
    assert_eq!(used(&world, "one").await, (1, 0));
}

pub(crate) async fn every_end_of_a_job_frees_its_resources<H: Harness>(world: World<H>) {
    allocate(&world, &[("one", limit(1, "A"))]).await;
    for end in ["ack", "fail", "lapse", "killed", "stopped"] {
        push(&world, "a", 1, "A").await;
        push(&world, "b", 2, "A").await;
        assert_eq!(world.fetch("a b").await.as_deref(), Some("A-000001"));
        let waiting = world.wait_as("w2", "b").await;
        match end {
            "ack" => drop(world.ack("A-000001").await),
            "fail" => drop(world.fail("A-000001").await),
            "lapse" => world.advance(seconds(1_800)).await,
            _ => {
                let how = if end == "killed" { WorkerEnd::Killed } else { WorkerEnd::Stopped };
                assert_eq!(world.store().release(&Wid::new("w1"), how).await, Ok(1));
            }
        }
        assert_eq!(waiting.jid().await.as_deref(), Some("A-000002"), "{end}");
        assert_eq!(used(&world, "one").await.0, 1, "{end}");
        world.store().flush().await.unwrap();
        assert_eq!(used(&world, "one").await, (0, 0));
    }
    // A fetch that is given up.
    push(&world, "a", 1, "A").await;
    let stuck = world.stuck_fetch("w3", "b").await;
    push(&world, "b", 2, "A").await;
    drop(stuck);
    assert_eq!(served(&world, "b a").await, "A2");
}

pub(crate) async fn resources_change_while_jobs_wait_and_run<H: Harness>(world: World<H>) {
    push(&world, "a", 1, "A A A B B X").await;
    assert_eq!(world.fetch("a").await.as_deref(), Some("A-000001"));
    allocate(&world, &[("one", limit(2, "A"))]).await;
    assert_eq!(used(&world, "one").await.0, 1, "a job that ran before counts");
    assert_eq!(served(&world, "a").await, "A2 B4 B5 X6");
    let waiting = world.wait_as("w2", "a").await;
    allocate(&world, &[("one", limit(3, "A"))]).await;
    assert_eq!(waiting.jid().await.as_deref(), Some("A-000003"), "it was raised");
    push(&world, "a", 7, "A B").await;
    // Three of A run, and three jobs of no type in it.
    allocate(&world, &[("0", limit(3, "B")), ("one", limit(3, "A"))]).await;
    assert_eq!((used(&world, "0").await.0, used(&world, "one").await.0), (2, 3));
    assert_eq!(served(&world, "a").await, "B8");
    let waiting = world.wait_as("w2", "a").await;
    allocate(&world, &[("0", limit(3, "B"))]).await;
    assert_eq!(waiting.jid().await.as_deref(), Some("A-000007"), "it was removed");
    world.ack("B-000004").await;
    assert_eq!(used(&world, "0").await.0, 2);
    push(&world, "a", 9, "A").await;
    allocate(&world, &[("all", of_queue(limit(7, ""), "a"))]).await;
    assert_eq!(used(&world, "all").await, (7, 1));
    world.store().allocate(Allocation::default());
    assert_eq!(served(&world, "a").await, "A9");
}

pub(crate) async fn many_jobs_get_other_lanes_when_types_change<H: Harness>(world: World<H>) {
    let jobs: Vec<&str> = (0..900).map(|number| if number % 3 == 2 { "X" } else { "A" }).collect();
    push(&world, "a", 1, &jobs.join(" ")).await;
    world.store().allocate(allocation(&[("one", limit(1, "A"))]));
    let mut others = 0;
    let mut last = 0;
    for _ in 0..1_000 {
        let Some(jid) = world.fetch("a").await else {
            world.advance(Duration::ZERO).await;
            continue;
        };
        let (jobtype, number) = jid.split_once('-').unwrap();
        if jobtype == "X" {
            let number: u32 = number.parse().unwrap();
            assert!(number > last, "in their order");
            (others, last) = (others + 1, number);
        } else {
            assert_eq!(number, "000001", "only one of them runs");
        }
    }
    assert_eq!((others, world.depth("a").await), (300, 599));
}

pub(crate) async fn the_fresh_lane_serves_the_newest_job_that_may_start<H: Harness>(
    world: World<H>,
) {
    let rules = QueueAllocation {
        fresh_lane: true,
        target_latency: Some(seconds(10)),
        ..QueueAllocation::default()
    };
    let queues = BTreeMap::from([(queue_name("a"), rules)]);
    world.store().allocate(Allocation { queues, ..allocation(&[("one", limit(1, "A"))]) });
    push(&world, "a", 1, "A X").await;
    assert_eq!(world.fetch("a").await.as_deref(), Some("A-000001"));
    world.advance(seconds(20)).await;
    push(&world, "a", 3, "X A").await;
    assert_eq!(world.fetch("a").await.as_deref(), Some("X-000003"), "the newest may not start");
    assert_eq!(served(&world, "a").await, "X2");
    world.ack("A-000001").await;
    assert_eq!(served(&world, "a").await, "A4");
}

pub(crate) async fn a_tenant_waits_for_the_job_at_either_end_in_the_fresh_lane<H: Harness>(
    world: World<H>,
) {
    let rules =
        QueueAllocation { fresh_lane: true, target_latency: Some(seconds(10)), ..by_tenant() };
    let queues = ["a", "c"].map(|queue| (queue_name(queue), rules.clone()));
    let resources = allocation(&[("one", limit(1, "A")), ("two", limit(1, "B"))]);
    world.store().allocate(Allocation { queues: queues.into(), ..resources });
    push(&world, "b", 1, "A B").await;
    assert_eq!(served(&world, "b").await, "A1 B2");
    push(&world, "a", 3, "Ah").await;
    world.advance(seconds(20)).await;
    push(&world, "a", 4, "Bh").await;
    assert_eq!(served(&world, "a").await, "");
    assert_eq!(used(&world, "one").await, (1, 2), "the oldest counts, with those behind it");
    let waiting = world.wait_as("w2", "a").await;
    world.ack("B-000002").await;
    assert_eq!(waiting.jid().await.as_deref(), Some("Bh-000004"), "its newest");
    let waiting = world.wait_as("w2", "a").await;
    world.ack("A-000001").await;
    assert_eq!(waiting.jid().await.as_deref(), Some("Ah-000003"), "its oldest");
    // While all jobs are in time, the oldest is first.
    push(&world, "c", 5, "Ah").await;
    assert_eq!(served(&world, "c").await, "");
    push(&world, "c", 6, "Xh").await;
    assert_eq!(served(&world, "c").await, "Xh6");
}

pub(crate) async fn a_flush_lets_the_rate_of_a_resource_begin_anew<H: Harness>(world: World<H>) {
    allocate(&world, &[("api", with_rate("1/h", "A"))]).await;
    push(&world, "a", 1, "A A").await;
    assert_eq!(served(&world, "a").await, "A1");
    world.store().flush().await.unwrap();
    push(&world, "a", 3, "A A").await;
    assert_eq!(served(&world, "a").await, "A3");
}

pub(crate) async fn an_operator_moves_and_deletes_jobs_that_wait_for_a_resource<H: Harness>(
    world: World<H>,
) {
    allocate(&world, &[("one", limit(1, "A"))]).await;
    push(&world, "a", 1, "A A A A").await;
    assert_eq!(served(&world, "a").await, "A1");
    world.act_on("queue:a", "A-000002", Action::Kill).await;
    assert_eq!(world.act("dead", Selection::All, Action::Requeue).await, 1);
    world.act_on("queue:a", "A-000003", Action::Discard).await;
    world.ack("A-000001").await;
    assert_eq!(served(&world, "a").await, "A4");
    world.ack("A-000004").await;
    assert_eq!(served(&world, "a").await, "A2", "at the end of the queue");
    push(&world, "a", 5, "A A").await;
    world.queue_action("a", QueueAction::Remove).await;
    assert_eq!(used(&world, "one").await, (1, 0));
    push(&world, "a", 7, "A X").await;
    assert_eq!(served(&world, "a").await, "X8");
    world.ack("A-000002").await;
    assert_eq!(served(&world, "a").await, "A7");
}

pub(crate) async fn resources_are_counted<H: Harness>(world: World<H>) {
    let slow = ResourceLimits { rate: Some("1/h".parse().unwrap()), ..limit(9, "B") };
    allocate(&world, &[("one", limit(1, "A B")), ("slow", slow)]).await;
    push(&world, "a", 1, "A A B B X").await;
    assert_eq!(served(&world, "a").await, "A1 X5");
    let queue = world.queue("a").await.unwrap();
    assert_eq!(queue.blocked.resource, 3);
    assert_eq!(queue.blocked_by_resource, [("one".to_owned(), 3)]);
    world.ack("A-000001").await;
    assert_eq!(served(&world, "a").await, "A2");
    world.ack("A-000002").await;
    assert_eq!(served(&world, "a").await, "B3");
    let queue = world.queue("a").await.unwrap();
    assert_eq!(queue.blocked_by_resource, [("one".to_owned(), 1), ("slow".to_owned(), 1)]);
    assert_eq!((queue.blocked.resource, queue.blocked.total()), (1, 1));
    assert_eq!(queue.lanes.tenants, 0, "its lanes are no tenants");
    let resources = world.counts().await.resources;
    let of = |name: &str| resources.iter().find(|resource| resource.name == name).unwrap();
    assert_eq!((of("one").concurrency, of("one").rate.as_deref()), (Some(1), None));
    assert_eq!((of("slow").used, of("slow").rate.as_deref()), (1, Some("1/h")));
}

pub(crate) async fn jobs_in_progress_count_after_a_restart<H: Durable>(_: World<H>) {
    let one = ResourceSettings {
        concurrency: Some(2),
        types: vec!["A".to_owned()],
        ..ResourceSettings::default()
    };
    let resources = BTreeMap::from([("one".to_owned(), one)]);
    let settings = JobServerSettings { resources, ..JobServerSettings::default() };
    let world = World::<H>::open(settings);
    push(&world, "a", 1, "A A A X").await;
    push(&world, "b", 5, "A X").await;
    assert_eq!(served(&world, "a b").await, "A1 A2 X4 X6");
    let world = world.restart().await;
    world.advance(Duration::ZERO).await;
    assert_eq!(used(&world, "one").await, (2, 2));
    assert_eq!(served(&world, "a b").await, "X4 X6", "they were under no limit");
    let waiting = world.wait_as("w2", "b").await;
    world.ack("A-000001").await;
    assert_eq!(waiting.jid().await.as_deref(), Some("A-000005"));
    world.ack("A-000002").await;
    assert_eq!(served(&world, "b a").await, "A3");
}
