//! Which slots of a cluster are served, and the state of each node.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::{RedisResult, Value};

use super::links::NodeLink;
use super::router::ClusterRouter;
use crate::cluster_slots::{NodeAddress, SlotRange, name_of};
use crate::error_kind::reply_error;
use crate::slots::SLOTS;

/// The start of the text of `CLUSTERDOWN`, unless it concerns one slot.
const INCOMPLETE: &str = "The cluster is down";

/// A node that has slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNodeState {
    /// Its host and port.
    pub name: String,
    /// For how long it can't have been used. `None`: it can.
    pub away: Option<Duration>,
    /// Why it can't be used.
    pub problem: Option<String>,
}

impl ClusterRouter {
    /// Returns why no node can be used, or `None` if one can or none was needed yet.
    #[must_use]
    pub fn absence_text(&self) -> Option<String> {
        if self.rejects_all.load(Ordering::Relaxed) {
            return Some(format!(
                "the Redis Cluster of {} rejects all commands (CLUSTERDOWN): start its masters, or \
                 set cluster-require-full-coverage no",
                self.links.seed_host()
            ));
        }
        let texts: Vec<_> = self.nodes().iter().map(|node| node.absence_text()).collect();
        if texts.iter().all(Option::is_some) { texts.into_iter().next().flatten() } else { None }
    }

    /// Returns why one of the nodes can't be used.
    #[must_use]
    pub fn absence_text_of_a_node(&self) -> Option<String> {
        self.nodes().iter().find_map(|node| node.absence_text())
    }

    /// Returns why some of the slots can't be used. Empty: all can, as far as is known.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let absent = self.nodes().into_iter().filter_map(|node| node.absence_text());
        absent.chain(unowned_text(&self.map().ranges)).collect()
    }

    /// Returns the nodes, by address.
    #[must_use]
    pub fn node_states(&self) -> Vec<ClusterNodeState> {
        let state = |(address, node): (&NodeAddress, &Arc<dyn NodeLink>)| {
            let (away, problem) = (node.absence_lasts(), node.absence_text());
            ClusterNodeState { name: name_of(address), away, problem }
        };
        self.map().nodes.iter().map(state).collect()
    }

    /// Returns the name of the node that has a slot.
    #[must_use]
    pub fn owner_name(&self, slot: u16) -> Option<String> {
        self.owner_of(slot).as_ref().map(name_of)
    }

    /// Notes whether the nodes reject all commands.
    pub(super) fn note_state(&self, reply: &RedisResult<Value>) {
        let rejects_all = is_rejected_by_all(reply);
        if !rejects_all && !is_usable(reply) {
            return;
        }
        if self.rejects_all.swap(rejects_all, Ordering::Relaxed) != rejects_all {
            let host = self.links.seed_host();
            match rejects_all {
                true => tracing::warn!(host, "a Redis Cluster rejects all commands; trying again"),
                false => tracing::info!(host, "a Redis Cluster accepts commands again"),
            }
        }
    }
}

/// Returns whether a reply is no error.
pub(super) fn is_usable(reply: &RedisResult<Value>) -> bool {
    matches!(reply, Ok(value) if !matches!(value, Value::ServerError(_)))
}

fn is_rejected_by_all(reply: &RedisResult<Value>) -> bool {
    reply_error(reply)
        .is_some_and(|(code, text)| code == "CLUSTERDOWN" && text.starts_with(INCOMPLETE))
}

/// Returns which slots no node has.
fn unowned_text(ranges: &[SlotRange]) -> Option<String> {
    let mut ranges: Vec<(u16, u16)> = ranges.iter().map(|it| (it.first, it.last)).collect();
    ranges.sort_unstable();
    let (mut next, mut unowned) = (0, Vec::new());
    for (first, last) in ranges.into_iter().chain([(SLOTS, SLOTS)]) {
        if first > next {
            unowned.push(format!("{next}-{}", first - 1));
        }
        next = next.max(last.saturating_add(1));
    }
    (!unowned.is_empty())
        .then(|| format!("no node of the Redis Cluster has the slots {}", unowned.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_without_a_node_are_named() {
        let range = |first, last| SlotRange { first, last, node: ("a".to_owned(), 1) };
        assert_eq!(unowned_text(&[range(8_000, 16_383), range(0, 7_999)]), None);
        // A slot that has moved is there twice.
        assert_eq!(unowned_text(&[range(5, 5), range(0, 16_383)]), None);
        let text = unowned_text(&[range(10, 19), range(30, 16_000)]).unwrap();
        assert!(text.ends_with("slots 0-9, 20-29, 16001-16383"), "{text}");
        assert!(unowned_text(&[]).unwrap().ends_with("0-16383"));
    }

    #[test]
    fn only_an_incomplete_cluster_rejects_all_commands() {
        let of = |line: &str| {
            is_rejected_by_all(&redis::parse_redis_value(format!("-{line}\r\n").as_bytes()))
        };
        assert!(of("CLUSTERDOWN The cluster is down"));
        assert!(of("CLUSTERDOWN The cluster is down and only accepts read commands"));
        assert!(!of("CLUSTERDOWN Hash slot not served"));
        assert!(!of("ERR The cluster is down"));
    }
}
