//! The nodes of a deployment as this node knows them.

use std::time::Duration;

use tokio::time::Instant;
use weir_jobs::node::{NodeReport, NodeState};

/// A node without a report for this long, and without a lease, is not shown any more.
const SHOWN_FOR: Duration = Duration::from_secs(3_600);
/// Longer names are no node's.
const NAME_BYTES_MAX: usize = 64;

/// The owners whose lease is alive, and for each report its node, its age and its text.
pub(super) type NodesReply = (Vec<Vec<u8>>, Vec<(Vec<u8>, u64, Vec<u8>)>);

/// The nodes, as they were read last.
#[derive(Debug, Default)]
pub(super) struct KnownNodes {
    nodes: Vec<NodeState>,
    read_at: Option<Instant>,
    /// The last report of this node.
    pub(super) own: Option<NodeReport>,
    /// Where the next step of forgetting begins.
    pub(super) forget_cursor: String,
}

impl KnownNodes {
    /// Returns the nodes with the present ages of their reports.
    pub(super) fn present(&self) -> Vec<NodeState> {
        let since = self.read_at.map_or(Duration::ZERO, |read_at| read_at.elapsed());
        let nodes = self.nodes.iter();
        nodes.map(|node| NodeState { age: node.age + since, ..node.clone() }).collect()
    }

    /// Notes what was read after this node, `id`, had reported `own`.
    pub(super) fn note(&mut self, reply: NodesReply, id: &str, own: NodeReport) {
        self.nodes = nodes_of(reply, id);
        self.read_at = Some(Instant::now());
        self.own = Some(own);
    }
}

/// Returns the nodes to show, by hostname. Others may have written the reports: what is none is left
/// out.
fn nodes_of((owners, reports): NodesReply, own: &str) -> Vec<NodeState> {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).ok();
    let node_of = |owner: String| owner.rsplit_once('-').map(|(node, _)| node.to_owned());
    let mut alive: Vec<String> = owners.into_iter().filter_map(text).filter_map(node_of).collect();
    let mut nodes = Vec::new();
    for (id, age, json) in reports {
        let (Some(id), age) = (text(id), Duration::from_secs(age)) else { continue };
        if let Some(report) = NodeReport::parse(&json)
            && (alive.contains(&id) || age <= SHOWN_FOR)
        {
            alive.retain(|it| *it != id);
            nodes.push(NodeState { is_self: id == own, id, report: Some(report), age });
        }
    }
    // They have a lease and report nothing.
    alive.sort_unstable();
    alive.dedup();
    nodes.extend(alive.into_iter().filter(|id| id.len() <= NAME_BYTES_MAX).map(|id| NodeState {
        is_self: id == own,
        id,
        ..NodeState::default()
    }));
    let name = |node: &NodeState| node.report.as_ref().map(|report| report.hostname.clone());
    nodes.sort_by_cached_key(|node| (name(node), node.id.clone()));
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_those_that_report_or_have_a_lease() {
        let report = |name: &str| format!(r#"{{"hostname":"{name}","busy":2}}"#).into_bytes();
        let owners = ["aaa-1", "old-7", "aaa-2", "odd"].map(|it| it.as_bytes().to_vec());
        let reports = vec![
            (b"bbb".to_vec(), 20, report("b")),
            (b"aaa".to_vec(), 5, report("a")),
            (b"gone".to_vec(), 4_000, report("gone")),
            (b"old".to_vec(), 3, Vec::new()),
            (b"\xff".to_vec(), 1, report("not UTF-8")),
            (b"hostile".to_vec(), 1, b"FLUSHALL".to_vec()),
        ];
        let nodes = nodes_of((owners.to_vec(), reports), "bbb");
        let ids: Vec<&str> = nodes.iter().map(|node| node.id.as_str()).collect();
        assert_eq!(ids, ["old", "aaa", "bbb"]);
        assert_eq!(nodes[0].report, None, "it is of a version that reports nothing");
        assert_eq!(nodes[2].is_self.then_some(nodes[2].age), Some(Duration::from_secs(20)));
    }
}
