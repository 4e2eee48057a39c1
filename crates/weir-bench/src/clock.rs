//! The one place that reads a clock: a load generator measures real time, there is nothing to fake.

use std::time::{Duration, Instant};

/// Monotonic time, about 25 ns a call (vDSO).
#[expect(clippy::disallowed_methods, reason = "a load generator measures the real clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// CPU time (user and system) that this process has used so far, with the kernel's nanosecond accounting.
pub(crate) fn own_cpu_time() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(spent.tv_sec).unwrap_or(0),
        u32::try_from(spent.tv_nsec).unwrap_or(0),
    )
}
