//! Checks for arbitrary requirements and machines that a plan satisfies its proofs, computed
//! independently here, or that no plan is returned and the broken rules are named.

use std::collections::BTreeSet;

use proptest::sample::select;

use super::*;
use crate::observation::is_set_aside;

/// Mastodon's queues, a backlog that was set aside, and names that collide once they are converted
/// to file names.
const NAMES: [&str; 11] = [
    "default",
    "push",
    "ingress",
    "mailers",
    "pull",
    "scheduler",
    "fasp",
    "pull_backlog",
    "Mail",
    "mail",
    "a.b",
];
const ABSURD: [f64; 9] =
    [0.0, -1.0, 1e-300, 1e6, 1e18, 1e300, f64::INFINITY, f64::NAN, f64::MIN_POSITIVE];

/// A rate or a time, usually a realistic one.
fn usual_or_absurd(usual: std::ops::Range<f64>) -> impl Strategy<Value = f64> {
    prop_oneof![12 => usual, 1 => select(&ABSURD[..])]
}

fn number(usual: std::ops::RangeInclusive<u32>) -> impl Strategy<Value = u32> {
    prop_oneof![12 => usual, 1 => select(&[0, 1, u32::MAX][..])]
}

fn size() -> impl Strategy<Value = u64> {
    let usual = (1..=64u64).prop_map(|gib| gib * GIB);
    prop_oneof![12 => usual, 1 => select(&[0, 1, u64::MAX][..])]
}

prop_compose! {
    fn any_queue(name: &'static str)(
        rate in usual_or_absurd(0.0..20.0),
        seconds in usual_or_absurd(0.0..2.0),
        target in proptest::option::weighted(0.2, usual_or_absurd(0.1..60.0)),
    ) -> QueueDemand {
        QueueDemand { target_seconds: target, ..queue(name, rate, seconds) }
    }
}

fn any_queues() -> impl Strategy<Value = Vec<QueueDemand>> {
    let all: Vec<_> = NAMES.into_iter().map(any_queue).collect();
    (all, proptest::collection::vec(proptest::bool::weighted(0.7), NAMES.len()))
        .prop_map(|(queues, there)| {
            queues
                .into_iter()
                .zip(there)
                .filter_map(|(queue, there)| there.then_some(queue))
                .collect()
        })
        .prop_shuffle()
}

prop_compose! {
    fn any_wanted()(
        (cores, memory_bytes) in (number(1..=64), size()),
        shares in (0..100u64, 0..50u64),
        (max_connections, reserve) in (number(50..=1_000), number(0..=30)),
        reserved_connections in number(0..=10),
        pooler_connections in proptest::option::weighted(0.3, number(1..=200)),
        web in (usual_or_absurd(0.0..200.0), usual_or_absurd(0.0..0.5), number(1..=16)),
        streaming in (number(0..=4), number(0..=20)),
        queues in any_queues(),
    ) -> PlanInput {
        let (requests_per_second, service_seconds, threads) = web;
        PlanInput {
            cores,
            memory_bytes,
            postgres_memory_bytes: memory_bytes / 100 * shares.0,
            redis_memory_bytes: memory_bytes / 100 * shares.1,
            max_connections,
            reserve,
            reserved_connections,
            pooler_connections,
            web: WebDemand { requests_per_second, service_seconds, threads, processes_now: 0 },
            streaming,
            queues,
            ..mastodon()
        }
    }
}

fn threads_of(rate: f64, seconds: f64) -> f64 {
    let threads = rate * seconds;
    if threads.is_nan() { 0.0 } else { threads }
}

/// Checks the sums in numbers that cannot overflow.
fn fits(wanted: &PlanInput, layout: &ProcessLayout) -> Result<(), TestCaseError> {
    let of = |processes: u32, each: u64| u128::from(processes) * u128::from(each);
    let services = || layout.services.iter();
    let workers = || layout.workers.iter();
    let pools: u128 = services()
        .map(|it| of(it.processes, it.pool.into()))
        .chain(workers().map(|it| of(it.processes, it.pool.into())))
        .sum();
    let pooler = wanted.pooler_connections.filter(|connections| *connections > 0);
    let opened = pooler.map_or(pools, u128::from);
    let kept = wanted.reserve.max(wanted.reserved_connections);
    prop_assert!(
        opened + u128::from(kept) <= wanted.max_connections.into(),
        "{} connections",
        opened
    );
    let memory: u128 = services()
        .map(|it| of(it.processes, it.memory_bytes))
        .chain(workers().map(|it| of(it.processes, it.memory_bytes)))
        .sum();
    let stores = u128::from(wanted.postgres_memory_bytes) + u128::from(wanted.redis_memory_bytes);
    prop_assert!(memory + stores <= wanted.memory_bytes.into(), "{} bytes", memory);
    for worker in workers() {
        prop_assert!(worker.pool >= worker.concurrency && worker.concurrency > 0, "{:?}", worker);
    }
    for service in services() {
        prop_assert!(service.pool >= service.threads || service.processes == 0, "{:?}", service);
    }
    Ok(())
}

fn works(wanted: &PlanInput, layout: &ProcessLayout) -> Result<(), TestCaseError> {
    for queue in &wanted.queues {
        let name = queue.name.as_str();
        let serving = layout.workers.iter().filter(|it| it.queues.iter().any(|it| it == name));
        if is_set_aside(name) {
            let last = serving.clone().all(|it| it.queues.last().is_some_and(|it| it == name));
            prop_assert!(last && serving.count() > 0, "{}", name);
            continue;
        }
        let first: Vec<_> =
            serving.clone().filter(|it| it.queues[0] == name || it.is_by_chance()).collect();
        let threads: u64 =
            first.iter().map(|it| u64::from(it.processes) * u64::from(it.concurrency)).sum();
        let needed = threads_of(queue.arrivals_per_second, queue.service_seconds);
        prop_assert!(threads as f64 > needed, "{}: {} threads for {}", name, threads, needed);
        if ["mailers", "scheduler"].contains(&name) {
            prop_assert!(serving.clone().all(|it| it.queues == [name]), "{}", name);
        }
        if name == "scheduler" {
            prop_assert_eq!(serving.map(|it| it.processes).sum::<u32>(), 1);
        }
    }
    let web = &layout.services[0];
    let needed = threads_of(wanted.web.requests_per_second, wanted.web.service_seconds);
    prop_assert!(f64::from(web.processes) * f64::from(web.threads) > needed, "web for {}", needed);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]
    #[test]
    fn what_a_plan_says_is_so_or_there_is_none(wanted in any_wanted()) {
        match plan(&wanted) {
            Ok(plan) => {
                fits(&wanted, &plan.layout)?;
                works(&wanted, &plan.layout)?;
                prop_assert!(plan.proofs.iter().all(Proof::holds), "{:?}", plan.proofs);
                prop_assert!(plan.proofs.iter().all(|it| !it.figures.is_empty()), "{:?}", plan.proofs);
                let workers = plan.layout.workers.iter();
                let names: BTreeSet<_> = workers.map(|it| it.name.as_str()).collect();
                prop_assert_eq!(names.len(), plan.layout.workers.len());
            }
            Err(Impossible { broken, .. }) => {
                prop_assert!(!broken.is_empty());
                for proof in broken {
                    prop_assert!(!proof.holds(), "{:?}", proof);
                    prop_assert!(!proof.figures.is_empty());
                }
            }
        }
    }

    #[test]
    fn what_it_would_take_is_enough(
        memory_gib in 1..16u64,
        max_connections in 20..100u32,
        rates in proptest::collection::vec((0.0..20.0f64, 0.0..1.0f64), 1..9),
    ) {
        let mut wanted = PlanInput { max_connections, queues: demands(&rates), ..mastodon() };
        (wanted.memory_bytes, wanted.postgres_memory_bytes) = (memory_gib * GIB, 0);
        for _ in 0..4 {
            let Err(Impossible { broken, remedies }) = plan(&wanted) else { return Ok(()) };
            for (proof, way) in broken.iter().zip(&remedies) {
                match proof.claim {
                    Claim::ConnectionsFit => wanted.max_connections = number_behind(way, "--max-connections "),
                    // Figures are rounded to tenths of a GB.
                    Claim::MemoryFits => wanted.memory_bytes += GIB,
                    _ => return Ok(()),
                }
            }
        }
        let memory = plan(&wanted).map_or_else(|it| it.broken.iter().any(|it| it.claim == Claim::MemoryFits), |_| true);
        prop_assert!(memory, "the connections were enough");
    }
}

fn number_behind(text: &str, words: &str) -> u32 {
    let (_, rest) = text.split_once(words).unwrap();
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

#[test]
fn many_queues_are_planned_as_fast_as_few() {
    let mut wanted = PlanInput { memory_bytes: 4 * GIB, postgres_memory_bytes: GIB, ..mastodon() };
    let names = (0..1_000).map(|at| format!("q{at}"));
    wanted.queues = names.map(|name| queue(&name, 0.001, 0.1)).collect();
    // Without an upper limit of the number of processes, this takes minutes.
    assert!(plan(&wanted).is_err(), "1,000 queues take as many threads, and those connections");
}
