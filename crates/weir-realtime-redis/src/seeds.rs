//! The addresses that lead to the servers of a shard: that of the settings, and the nodes of the cluster that
//! it led to before. One that was removed from its cluster, or is cut off from it, must not hide the others.

use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_redis::RedisEndpoint;
use weir_redis::cluster_slots::NodeAddress;

/// The addresses of a shard.
#[derive(Debug, Default)]
pub(crate) struct Seeds(Mutex<KnownNodes>);

#[derive(Debug, Default)]
struct KnownNodes {
    /// Of the last session. Bounded by the number of nodes that are connected to.
    nodes: Vec<NodeAddress>,
    /// Attempts since then that failed.
    failures: usize,
}

impl Seeds {
    /// Returns the addresses to try, in this order: after each failure, another one is first.
    pub(crate) fn candidates(&self, endpoint: &RedisEndpoint) -> Vec<RedisEndpoint> {
        let known = self.lock();
        let others = known.nodes.iter().map(|(host, port)| endpoint.of_cluster_node(host, *port));
        let others = others.filter(|other| other.address != endpoint.address);
        let mut all: Vec<RedisEndpoint> = [endpoint.clone()].into_iter().chain(others).collect();
        let first = known.failures % all.len();
        all.rotate_left(first);
        all
    }

    /// Notes that a session has begun with these nodes.
    pub(crate) fn on_opened(&self, nodes: Vec<NodeAddress>) {
        *self.lock() = KnownNodes { nodes, failures: 0 };
    }

    /// Notes that no session could begin.
    pub(crate) fn on_failed(&self) {
        let mut known = self.lock();
        known.failures = known.failures.wrapping_add(1);
    }

    fn lock(&self) -> MutexGuard<'_, KnownNodes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_is_first_in_turn_until_a_session_begins() {
        let (seeds, endpoint) = (Seeds::default(), RedisEndpoint::parse("redis://a:1").unwrap());
        let check = |expected: &[&str]| {
            let candidates = seeds.candidates(&endpoint);
            let names: Vec<String> = candidates.iter().map(ToString::to_string).collect();
            assert_eq!(names, expected);
        };
        check(&["a:1"]);
        seeds.on_failed();
        check(&["a:1"]);
        seeds.on_opened(["a", "b", "c"].map(|host| (host.to_owned(), 1)).to_vec());
        check(&["a:1", "b:1", "c:1"]);
        seeds.on_failed();
        check(&["b:1", "c:1", "a:1"]);
        seeds.on_failed();
        seeds.on_failed();
        check(&["a:1", "b:1", "c:1"]);
    }
}
