//! The nodes of a deployment as this node knows them.

use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::joined::sorted;
use super::{NodeReport, NodeState};

/// A node without a report for this long, and without a lease, is not shown any more.
const SHOWN_FOR: Duration = Duration::from_secs(3_600);
/// Longer names are no node's.
const NAME_BYTES_MAX: usize = 64;

/// The reports of all nodes: for each its node, its age in seconds and its text.
pub type NodeReports = Vec<(Vec<u8>, u64, Vec<u8>)>;

/// The nodes, as they were read last.
#[derive(Debug)]
pub struct KnownNodes<F> {
    nodes: Vec<NodeState<F>>,
    read_at: Option<Instant>,
    /// The last report of this node.
    own: Option<NodeReport<F>>,
}

impl<F> Default for KnownNodes<F> {
    fn default() -> Self {
        Self { nodes: Vec::new(), read_at: None, own: None }
    }
}

impl<F: Clone + DeserializeOwned + Default> KnownNodes<F> {
    /// Returns the nodes with the present ages of their reports.
    #[must_use]
    pub fn present(&self) -> Vec<NodeState<F>> {
        let since = self.read_at.map_or(Duration::ZERO, |read_at| read_at.elapsed());
        let nodes = self.nodes.iter();
        nodes.map(|node| NodeState { age: node.age + since, ..node.clone() }).collect()
    }

    /// Notes what was read after this node, `id`, had reported `own`. Nodes that are `alive` are listed
    /// even without a report.
    pub fn note(&mut self, alive: Vec<String>, reports: NodeReports, id: &str, own: NodeReport<F>) {
        self.nodes = nodes_of(alive, reports, id);
        self.read_at = Some(Instant::now());
        self.own = Some(own);
    }

    /// Returns the last report of this node, if there was any.
    #[must_use]
    pub const fn own(&self) -> Option<&NodeReport<F>> {
        self.own.as_ref()
    }
}

/// Returns the nodes to show, by hostname. Others may have written the reports: what is none is left
/// out.
fn nodes_of<F: DeserializeOwned + Default>(
    mut alive: Vec<String>,
    reports: NodeReports,
    own: &str,
) -> Vec<NodeState<F>> {
    let mut nodes = Vec::new();
    for (id, age, json) in reports {
        let (Ok(id), age) = (String::from_utf8(id), Duration::from_secs(age)) else { continue };
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
        report: None,
        age: Duration::ZERO,
    }));
    sorted(nodes)
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    struct Figures {
        busy: u64,
    }

    #[test]
    fn nodes_are_those_that_report_or_have_a_lease() {
        let report = |name: &str| format!(r#"{{"hostname":"{name}","busy":2}}"#).into_bytes();
        let alive = ["aaa", "old", "aaa"].map(str::to_owned);
        let reports = vec![
            (b"bbb".to_vec(), 20, report("b")),
            (b"aaa".to_vec(), 5, report("a")),
            (b"gone".to_vec(), 4_000, report("gone")),
            (b"old".to_vec(), 3, Vec::new()),
            (b"\xff".to_vec(), 1, report("not UTF-8")),
            (b"hostile".to_vec(), 1, b"FLUSHALL".to_vec()),
        ];
        let nodes = nodes_of::<Figures>(alive.to_vec(), reports, "bbb");
        let ids: Vec<&str> = nodes.iter().map(|node| node.id.as_str()).collect();
        assert_eq!(ids, ["old", "aaa", "bbb"]);
        assert_eq!(nodes[0].report, None, "it is of a version that reports nothing");
        assert_eq!(nodes[1].report.as_ref().unwrap().figures.busy, 2);
        assert_eq!(nodes[2].is_self.then_some(nodes[2].age), Some(Duration::from_secs(20)));
    }
}
