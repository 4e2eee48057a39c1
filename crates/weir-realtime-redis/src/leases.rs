//! Leases of nodes: a number that its node increases with each heartbeat.
//!
//! A node has ended when its number stays the same for as long as a lease is, of the time in which this
//! node observed it. Time in which Redis did not respond does not count.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// The most time that counts between two observations.
const STEP_MAX: Duration = Duration::from_secs(2);
/// After this node has connected, others may still be connecting: that much longer than a lease.
pub(crate) const CONNECT_MARGIN: Duration = Duration::from_secs(2);

/// A node and its number.
pub(crate) type Lease = (String, i64);

/// What was observed of the other nodes.
#[derive(Debug)]
pub(crate) struct LeaseWatch {
    duration: Duration,
    observed_at: Option<Instant>,
    nodes: HashMap<String, ObservedLease>,
}

#[derive(Debug)]
struct ObservedLease {
    number: i64,
    /// How long it may stay the same.
    left: Duration,
}

impl LeaseWatch {
    /// Begins with a connection.
    pub(crate) fn new(duration: Duration) -> Self {
        Self { duration, observed_at: None, nodes: HashMap::new() }
    }

    /// Observes all leases. Returns those that have lapsed.
    pub(crate) fn observe(&mut self, now: Instant, leases: Vec<Lease>) -> Vec<Lease> {
        let is_first = self.observed_at.is_none();
        let step = self.observed_at.map_or(Duration::ZERO, |at| now.duration_since(at));
        let step = step.min(STEP_MAX);
        self.observed_at = Some(now);
        let fresh = self.duration + if is_first { CONNECT_MARGIN } else { Duration::ZERO };
        let mut nodes = HashMap::with_capacity(leases.len());
        let mut lapsed = Vec::new();
        for (node, number) in leases {
            let left = match self.nodes.get(&node) {
                Some(before) if before.number == number => before.left.saturating_sub(step),
                Some(_) | None => fresh,
            };
            if left.is_zero() {
                lapsed.push((node.clone(), number));
            }
            nodes.insert(node, ObservedLease { number, left });
        }
        self.nodes = nodes;
        lapsed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(8);
    const BEAT: Duration = Duration::from_millis(900);

    fn lease(node: &str, number: i64) -> Lease {
        (node.to_owned(), number)
    }

    #[tokio::test]
    async fn a_node_that_does_not_renew_its_lease_has_ended_within_ten_seconds() {
        let start = Instant::now();
        let mut watch = LeaseWatch::new(LEASE);
        assert!(watch.observe(start, vec![lease("b", 1)]).is_empty());
        for beat in 1..=20 {
            let leases = vec![lease("a", 7), lease("b", 1 + i64::from(beat))];
            let lapsed = watch.observe(start + BEAT * beat, leases);
            // It is seen first with beat 1, and may have ended one beat before.
            let is_due = BEAT * (beat - 1) >= LEASE;
            assert_eq!(lapsed.len(), usize::from(is_due), "beat {beat}");
            if is_due {
                assert_eq!(lapsed[0], lease("a", 7));
                assert!(BEAT * (beat + 1) > LEASE);
            }
        }
        let due = LEASE.as_millis().div_ceil(BEAT.as_millis()) + 1;
        assert!(BEAT.as_millis() * due <= 10_000);
    }

    #[tokio::test]
    async fn time_in_which_redis_is_paused_does_not_count() {
        let start = Instant::now();
        let mut watch = LeaseWatch::new(LEASE);
        watch.observe(start, vec![]);
        watch.observe(start + BEAT, vec![lease("a", 7)]);
        let after = start + BEAT + Duration::from_secs(60);
        assert!(watch.observe(after, vec![lease("a", 7)]).is_empty());
        assert!(watch.observe(after + BEAT, vec![lease("a", 8)]).is_empty());
    }

    #[tokio::test]
    async fn after_connecting_each_node_has_ten_seconds() {
        let start = Instant::now();
        let mut watch = LeaseWatch::new(LEASE);
        for beat in 0..11 {
            assert!(watch.observe(start + BEAT * beat, vec![lease("a", 7)]).is_empty(), "{beat}");
        }
        assert_eq!(watch.observe(start + BEAT * 12, vec![lease("a", 7)]).len(), 1);
    }
}
