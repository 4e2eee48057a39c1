//! Limits of CPU time that the kernel applies to groups of processes.

use serde::Serialize;

/// A control group with a limit of CPU time (`cpu.max`, in version 1 `cpu.cfs_quota_us`), between two
/// samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CpuLimit {
    /// The group: `/system.slice/sidekiq.service`; `/` is that of the container.
    pub group: String,
    /// The file with the limit.
    pub file: String,
    /// The processes of interest in it, by their service: "sidekiq", "web".
    pub services: Vec<String>,
    /// Their process IDs.
    pub pids: Vec<u32>,
    /// The limit in cores.
    pub cores: f64,
    /// Periods in which its processes wanted to run. A period is 100 ms by default.
    pub periods: u64,
    /// Periods in which the kernel stopped them until the next one.
    pub throttled_periods: u64,
}

/// Periods from which a share of them is meaningful: two seconds of work.
const PERIODS_MIN: u64 = 20;
/// Short bursts are stopped in fewer periods.
const THROTTLED_MIN: f64 = 0.25;

impl CpuLimit {
    /// Returns the share of periods in which its processes were stopped, if that is a considerable part.
    #[must_use]
    pub fn throttled_share(&self) -> Option<f64> {
        let share = self.throttled_periods as f64 / self.periods.max(1) as f64;
        (self.periods >= PERIODS_MIN && share >= THROTTLED_MIN).then_some(share.min(1.0))
    }
}
