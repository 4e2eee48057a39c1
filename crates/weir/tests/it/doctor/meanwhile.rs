//! Repeats something on another thread while doctor runs.

use std::sync::atomic::{AtomicBool, Ordering};

/// Ends the repetition, also if the test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the result of `run`, while `repeated` is called again and again.
pub(super) fn meanwhile<T>(mut repeated: impl FnMut() + Send, run: impl FnOnce() -> T) -> T {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let is_on = || !ended.load(Ordering::Relaxed);
        scope.spawn(move || {
            while is_on() {
                repeated();
            }
        });
        let _end = End(&ended);
        run()
    })
}
