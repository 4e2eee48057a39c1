//! What the nodes of a deployment report to each other, for operators: nothing here decides about
//! jobs.

use std::rc::Rc;
use std::time::Duration;

use weir_base::node::NodeReports;
use weir_jobs::node::{NodeFigures, NodeReport, NodeState};
use weir_jobs::store::StoreError;

use super::link_connection::LinkConnection;
use super::store_core::StoreCore;

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

/// The owners whose lease is alive, and the reports.
type NodesReply = (Vec<Vec<u8>>, NodeReports);

/// Returns the node of an owner.
fn node_of(owner: Vec<u8>) -> Option<String> {
    let owner = String::from_utf8(owner).ok()?;
    owner.rsplit_once('-').map(|(node, _)| node.to_owned())
}

impl StoreCore {
    /// Returns the nodes with the present ages of their reports.
    pub(super) fn known_nodes(&self) -> Vec<NodeState> {
        self.state.borrow().nodes.present()
    }

    /// Reports this node, and reads the reports of all.
    pub(super) async fn exchange_nodes(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
        own: NodeReport,
    ) -> Result<(), StoreError> {
        let text = serde_json::to_vec(&own).unwrap_or_default();
        let mut invocation = self.scripts.nodes.key(self.reports_key());
        invocation.key(self.nodes_key()).arg(&self.node).arg(text).arg(REPORTS_KEPT.as_secs());
        invocation.arg(NODES_READ_MAX).arg(REPORT_BYTES_MAX);
        let reply: Result<NodesReply, _> = invocation.invoke_async(connection).await;
        let (owners, reports) = reply.map_err(|error| self.link.failed(&error))?;
        let alive = owners.into_iter().filter_map(node_of).collect();
        self.state.borrow_mut().nodes.note(alive, reports, &self.node, own);
        Ok(())
    }

    /// Reports that this node stops in order.
    pub(super) async fn report_stop(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
    ) -> Result<(), StoreError> {
        let Some(own) = self.state.borrow().nodes.own().cloned() else { return Ok(()) };
        let process = own.process.ended();
        let figures = NodeFigures { jobs_per_second: 0.0, connections: 0, ..own.figures };
        self.exchange_nodes(connection, NodeReport { process, figures }).await
    }

    /// Forgets some nodes that have been gone for long.
    pub(super) async fn forget_nodes(
        &self,
        connection: &mut LinkConnection,
    ) -> Result<(), StoreError> {
        let cursor = self.state.borrow().forget_cursor.clone();
        let mut invocation = self.scripts.forget.key(self.nodes_key());
        invocation.key(self.epochs_key()).key(self.clean_key()).key(self.reports_key());
        invocation.arg(self.token()?).arg(if cursor.is_empty() { "0" } else { &cursor });
        invocation.arg(NODES_PER_STEP).arg(NODE_KEPT.as_secs()).arg(NODES_KEPT_MAX);
        let next: Result<Option<String>, _> = invocation.invoke_async(connection).await;
        let next = next.map_err(|error| self.link.failed(&error))?;
        self.state.borrow_mut().forget_cursor = next.unwrap_or_default();
        Ok(())
    }
}
