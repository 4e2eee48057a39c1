//! `[jobs.redis.confirm]`.

use std::time::Duration;

use weir_settings::{MILLISECOND, Section};

/// More replicas than a Redis has.
const REPLICAS_MAX: u64 = 16;

/// What has a job before its producer gets `OK`. Without `disk` and `replicas`, the memory of Redis is
/// enough.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(restart, path = "jobs.redis.confirm")]
pub struct ConfirmSettings {
    /// A push is acknowledged once it is on the disk of Redis, and on the disks of `replicas`
    /// (WAITAOF). Requires Redis 7.2 or Valkey 8 with `appendonly yes`.
    pub disk: bool,
    /// A push is acknowledged once this many replicas have it: on their disks if `disk` is set,
    /// otherwise in their memory (WAIT).
    #[setting(range = 0..=REPLICAS_MAX)]
    pub replicas: u64,
    /// How long a push waits for this. After that, the client gets an error that says that the job
    /// may be stored.
    // With `appendfsync everysec` the disk may take two seconds.
    #[setting(range = MILLISECOND.saturating_mul(10)..=Duration::from_secs(60), default = Duration::from_secs(5))]
    pub timeout: Duration,
    /// Connections to Redis for these pushes. While Redis confirms the pushes of one, the next ones
    /// take another.
    #[setting(advanced, range = 1..=16, default = 2)]
    pub connections: usize,
    /// Jobs that Redis confirms together. A single push may have more.
    #[setting(advanced, range = 1..=100_000, default = 1_000)]
    pub group_jobs_max: usize,
}

impl ConfirmSettings {
    /// Returns whether pushes wait for a confirmation.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.disk || self.replicas > 0
    }
}
