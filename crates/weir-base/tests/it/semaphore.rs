use std::sync::Arc;
use std::thread;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use proptest::prelude::*;
use weir_base::semaphore::{self, Full, OwnedPermit, Semaphore, Usage};

const SETTING: &str = "realtime.limits.webhooks_in_flight_max";

fn webhooks(limit: u32) -> Arc<Semaphore> {
    Arc::new(Semaphore::new("webhooks", SETTING, limit))
}

#[test]
fn rejection_names_semaphore_limit_and_setting() {
    let webhooks = webhooks(2);
    let _permits = (webhooks.try_acquire().unwrap(), webhooks.try_acquire_owned().unwrap());
    let full = webhooks.try_acquire_owned().unwrap_err();
    assert_eq!(full, Full { name: "webhooks".into(), limit: 2, setting: SETTING });
    let message = "webhooks: all 2 permits are in use; try again later, or raise \
                   realtime.limits.webhooks_in_flight_max";
    assert_eq!(full.to_string(), message);
}

#[test]
fn zero_limit_rejects_everything_and_the_maximum_nothing() {
    assert!(webhooks(0).try_acquire().is_err());
    let boundless = webhooks(u32::MAX);
    let permits = [boundless.try_acquire(), boundless.try_acquire()];
    assert!(permits.iter().all(Result::is_ok));
    assert_eq!(boundless.usage(), Usage { in_use: 2, limit: u32::MAX });
}

#[test]
fn panicking_task_returns_its_permit() {
    let webhooks = webhooks(1);
    let permit = webhooks.try_acquire_owned().unwrap();
    let task = thread::spawn(move || {
        let _permit = permit;
        std::panic::resume_unwind(Box::new("the task failed"));
    });
    assert!(task.join().is_err());
    assert!(webhooks.try_acquire().is_ok());
}

#[test]
fn threads_never_hold_more_than_the_limit() {
    const LIMIT: u32 = 3;
    let webhooks = webhooks(LIMIT);
    let contend = || {
        let mut granted = 0_u64;
        for _ in 0..20_000 {
            if let Ok(_permit) = webhooks.try_acquire() {
                granted += 1;
                assert!((1..=LIMIT).contains(&webhooks.usage().in_use));
                thread::yield_now();
            }
        }
        granted
    };
    let granted: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(contend)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(webhooks.usage().in_use, 0);
    assert_eq!(granted + webhooks.refused_total(), 6 * 20_000);
}

#[test]
fn metrics_include_every_semaphore() {
    let mut registry = Registry::default();
    let redis = Arc::new(Semaphore::new("redis", "redis.calls_in_flight_max", 5));
    let webhooks = webhooks(1);
    let realtime = registry.sub_registry_with_prefix("weir_realtime");
    semaphore::register(realtime, vec![Arc::clone(&redis), Arc::clone(&webhooks)]);
    let _permit = webhooks.try_acquire().unwrap();
    assert!(webhooks.try_acquire().is_err());
    redis.set_limit(7);

    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    for line in [
        "weir_realtime_semaphore_in_use{semaphore=\"redis\"} 0",
        "weir_realtime_semaphore_in_use{semaphore=\"webhooks\"} 1",
        "weir_realtime_semaphore_limit{semaphore=\"redis\"} 7",
        "weir_realtime_semaphore_limit{semaphore=\"webhooks\"} 1",
        "weir_realtime_semaphore_refused_total{semaphore=\"redis\"} 0",
        "weir_realtime_semaphore_refused_total{semaphore=\"webhooks\"} 1",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} is not in\n{text}");
    }
}

#[test]
#[should_panic(expected = "semaphores have different names")]
fn duplicate_semaphore_names_are_rejected() {
    semaphore::register(&mut Registry::default(), vec![webhooks(1), webhooks(2)]);
}

#[derive(Clone, Debug)]
enum Step {
    Acquire,
    /// Drops the permit of this index, modulo how many are held.
    Release(usize),
    SetLimit(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Acquire),
        3 => any::<usize>().prop_map(Step::Release),
        1 => (0_u32..6).prop_map(Step::SetLimit),
    ]
}

proptest! {
    /// Against the obvious model: a list of what is held, and a limit.
    #[test]
    fn permits_are_granted_exactly_below_the_limit(
        first_limit in 0_u32..6,
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let webhooks = webhooks(first_limit);
        let (mut held, mut limit, mut refused) = (Vec::<OwnedPermit>::new(), first_limit, 0);
        for step in steps {
            match step {
                Step::Acquire => {
                    let free = held.len() < limit as usize;
                    let result = webhooks.try_acquire_owned();
                    prop_assert_eq!(result.is_ok(), free);
                    refused += u64::from(!free);
                    held.extend(result);
                }
                Step::Release(index) if !held.is_empty() => {
                    let index = index % held.len();
                    drop(held.swap_remove(index));
                }
                Step::Release(_) => {}
                Step::SetLimit(new) => {
                    limit = new;
                    webhooks.set_limit(new);
                }
            }
            let in_use = u32::try_from(held.len()).unwrap();
            prop_assert_eq!(webhooks.usage(), Usage { in_use, limit });
            prop_assert_eq!(webhooks.refused_total(), refused);
        }
    }
}
