//! What the nodes of a deployment report to each other, for operators: nothing here decides about
//! jobs.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;
use weir_jobs::node::{NodeReport, NodeState};
use weir_jobs::store::StoreError;

use super::link_connection::LinkConnection;
use super::store_core::StoreCore;

/// A node without a report for this long, and without a lease, is not shown any more.
const SHOWN_FOR: Duration = Duration::from_secs(3_600);
/// Redis forgets all reports this long after the last one of any node.
const REPORTS_KEPT: Duration = Duration::from_secs(30 * 24 * 3_600);
/// A node that has been gone for this long is forgotten.
const NODE_KEPT: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Nodes that are remembered. Each takes some 300 bytes.
const NODES_KEPT_MAX: usize = 10_000;
/// Nodes that are read for the console.
const NODES_READ_MAX: usize = 1_000;
/// Nodes that are examined in one step, more or less.
const NODES_PER_STEP: usize = 100;
/// Bytes of one report.
const REPORT_BYTES_MAX: usize = 2_048;

/// The owners whose lease is alive, and for each report its node, its age and its text.
type NodesReply = (Vec<Vec<u8>>, Vec<(Vec<u8>, u64, Vec<u8>)>);

/// The nodes, as they were read last.
#[derive(Debug, Default)]
pub(super) struct KnownNodes {
    nodes: Vec<NodeState>,
    read_at: Option<Instant>,
    /// The last report of this node.
    own: Option<NodeReport>,
    /// Where the next step of forgetting begins.
    forget_cursor: String,
}

impl StoreCore {
    /// Returns the nodes with the present ages of their reports.
    pub(super) fn known_nodes(&self) -> Vec<NodeState> {
        let state = self.state.borrow();
        let since = state.nodes.read_at.map_or(Duration::ZERO, |read_at| read_at.elapsed());
        let nodes = state.nodes.nodes.iter();
        nodes.map(|node| NodeState { age: node.age + since, ..node.clone() }).collect()
    }

    /// Reports this node, and reads the reports of all.
    pub(super) async fn exchange_nodes(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
        own: NodeReport,
    ) -> Result<(), StoreError> {
        let text = serde_json::to_vec(&own).unwrap_or_default();
        let mut invocation = self.scripts.nodes.key(self.keys.reports());
        invocation.key(self.keys.nodes()).arg(&self.node).arg(text).arg(REPORTS_KEPT.as_secs());
        invocation.arg(NODES_READ_MAX).arg(REPORT_BYTES_MAX);
        let reply: Result<NodesReply, _> = invocation.invoke_async(connection).await;
        let reply = reply.map_err(|error| self.link.failed(&error))?;
        let known = &mut self.state.borrow_mut().nodes;
        known.nodes = nodes_of(reply, &self.node);
        known.read_at = Some(Instant::now());
        known.own = Some(own);
        Ok(())
    }

    /// Reports that this node stops in order.
    pub(super) async fn report_stop(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
    ) -> Result<(), StoreError> {
        let Some(own) = self.state.borrow().nodes.own.clone() else { return Ok(()) };
        let stopped = NodeReport { stopped: true, jobs_per_second: 0.0, connections: 0, ..own };
        self.exchange_nodes(connection, stopped).await
    }

    /// Forgets some nodes that have been gone for long.
    pub(super) async fn forget_nodes(
        &self,
        connection: &mut LinkConnection,
    ) -> Result<(), StoreError> {
        let cursor = self.state.borrow().nodes.forget_cursor.clone();
        let mut invocation = self.scripts.forget.key(self.keys.nodes());
        invocation.key(self.keys.epochs()).key(self.keys.clean()).key(self.keys.reports());
        invocation.arg(self.token()?).arg(if cursor.is_empty() { "0" } else { &cursor });
        invocation.arg(NODES_PER_STEP).arg(NODE_KEPT.as_secs()).arg(NODES_KEPT_MAX);
        let next: Result<Option<String>, _> = invocation.invoke_async(connection).await;
        let next = next.map_err(|error| self.link.failed(&error))?;
        self.state.borrow_mut().nodes.forget_cursor = next.unwrap_or_default();
        Ok(())
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
    nodes.extend(alive.into_iter().filter(|id| id.len() <= 64).map(|id| NodeState {
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
