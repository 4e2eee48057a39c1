//! The semaphore's promises under shuttle, which runs each test under many schedules of its
//! threads, switching at every atomic operation. Depth-first tries every schedule; where those are
//! too many, a fixed number of random ones.

use shuttle::scheduler::DfsScheduler;
use shuttle::sync::atomic::{AtomicU32, Ordering};
use shuttle::thread;

use super::*;

/// More than any of the depth-first tests has; reached, it would hide schedules.
const SCHEDULES_MAX: usize = 200_000;
const RANDOM_SCHEDULES: usize = 5_000;

fn semaphore(limit: u32) -> Arc<Semaphore> {
    Arc::new(Semaphore::new("tested", "tests.limit", limit))
}

/// Runs `test` under every schedule.
fn every_schedule(test: impl Fn() + Send + Sync + 'static) {
    let scheduler = DfsScheduler::new(Some(SCHEDULES_MAX), false);
    let schedules = shuttle::Runner::new(scheduler, shuttle::Config::new()).run(test);
    assert!(schedules < SCHEDULES_MAX, "some schedules were not tried");
}

/// How many hold a permit, counted outside the semaphore.
#[derive(Debug, Default)]
struct Holders(AtomicU32);

impl Holders {
    fn enter(&self, limit: u32) {
        let before = self.0.fetch_add(1, Ordering::SeqCst);
        assert!(before < limit, "{} permits of {limit}", before + 1);
    }

    fn leave(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn permits_never_exceed_the_limit_or_get_lost() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 3;
    const LIMIT: u32 = 2;
    let test = || {
        let (semaphore, holders) = (semaphore(LIMIT), Arc::new(Holders::default()));
        let contender = |_| {
            let (semaphore, holders) = (Arc::clone(&semaphore), Arc::clone(&holders));
            thread::spawn(move || {
                let mut granted = 0;
                for _ in 0..ROUNDS {
                    if let Ok(_permit) = semaphore.try_acquire_owned() {
                        holders.enter(LIMIT);
                        granted += 1;
                        holders.leave();
                    }
                }
                granted
            })
        };
        let threads: Vec<_> = (0..THREADS).map(contender).collect();
        let granted: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(semaphore.usage(), Usage { in_use: 0, limit: LIMIT });
        assert_eq!(granted + semaphore.refused_total(), THREADS * ROUNDS);
    };
    shuttle::check_random(test, RANDOM_SCHEDULES);
    shuttle::check_pct(test, RANDOM_SCHEDULES, 3);
}

#[test]
fn threads_up_to_the_limit_are_never_rejected() {
    every_schedule(|| {
        let semaphore = semaphore(2);
        let other = Arc::clone(&semaphore);
        let thread = thread::spawn(move || {
            for _ in 0..2 {
                drop(other.try_acquire().expect("one of two is free"));
            }
        });
        drop(semaphore.try_acquire().expect("one of two is free"));
        thread.join().unwrap();
    });
}

/// A semaphore that counts up first and takes it back when that was too much fails here: the try
/// of one is in the way of the other, and both are refused while nothing is held.
#[test]
fn rejected_attempt_does_not_block_others() {
    every_schedule(|| {
        let semaphore = semaphore(1);
        let held = semaphore.try_acquire_owned().expect("free");
        let other = Arc::clone(&semaphore);
        let thread = thread::spawn(move || other.try_acquire_owned());
        drop(held);
        let mine = semaphore.try_acquire();
        let theirs = thread.join().unwrap();
        assert!(mine.is_ok() != theirs.is_ok(), "{mine:?} {theirs:?}");
    });
}

#[test]
fn lowered_limit_applies_immediately() {
    every_schedule(|| {
        let semaphore = semaphore(2);
        let contender = |_| {
            let semaphore = Arc::clone(&semaphore);
            thread::spawn(move || semaphore.try_acquire_owned().ok())
        };
        let threads: Vec<_> = (0..2).map(contender).collect();
        semaphore.set_limit(1);
        let seen = semaphore.usage().in_use;
        let permits: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let held = semaphore.usage().in_use;
        assert!(held <= seen.max(1), "{seen} were held when the limit became 1, then {held}");
        drop(permits);
        assert_eq!(semaphore.usage(), Usage { in_use: 0, limit: 1 });
    });
}

#[test]
fn limit_change_loses_no_permit() {
    every_schedule(|| {
        let semaphore = semaphore(1);
        let other = Arc::clone(&semaphore);
        let thread = thread::spawn(move || drop(other.try_acquire()));
        semaphore.set_limit(3);
        thread.join().unwrap();
        assert_eq!(semaphore.usage(), Usage { in_use: 0, limit: 3 });
    });
}
