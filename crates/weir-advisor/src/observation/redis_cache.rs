//! Whether a cache shares the Redis of the jobs. A cache fills whatever memory it gets.

use super::RedisServer;

/// Minimum share of cache-like keys. An application may store a few such keys next to its jobs.
const SHARE_MIN: f64 = 0.5;
/// Policies that evict only keys that expire begin with it.
const VOLATILE: &str = "volatile-";
/// Heartbeats and locks of jobs are fewer, but may be evicted repeatedly: a cache is likely, not certain.
const EVICTIONS_MIN: u64 = 1_000;

/// Whether the keys of a cache share the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CachePresence {
    Present,
    Absent,
    /// No sample of the keys was taken.
    Unknown,
}

impl RedisServer {
    /// Reports whether a cache shares the server. Of Sidekiq's keys, only few expire: where only such
    /// keys are evicted, many evictions show a cache, even if a sample of the keys has few of its keys.
    #[must_use]
    pub(crate) fn cache(&self) -> CachePresence {
        match self.cache_like_share.known() {
            Some(share) if *share >= SHARE_MIN => CachePresence::Present,
            _ if self.evicts_only_expiring() && self.info.evicted_keys >= EVICTIONS_MIN => {
                CachePresence::Present
            }
            Some(_) => CachePresence::Absent,
            None => CachePresence::Unknown,
        }
    }

    /// Reports whether its policy evicts only keys that expire. Jobs do not.
    #[must_use]
    pub(crate) fn evicts_only_expiring(&self) -> bool {
        self.info.maxmemory_policy.starts_with(VOLATILE)
    }

    /// Returns the share of cache-like keys if that is most of them.
    #[must_use]
    pub(crate) fn large_cache_like_share(&self) -> Option<f64> {
        self.cache_like_share.known().copied().filter(|share| *share >= SHARE_MIN)
    }
}
