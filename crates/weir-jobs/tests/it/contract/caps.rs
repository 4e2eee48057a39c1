//! What caps on the jobs that wait are checked against: bytes of a queue, jobs of a tenant. And what comes to a queue.

use std::collections::BTreeMap;

use weir_jobs::allocation::{Allocation, LaneLimits, QueueAllocation};
use weir_jobs::model::{Wid, WorkerEnd};
use weir_jobs::store::limit_states::LimitStates;
use weir_jobs::store::{Action, QueueAction, QueueArrivals, Selection, Store};

use super::fair::{allocate, push, with};
use super::harness::{Durable, Harness};
use super::world::{World, place, queue_name, seconds};

/// Counts the bytes of the queues `a` and `b`.
async fn count_bytes<H: Harness>(world: &World<H>) {
    let rules = || QueueAllocation { counts_bytes: true, ..QueueAllocation::default() };
    let queues = BTreeMap::from(["a", "b"].map(|name| (queue_name(name), rules())));
    world.store().allocate(Allocation { queues, ..Allocation::default() });
    // Jobs that were there before are counted in slices.
    world.harness.tick().await;
}

/// Checks the bytes of both queues against the jobs in them. Returns them.
async fn checked<H: Harness>(world: &World<H>) -> [u64; 2] {
    let mut all = [0; 2];
    for (bytes, name) in all.iter_mut().zip(["a", "b"]) {
        let jobs = world.list(&place(&format!("queue:{name}"))).await;
        *bytes = jobs.iter().map(|job| job.json.len() as u64).sum();
        let counted = world.store().waiting_bytes(name).unwrap_or(0);
        assert_eq!(counted, *bytes, "{name}: {} jobs", jobs.len());
    }
    all
}

async fn push_padded<H: Harness>(world: &World<H>, queue: &str, jid: &str, padding: usize) {
    let members = format!(r#""queue":"{queue}","x":"{}""#, "x".repeat(padding));
    world.push_with(jid, &members).await;
}

pub(crate) async fn the_bytes_of_waiting_jobs_are_counted<H: Harness>(world: World<H>) {
    count_bytes(&world).await;
    for (jid, padding) in [("job-0001", 1_000), ("job-0002", 200), ("job-0003", 30)] {
        push_padded(&world, "a", jid, padding).await;
    }
    let [all, _] = checked(&world).await;
    assert!(all > 1_230, "{all}");
    assert_eq!(world.fetch("a").await.as_deref(), Some("job-0001"));
    assert!(checked(&world).await[0] < all - 1_000);
    // It waits again with its failure, which makes it longer.
    world.fail("job-0001").await;
    checked(&world).await;
    world.act_on("retries", "job-0001", Action::Requeue).await;
    assert!(checked(&world).await[0] > all, "with the failure");
    assert_eq!(world.fetch("a").await.as_deref(), Some("job-0002"));
    world.store().release(&Wid::new("w1"), WorkerEnd::Stopped).await.unwrap();
    assert!(checked(&world).await[0] > all);
    let key = world.key("queue:a", "job-0001").await;
    let moved = world.store().move_to(&place("queue:a"), &[key], &queue_name("b"), false).await;
    assert_eq!(moved, Ok(1));
    let [left, of_b] = checked(&world).await;
    assert!(of_b > 1_000 && left < 1_000, "{left} {of_b}");
    world.act_on("queue:a", "job-0003", Action::Discard).await;
    checked(&world).await;
    assert_eq!(world.drain("b").await, "job-0001");
    assert_eq!(checked(&world).await[1], 0);
    world.queue_action("a", QueueAction::Clear).await;
    assert_eq!(checked(&world).await, [0, 0]);
    push_padded(&world, "a", "job-0004", 10).await;
    assert!(checked(&world).await[0] > 10);
    world.store().flush().await.unwrap();
    push_padded(&world, "a", "job-0005", 10).await;
    assert!(checked(&world).await[0] > 10, "after FLUSH");
}

pub(crate) async fn bytes_are_counted_of_jobs_that_waited_before<H: Harness>(world: World<H>) {
    for number in 0..700 {
        push_padded(&world, "a", &format!("job-{number:05}"), number % 50).await;
    }
    assert_eq!(world.fetch("a").await.as_deref(), Some("job-00000"));
    count_bytes(&world).await;
    let [all, _] = checked(&world).await;
    assert!(all > 700 * 20, "{all}");
    world.store().release(&Wid::new("w1"), WorkerEnd::Stopped).await.unwrap();
    // It was not there to be counted with the others.
    assert!(checked(&world).await[0] > all);
    assert_eq!(world.drain("a").await.split(' ').count(), 700);
    assert_eq!(checked(&world).await, [0, 0]);
}

pub(crate) async fn counting_ends_and_begins_anew<H: Harness>(world: World<H>) {
    count_bytes(&world).await;
    for number in 0..10 {
        push_padded(&world, "a", &format!("job-{number:05}"), 100).await;
    }
    assert_eq!(world.fetch("a").await.as_deref(), Some("job-00000"));
    world.store().allocate(Allocation::default());
    world.harness.tick().await;
    push_padded(&world, "a", "job-00010", 100).await;
    world.act_on("queue:a", "job-00005", Action::Discard).await;
    count_bytes(&world).await;
    checked(&world).await;
    world.store().release(&Wid::new("w1"), WorkerEnd::Stopped).await.unwrap();
    checked(&world).await;
    assert_eq!(world.drain("a").await.split(' ').count(), 10);
    assert_eq!(checked(&world).await, [0, 0]);
}

pub(crate) async fn bytes_are_counted_again_after_a_crash<H: Durable>(world: World<H>) {
    count_bytes(&world).await;
    for number in 0..700 {
        push_padded(&world, "a", &format!("job-{number:05}"), number % 50).await;
    }
    assert_eq!(world.fetch("a").await.as_deref(), Some("job-00000"));
    let [before, _] = checked(&world).await;
    let world = world.crash().await;
    assert_eq!(world.store().waiting_bytes("a"), None, "no rules ask for it yet");
    count_bytes(&world).await;
    assert!(checked(&world).await[0] > before, "the first job waits again");
    assert_eq!(world.drain("a").await.split(' ').count(), 700);
    assert_eq!(checked(&world).await, [0, 0]);
}

fn of_tenant(tenant: &str) -> String {
    format!(r#"{{"jid":"job","jobtype":"T","args":[],"custom":{{"tenant":"{tenant}"}}}}"#)
}

pub(crate) async fn waiting_jobs_of_a_tenant_are_counted<H: Harness>(world: World<H>) {
    let waiting = |tenant: &str| {
        let depth = world.store().tenant_depth("a", of_tenant(tenant).as_bytes());
        depth.map(|depth| (depth.name, depth.waiting))
    };
    assert_eq!(waiting("h"), None, "there is no queue yet");
    let own = BTreeMap::from([("own".to_owned(), LaneLimits::default())]);
    let rules = with(|rules| {
        rules.tenants_max = 1;
        rules.limits.of = own;
    });
    allocate(&world, rules);
    push(&world, 1, "h h h").await;
    let found = |tenant: &str, jobs| Some((Some(tenant.to_owned()), jobs));
    assert_eq!(waiting("h"), found("h", 3));
    assert_eq!(waiting("own"), found("own", 0));
    push(&world, 4, "q own own").await;
    assert_eq!(waiting("q"), found("q", 1), "it shares a lane, and is the only one there");
    assert_eq!(waiting("own"), found("own", 2), "it has a lane beyond tenants_max");
    assert!(world.fetch("a").await.is_some_and(|jid| jid.starts_with("h-")));
    assert_eq!(waiting("h"), found("h", 2));
    world.fail("h-000001").await;
    world.act("retries", Selection::All, Action::Requeue).await;
    assert_eq!(waiting("h"), found("h", 3));
    assert_eq!(waiting("new"), found("new", 0));
}

pub(crate) async fn arrivals_are_counted_by_their_cause<H: Harness>(world: World<H>) {
    let arrivals = async || {
        let QueueArrivals { arrived_total, retried_total, returned_total } =
            world.queue("default").await.and_then(|queue| queue.arrivals).unwrap();
        (arrived_total, retried_total, returned_total)
    };
    world.push_and_fail("job-0001", r#""retry":3"#).await;
    assert_eq!(arrivals().await, (1, 1, 0));
    world.push_and_fail("job-0002", r#""retry":0"#).await;
    assert_eq!(arrivals().await, (2, 1, 0), "it is not tried again");
    world.schedule("job-0003", seconds(60)).await;
    assert_eq!(arrivals().await, (2, 1, 0), "it does not wait yet");
    world.advance(seconds(3_600)).await;
    assert_eq!(arrivals().await, (3, 1, 1), "the retry and the scheduled job are due");
    world.fetch("default").await;
    world.store().release(&Wid::new("w1"), WorkerEnd::Stopped).await.unwrap();
    assert_eq!(arrivals().await, (3, 1, 1), "a job that was not run does not come anew");
}

pub(crate) async fn limits_are_shown_with_what_they_hold_back<H: Harness>(world: World<H>) {
    assert_eq!(world.store().limit_states(9), LimitStates::default());
    let rules = with(|rules| rules.limits.each.concurrency = Some(1));
    let rules = QueueAllocation { concurrency: Some(5), ..rules };
    let rate = "1/m".parse::<weir_jobs::start_rate::StartRate>().unwrap().rate();
    let of_b = QueueAllocation { rate: Some(rate), ..QueueAllocation::default() };
    let queues = BTreeMap::from([(queue_name("a"), rules), (queue_name("b"), of_b)]);
    world.store().allocate(Allocation { queues, ..Allocation::default() });
    push(&world, 1, "h h h q q").await;
    world.push_to("b", "job-0001 job-0002").await;
    for _ in 0..3 {
        world.fetch("a b").await;
    }
    let states = world.store().limit_states(1);
    let [a, b] = states.queues.as_slice() else { panic!("{states:?}") };
    assert_eq!((a.concurrency, a.next_start), (Some(5), None));
    let shown: Vec<_> = a.tenants.iter().map(|it| (it.name.as_deref(), it.waiting)).collect();
    assert_eq!(shown, [(Some("h"), 2)], "the one with the most jobs");
    assert_eq!((a.tenants[0].running, a.tenants[0].concurrency), (1, Some(1)));
    assert_eq!(b.next_start, Some(world.now() + seconds(60)));
    assert_eq!(world.queue("a").await.map(|queue| queue.lanes.full), Some(2));
    assert_eq!(world.counts().await.limits_lowered_until, None);
}
