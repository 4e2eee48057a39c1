//! What the nodes report about themselves, for operators: nothing here decides anything.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::RedisResult;
use tokio::time::Instant;
use weir_base::node::{KnownNodes, NodeProcess, NodeReports, REPORT_INTERVAL};
use weir_realtime::hub::Hub;
use weir_realtime::shared_log::{NodeFigures, NodeReport, NodeState};

use crate::command_connection::CommandConnection;
use crate::keys::Keys;
use crate::scripts;

/// This node, to the others.
#[derive(Clone, Debug, Default)]
pub struct NodeOptions {
    /// Its name, which is unique and survives a restart.
    pub name: String,
    /// The address of its console for browsers. Empty: none.
    pub console: String,
}

/// The reports in one shard.
#[derive(Debug)]
pub(crate) struct Reports {
    options: NodeOptions,
    started: Instant,
    /// A lock of std, never held across an await.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    known: KnownNodes<NodeFigures>,
    due: Option<Instant>,
    /// How long the shard took to respond to the last heartbeat.
    log_seconds: f64,
}

impl Reports {
    pub(crate) fn new(options: NodeOptions) -> Self {
        Self { options, started: Instant::now(), state: Mutex::default() }
    }

    /// Returns the nodes with the present ages of their reports.
    pub(crate) fn nodes(&self) -> Vec<NodeState> {
        self.state().known.present()
    }

    /// Notes how long the shard took to respond.
    pub(crate) fn note_response(&self, time: Duration) {
        self.state().log_seconds = time.as_secs_f64();
    }

    /// Reports this node and reads the reports of all, if that is due. A process that has handed over to
    /// another one leaves that to it.
    pub(crate) async fn exchange(
        &self,
        keys: &Keys,
        hub: &Hub,
        connection: &mut CommandConnection,
    ) -> RedisResult<()> {
        let now = Instant::now();
        if self.state().due.is_some_and(|due| now < due) || hub.is_handed_over() {
            return Ok(());
        }
        self.state().due = Some(now + REPORT_INTERVAL);
        let log_seconds = self.state().log_seconds;
        let process = NodeProcess::this(
            env!("CARGO_PKG_VERSION"),
            self.started.elapsed(),
            &self.options.console,
        );
        let own =
            NodeReport { process, figures: NodeFigures { log_seconds, ..hub.node_figures() } };
        let reports = self.send(keys, &own, None, connection).await?;
        self.state().known.note(Vec::new(), reports, &self.options.name, own);
        Ok(())
    }

    /// Reports that this node ends, unless another process has taken its place.
    pub(crate) async fn stop(
        &self,
        keys: &Keys,
        connection: &mut CommandConnection,
    ) -> RedisResult<()> {
        let Some(last) = self.state().known.own().cloned() else { return Ok(()) };
        let process = last.process.clone().ended();
        let figures = NodeFigures::default();
        self.send(keys, &NodeReport { process, figures }, Some(&last), connection).await.map(drop)
    }

    async fn send(
        &self,
        keys: &Keys,
        own: &NodeReport,
        replaces: Option<&NodeReport>,
        connection: &mut CommandConnection,
    ) -> RedisResult<NodeReports> {
        let text = |report: &NodeReport| serde_json::to_string(report).unwrap_or_default();
        let replaced = replaces.map(text).unwrap_or_default();
        let command = scripts::report(keys, &self.options.name, &text(own), &replaced);
        command.query_async(connection).await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
