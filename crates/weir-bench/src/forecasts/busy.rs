//! Other load of the machine: threads that compute, on and off at random.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use fastrand::Rng;

use crate::clock::monotonic;

/// For how long a thread computes or rests, in seconds.
const PHASE_SECONDS: (f64, f64) = (5.0, 20.0);
/// Between looks at the clock while resting.
const NAP: Duration = Duration::from_millis(100);

/// The threads end when this is dropped.
#[derive(Debug)]
pub(super) struct BusyThreads {
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BusyThreads {
    pub(super) fn start(count: u64, seed: u64) -> Result<Self> {
        let mut busy = Self { ended: Arc::default(), threads: Vec::new() };
        for thread in 0..count {
            let ended = Arc::clone(&busy.ended);
            let mut random = Rng::with_seed(seed.wrapping_add(thread));
            let compute = move || {
                while !ended.load(Ordering::Relaxed) {
                    phase(&ended, &mut random, std::hint::spin_loop);
                    phase(&ended, &mut random, || std::thread::sleep(NAP));
                }
            };
            busy.threads.push(std::thread::Builder::new().spawn(compute)?);
        }
        Ok(busy)
    }
}

impl Drop for BusyThreads {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It cannot fail.
            let _ = thread.join();
        }
    }
}

fn phase(ended: &AtomicBool, random: &mut Rng, step: impl Fn()) {
    let (shortest, longest) = PHASE_SECONDS;
    let seconds = shortest + (longest - shortest) * random.f64();
    let until = monotonic() + Duration::from_secs_f64(seconds);
    while monotonic() < until && !ended.load(Ordering::Relaxed) {
        step();
    }
}
