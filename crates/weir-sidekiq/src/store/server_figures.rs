//! What the Redis of the store reports of itself: memory, CPU time, commands.

use std::rc::Rc;
use std::time::Duration;

use redis::{AsyncCommands as _, Pipeline, Value, from_redis_value};
use weir_jobs::metrics::StoreServerFigures;
use weir_jobs::store::StoreError;

use super::cluster_figures::{NodeFigures, sum_of};
use super::link_connection::LinkConnection;
use super::server_info::{INFO_SECTIONS, ServerInfo};
use super::store_core::StoreCore;

/// How often Redis is asked.
pub(super) const FIGURES_EVERY: Duration = Duration::from_secs(5);

impl StoreCore {
    /// Reads the figures and publishes them. A Redis that is away, or permits no `INFO`, has none.
    pub(super) async fn publish_server_figures(self: &Rc<Self>) -> Result<(), StoreError> {
        let read = match self.ready().await {
            Ok(connection) if self.link.is_cluster() => Ok(self.read_cluster(connection).await),
            Ok(connection) => self.read_server(connection).await.map(|it| (it, Vec::new())),
            Err(error) => Err(error),
        };
        let ((figures, nodes), outcome) = match read {
            Ok(figures) => (figures, Ok(())),
            Err(error) => ((None, Vec::new()), Err(error)),
        };
        self.measured.publish_server(figures);
        self.measured.publish_nodes(nodes);
        outcome
    }

    /// Returns the sums of all nodes, and the figures of each.
    async fn read_cluster(
        &self,
        mut connection: LinkConnection,
    ) -> (Option<StoreServerFigures>, NodeFigures) {
        let nodes = self.read_node_figures(&connection).await;
        let processed: Result<Option<u64>, _> =
            connection.get(self.keys.statistic("processed", None)).await;
        let processed_total = processed.unwrap_or_default().unwrap_or_default();
        let sum = sum_of(&nodes).map(|sum| StoreServerFigures { processed_total, ..sum });
        (sum, nodes)
    }

    async fn read_server(
        &self,
        mut connection: LinkConnection,
    ) -> Result<Option<StoreServerFigures>, StoreError> {
        let mut pipeline = Pipeline::new();
        pipeline.ignore_errors();
        for section in INFO_SECTIONS {
            pipeline.cmd("INFO").arg(section);
        }
        pipeline.get(self.keys.statistic("processed", None));
        let reply = pipeline.query_async(&mut connection).await;
        let reply: Vec<Value> = reply.map_err(|error| self.link.failed(&error))?;
        let at = self.now();
        Ok(figures(reply).map(|figures| StoreServerFigures { at, ..figures }))
    }
}

/// Parses the replies. `None`: one of the texts is missing.
fn figures(reply: Vec<Value>) -> Option<StoreServerFigures> {
    let mut values = reply.into_iter();
    let mut text = || from_redis_value::<String>(values.next()?).ok();
    let info = ServerInfo { memory: text()?, cpu: text()?, commands: text()? };
    let processed = text().and_then(|total| total.parse().ok());
    Some(StoreServerFigures { processed_total: processed.unwrap_or_default(), ..info.figures()? })
}

#[cfg(test)]
mod tests {
    use weir_jobs::metrics::CommandKind;

    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn figures_are_read_from_info() {
        let reply = || {
            vec![
                text("# Memory\r\nused_memory:1024\r\nmaxmemory:2048\r\n"),
                text(
                    "used_cpu_sys:9.0\r\nused_cpu_user:9.0\r\nused_cpu_sys_main_thread:0.25\r\nused_cpu_user_main_thread:0.5\r\n",
                ),
                text("cmdstat_evalsha:calls=3,usec=30\r\ncmdstat_config|get:calls=1,usec=2\r\n"),
                text("17"),
            ]
        };
        let figures = figures(reply()).unwrap();
        assert_eq!((figures.memory_bytes, figures.memory_bytes_max), (1_024, 2_048));
        assert_eq!((figures.cpu_seconds, figures.processed_total), (0.75, 17));
        let kinds: Vec<CommandKind> = figures.commands.iter().map(|it| it.kind).collect();
        assert_eq!(kinds, [CommandKind::Script, CommandKind::Other]);
        let mut without = reply();
        without[3] = Value::Nil;
        assert_eq!(super::figures(without).unwrap().processed_total, 0);
        for missing in 0..3 {
            let mut reply = reply();
            reply[missing] = Value::Nil;
            assert_eq!(super::figures(reply), None);
        }
        assert_eq!(super::figures(Vec::new()), None);
    }
}
