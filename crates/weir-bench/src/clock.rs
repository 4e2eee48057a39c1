//! The one place that reads a clock: a load generator measures real time, there is nothing to fake.

use std::time::{Duration, Instant, SystemTime};

use rustix::time::{ClockId, clock_gettime};

pub(crate) const SECONDS_PER_DAY: u64 = 86_400;

/// Monotonic time, about 25 ns a call (vDSO).
#[expect(clippy::disallowed_methods, reason = "a load generator measures the real clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Seconds since 1970, for signed requests.
#[expect(clippy::disallowed_methods, reason = "a load generator measures the real clock")]
pub(crate) fn unix_seconds() -> u64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since_1970.map_or(0, |elapsed| elapsed.as_secs())
}

/// Microseconds since the beginning of the day (UTC) by the system clock, for times that a server stamps.
#[expect(clippy::disallowed_methods, reason = "a load generator measures the real clock")]
pub(crate) fn micros_of_day() -> u64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since_1970.map_or(0, |elapsed| {
        (elapsed.as_secs() % SECONDS_PER_DAY) * 1_000_000 + u64::from(elapsed.subsec_micros())
    })
}

/// Milliseconds of `CLOCK_MONOTONIC`, which all processes share.
pub(crate) fn monotonic_ms() -> u64 {
    u64::try_from(monotonic().as_millis()).unwrap_or(0)
}

/// `CLOCK_MONOTONIC`, which all processes share.
pub(crate) fn monotonic() -> Duration {
    elapsed(ClockId::Monotonic)
}

/// CPU time (user and system) that this process has used so far, with the kernel's nanosecond accounting.
pub(crate) fn own_cpu_time() -> Duration {
    elapsed(ClockId::ProcessCPUTime)
}

/// CPU time of the calling thread.
pub(crate) fn own_thread_cpu_time() -> Duration {
    elapsed(ClockId::ThreadCPUTime)
}

fn elapsed(clock: ClockId) -> Duration {
    let spent = clock_gettime(clock);
    Duration::new(
        u64::try_from(spent.tv_sec).unwrap_or(0),
        u32::try_from(spent.tv_nsec).unwrap_or(0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_cpu_time_is_the_sum_of_its_threads() {
        const SPENT: Duration = Duration::from_millis(20);
        let before = own_cpu_time();
        let other = std::thread::spawn(|| while own_thread_cpu_time() < SPENT {});
        other.join().expect("it only counts");
        assert!(own_cpu_time() - before >= SPENT, "{:?}", own_cpu_time() - before);
    }
}
