//! How the tenants of a queue share its workers.

use std::collections::BTreeMap;

use weir_jobs::allocation::{Allocation, FairRules, LaneLimits, QueueAllocation, TenantLimits};
use weir_jobs::model::{Wid, WorkerEnd};
use weir_jobs::store::{Action, QueueAction, Selection, Store};

use super::harness::{Durable, Harness};
use super::world::{World, place, queue_name, seconds};

pub(super) fn by_tenant() -> QueueAllocation {
    let by = "custom.tenant".parse().unwrap();
    let (weights, limits) = (BTreeMap::new(), TenantLimits::default());
    let rules = FairRules { by, headroom: 0, tenants_max: 100, weights, limits };
    QueueAllocation { fair: Some(rules), ..QueueAllocation::default() }
}

pub(super) fn with(change: impl FnOnce(&mut FairRules)) -> QueueAllocation {
    let mut allocation = by_tenant();
    change(allocation.fair.as_mut().unwrap());
    allocation
}

pub(super) fn allocate<H: Harness>(world: &World<H>, rules: QueueAllocation) {
    let queues = BTreeMap::from([(queue_name("a"), rules)]);
    world.store().allocate(Allocation { queues, ..Allocation::default() });
}

/// Pushes jobs of tenants, named by a letter: `h h q` are `h-000000`, `h-000001` and `q-000002`, counted
/// from `first`.
pub(super) async fn push<H: Harness>(world: &World<H>, first: usize, tenants: &str) {
    for (number, tenant) in (first..).zip(tenants.split_whitespace()) {
        let members = format!(r#""queue":"a","custom":{{"tenant":"{tenant}"}}"#);
        world.push_with(&format!("{tenant}-{number:06}"), &members).await;
    }
}

/// Fetches jobs; the tenant and the number of each.
pub(super) async fn served<H: Harness>(world: &World<H>, fetches: usize) -> String {
    let mut jobs = Vec::new();
    for _ in 0..fetches {
        let jid = world.fetch("a").await;
        let short =
            jid.as_deref().map(|jid| format!("{}{}", &jid[..1], jid[2..].trim_start_matches('0')));
        jobs.push(short.unwrap_or_else(|| "-".to_owned()));
    }
    jobs.join(" ")
}

pub(crate) async fn each_tenant_gets_its_share<H: Harness>(world: World<H>) {
    allocate(&world, by_tenant());
    push(&world, 1, "h h h h h h q q r").await;
    assert_eq!(served(&world, 6).await, "h1 q7 r9 h2 q8 h3");
    world.ack("h-000001").await;
    world.ack("h-000002").await;
    world.ack("h-000003").await;
    push(&world, 10, "q").await;
    // q has two in progress, h none.
    assert_eq!(served(&world, 5).await, "h4 h5 h6 q10 -");
}

pub(crate) async fn jobs_without_a_tenant_share_one_lane<H: Harness>(world: World<H>) {
    allocate(&world, by_tenant());
    world.push_to("a", "none-0001 none-0002 none-0003").await;
    push(&world, 4, "q").await;
    assert_eq!(world.drain("a").await, "none-0001 q-000004 none-0002 none-0003");
}

pub(crate) async fn a_tenant_of_slow_jobs_pays_for_them<H: Harness>(world: World<H>) {
    allocate(&world, by_tenant());
    push(&world, 0, &"s ".repeat(30)).await;
    push(&world, 100, &"f ".repeat(200)).await;
    let mut spent = BTreeMap::<String, u64>::new();
    // One worker, for 200 seconds.
    for _ in 0..200 {
        let jid = world.fetch("a").await.unwrap();
        let took = if jid.starts_with('s') { 9 } else { 1 };
        world.advance(seconds(took)).await;
        world.ack(&jid).await;
        let spent = spent.entry(jid[..1].to_owned()).or_default();
        *spent += took;
        if *spent >= 100 {
            break;
        }
    }
    assert!(spent["s"].abs_diff(spent["f"]) <= 9, "{spent:?}");
}

pub(crate) async fn failures_and_lapsed_jobs_are_charged<H: Harness>(world: World<H>) {
    allocate(&world, by_tenant());
    for end in ["fail", "lapse"] {
        push(&world, 0, "x y").await;
        let first = world.fetch("a").await.unwrap();
        world.advance(seconds(60)).await;
        match end {
            "fail" => drop(world.fail(&first).await),
            _ => world.advance(seconds(1_800)).await,
        }
        push(&world, 10, &first[..1]).await;
        // The other one has used no time.
        assert_ne!(
            world.fetch("a").await.map(|jid| jid[..1].to_owned()),
            Some(first[..1].to_owned())
        );
        world.store().flush().await.unwrap();
    }
}

pub(crate) async fn jobs_of_a_vanished_worker_return_in_their_order<H: Harness>(world: World<H>) {
    allocate(&world, by_tenant());
    push(&world, 1, "h h h q h q h q").await;
    let first = served(&world, 5).await;
    assert_eq!(first, "h1 q4 h2 q6 h3");
    assert_eq!(world.store().release(&Wid::new("w1"), WorkerEnd::Killed).await, Ok(5));
    // Nothing was charged.
    assert_eq!(served(&world, 8).await, "h1 q4 h2 q6 h3 q8 h5 h7");
    assert_eq!(world.census().await, (0, 8, 0, 0, 0));
}

pub(crate) async fn weights_divide_the_workers<H: Harness>(world: World<H>) {
    allocate(&world, with(|rules| rules.weights = BTreeMap::from([("big".to_owned(), 3)])));
    for number in 0..12 {
        for tenant in ["big", "one"] {
            let members = format!(r#""queue":"a","custom":{{"tenant":"{tenant}"}}"#);
            world.push_with(&format!("{tenant}-{number:06}"), &members).await;
        }
    }
    let mut big = 0;
    for _ in 0..12 {
        big += usize::from(world.fetch("a").await.unwrap().starts_with("big"));
    }
    assert_eq!(big, 9);
    allocate(&world, by_tenant());
    let next =
        [world.fetch("a").await, world.fetch("a").await].map(|jid| jid.unwrap()[..3].to_owned());
    assert_eq!(next, ["one", "one"], "it has fewer in progress now");
}

/// Returns how many jobs wait for a limit.
async fn blocked<H: Harness>(world: &World<H>) -> u64 {
    world.store().counts().await.queues.iter().map(|queue| queue.blocked.total()).sum()
}

pub(crate) async fn a_tenant_at_its_limit_waits_for_the_end_of_its_jobs<H: Harness>(
    world: World<H>,
) {
    allocate(&world, with(|rules| rules.limits.each.concurrency = Some(2)));
    push(&world, 1, "h h h h h h q").await;
    assert_eq!(served(&world, 4).await, "h1 q7 h2 -");
    assert_eq!(blocked(&world).await, 4);
    let waiting = world.wait_as("w2", "a").await;
    push(&world, 8, "h").await;
    assert!(waiting.is_waiting());
    assert_eq!(blocked(&world).await, 5);
    world.ack("h-000001").await;
    assert_eq!(waiting.jid().await.as_deref(), Some("h-000003"));
    world.fail("h-000002").await;
    assert_eq!(served(&world, 2).await, "h4 -");
    assert_eq!(world.store().release(&Wid::new("w2"), WorkerEnd::Killed).await, Ok(1));
    assert_eq!(served(&world, 2).await, "h3 -");
    let waiting = world.wait_as("w2", "a").await;
    world.advance(seconds(1_800)).await;
    assert_eq!(waiting.jid().await.as_deref(), Some("h-000005"), "the leases have ended");
    assert_eq!(served(&world, 2).await, "h6 -");
    // The one that failed is due again.
    assert_eq!(blocked(&world).await, 2);
}

pub(crate) async fn limits_of_tenants_change_at_a_reload<H: Harness>(world: World<H>) {
    let own = |most| {
        let limits = LaneLimits { concurrency: Some(most), ..LaneLimits::default() };
        BTreeMap::from([("h".to_owned(), limits)])
    };
    allocate(&world, with(|rules| rules.limits.of = own(1)));
    push(&world, 1, "h h h h q q q").await;
    assert_eq!(served(&world, 5).await, "h1 q5 q6 q7 -");
    let waiting = world.wait_as("w2", "a").await;
    allocate(&world, with(|rules| rules.limits.of = own(2)));
    assert_eq!(waiting.jid().await.as_deref(), Some("h-000002"));
    allocate(&world, with(|rules| rules.limits.each.concurrency = Some(3)));
    world.advance(seconds(0)).await;
    // Those in progress count.
    push(&world, 8, "q").await;
    assert_eq!(served(&world, 2).await, "h3 -");
    assert_eq!(blocked(&world).await, 2);
    allocate(&world, by_tenant());
    world.advance(seconds(0)).await;
    assert_eq!(blocked(&world).await, 0);
    let next = served(&world, 2).await;
    assert!(["h4 q8", "q8 h4"].contains(&next.as_str()), "{next}");
    let capped = QueueAllocation { concurrency: Some(6), ..by_tenant() };
    allocate(&world, capped);
    push(&world, 9, "q q").await;
    assert_eq!((served(&world, 1).await.as_str(), blocked(&world).await), ("-", 2));
}

pub(crate) async fn a_change_of_the_tenants_leaves_them_in_order<H: Harness>(world: World<H>) {
    push(&world, 1, "h h h h q q").await;
    assert_eq!(served(&world, 2).await, "h1 h2");
    allocate(&world, by_tenant());
    world.advance(seconds(0)).await;
    // Those in progress count.
    assert_eq!(served(&world, 2).await, "q5 q6");
    push(&world, 7, "q h").await;
    assert_eq!(served(&world, 2).await, "h3 q7");
    world.ack("h-000001").await;
    allocate(&world, with(|rules| rules.by = "/jobtype".parse().unwrap()));
    assert_eq!(served(&world, 1).await, "h4", "all are of one tenant");
    world.store().release(&Wid::new("w1"), WorkerEnd::Killed).await.unwrap();
    allocate(&world, by_tenant());
    world.advance(seconds(0)).await;
    assert_eq!(served(&world, 7).await, "h2 q5 h3 q6 h4 q7 h8");
    allocate(&world, QueueAllocation::default());
    push(&world, 9, "h h q").await;
    assert_eq!(served(&world, 4).await, "h9 h10 q11 -");
}

pub(crate) async fn many_jobs_get_other_lanes_while_workers_fetch<H: Harness>(world: World<H>) {
    push(&world, 0, &"h ".repeat(700)).await;
    push(&world, 700, &"q ".repeat(20)).await;
    allocate(&world, by_tenant());
    let mut jobs = BTreeMap::<String, Vec<String>>::new();
    for number in 0..720 {
        if number % 50 == 0 {
            world.advance(seconds(0)).await;
        }
        let jid = world.fetch("a").await.unwrap();
        jobs.entry(jid[..1].to_owned()).or_default().push(jid);
    }
    for (tenant, jids) in &jobs {
        assert!(jids.is_sorted(), "the order of {tenant}");
    }
    assert_eq!((jobs["h"].len(), jobs["q"].len()), (700, 20));
}

pub(crate) async fn the_last_slots_are_for_tenants_below_their_share<H: Harness>(world: World<H>) {
    let mut rules = with(|rules| rules.headroom = 2);
    rules.concurrency = Some(6);
    allocate(&world, rules);
    push(&world, 1, "h h h h h h").await;
    assert_eq!(served(&world, 5).await, "h1 h2 h3 h4 -");
    push(&world, 7, "q").await;
    assert_eq!(served(&world, 2).await, "q7 -");
    let waiting = world.wait_as("w2", "a").await;
    world.ack("h-000001").await;
    assert!(waiting.is_waiting(), "two are free");
    world.ack("q-000007").await;
    assert_eq!(waiting.jid().await.as_deref(), Some("h-000005"));
}

pub(crate) async fn fetches_that_wait_are_the_free_slots<H: Harness>(world: World<H>) {
    allocate(&world, with(|rules| rules.headroom = 1));
    let first = world.wait_as("w1", "a").await;
    let second = world.wait_as("w2", "a").await;
    let third = world.wait_as("w3", "b a").await;
    push(&world, 1, "h h h h").await;
    assert_eq!(first.jid().await.as_deref(), Some("h-000001"));
    assert_eq!(second.jid().await.as_deref(), Some("h-000002"));
    assert!(third.is_waiting(), "the last one is for another tenant");
    push(&world, 5, "q").await;
    assert_eq!(third.jid().await.as_deref(), Some("q-000005"));
    // A queue that is held back does not keep others waiting.
    world.push_to("b", "other-001").await;
    assert_eq!(world.fetch("a b").await.as_deref(), Some("other-001"));
}

pub(crate) async fn removed_jobs_leave_their_lanes<H: Harness>(world: World<H>) {
    allocate(&world, by_tenant());
    push(&world, 1, "h h h h q q").await;
    assert_eq!(world.act_on("queue:a", "h-000001", Action::Discard).await, 1);
    assert_eq!(world.act_on("queue:a", "h-000003", Action::Kill).await, 1);
    assert_eq!(world.act_on("queue:a", "h-000002", Action::Requeue).await, 1);
    let key = world.key("queue:a", "q-000005").await;
    let moved = world.store().move_to(&place("queue:a"), &[key], &queue_name("b"), false).await;
    assert_eq!(moved, Ok(1));
    assert_eq!(served(&world, 4).await, "h4 q6 h2 -");
    assert_eq!(world.fetch("b").await.as_deref(), Some("q-000005"));
    push(&world, 7, "h q q").await;
    world.queue_action("a", QueueAction::Pause).await;
    assert_eq!(served(&world, 1).await, "-");
    world.queue_action("a", QueueAction::Clear).await;
    world.queue_action("a", QueueAction::Resume).await;
    push(&world, 10, "q h").await;
    assert_eq!(served(&world, 3).await, "q10 h11 -");
    world.queue_action("a", QueueAction::Remove).await;
    push(&world, 12, "h h q").await;
    assert_eq!(world.act("queue:a", Selection::All, Action::Requeue).await, 3);
    // All have two or three in progress.
    assert_eq!(served(&world, 4).await, "q14 h12 h13 -");
    world.store().flush().await.unwrap();
    push(&world, 15, "h h q").await;
    assert_eq!(served(&world, 4).await, "h15 q17 h16 -");
}

pub(crate) async fn expired_jobs_are_dropped_from_lanes<H: Harness>(world: World<H>) {
    allocate(&world, by_tenant());
    let expired = r#""queue":"a","custom":{"tenant":"h","expires_at":"2020-01-01T00:00:00Z"}"#;
    for number in 0..100 {
        world.push_with(&format!("expired-{number:04}"), expired).await;
    }
    push(&world, 1, "h q").await;
    let mut jids = Vec::new();
    for _ in 0..10 {
        jids.extend(world.fetch("a").await);
        world.advance(seconds(0)).await;
    }
    jids.sort_unstable();
    assert_eq!(jids, ["h-000001", "q-000002"]);
}

pub(crate) async fn the_fresh_lane_serves_the_newest_job_of_the_tenant<H: Harness>(
    world: World<H>,
) {
    let target_latency = Some(seconds(5));
    allocate(&world, QueueAllocation { fresh_lane: true, target_latency, ..by_tenant() });
    push(&world, 1, "h h h").await;
    world.advance(seconds(6)).await;
    push(&world, 4, "q q").await;
    // The jobs of h are all late: its oldest comes first.
    assert_eq!(served(&world, 4).await, "h1 q5 h2 q4");
}

pub(crate) async fn lanes_are_counted<H: Harness>(world: World<H>) {
    allocate(&world, with(|rules| rules.tenants_max = 2));
    push(&world, 1, "a b c d e").await;
    let lanes = world.queue("a").await.unwrap().lanes;
    assert_eq!(lanes.tenants, 2);
    assert!((1..=3).contains(&lanes.shared), "{lanes:?}");
    assert_eq!(world.drain("a").await.split(' ').count(), 5);
}

pub(crate) async fn tenants_survive_a_crash<H: Durable>(world: World<H>) {
    push(&world, 1, &"h ".repeat(600)).await;
    push(&world, 700, "q q r").await;
    let world = world.restart().await;
    allocate(&world, by_tenant());
    let first = served(&world, 1).await;
    assert_eq!(first, "h1", "at once");
    world.advance(seconds(0)).await;
    assert_eq!(served(&world, 5).await, "q700 r702 h2 q701 h3");
    assert_eq!(world.census().await, (597, 6, 0, 0, 0));
}
