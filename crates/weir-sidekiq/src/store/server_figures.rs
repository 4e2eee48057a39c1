//! What the Redis of the store reports of itself: memory, CPU time, commands.

use std::rc::Rc;
use std::time::Duration;

use super::link_connection::LinkConnection;
use redis::{Pipeline, Value, from_redis_value};
use weir_advisor::observation::redis_field;
use weir_jobs::metrics::{CommandFigures, StoreServerFigures};
use weir_jobs::store::StoreError;

use super::command_kinds::kind_of;
use super::store_core::StoreCore;
use crate::server::CommandSample;

/// How often Redis is asked.
pub(super) const FIGURES_EVERY: Duration = Duration::from_secs(5);
/// Commands that are read, those with the most time first. Redis has about 250.
const COMMANDS_MAX: usize = 300;

impl StoreCore {
    /// Reads the figures and publishes them. A Redis that is away, or permits no `INFO`, has none.
    pub(super) async fn publish_server_figures(self: &Rc<Self>) -> Result<(), StoreError> {
        let read = match self.ready().await {
            Ok(connection) => self.read_server_figures(connection).await,
            Err(error) => Err(error),
        };
        let (figures, outcome) = match read {
            Ok(figures) => (figures, Ok(())),
            Err(error) => (None, Err(error)),
        };
        self.measured.publish_server(figures);
        outcome
    }

    async fn read_server_figures(
        &self,
        mut connection: LinkConnection,
    ) -> Result<Option<StoreServerFigures>, StoreError> {
        let mut pipeline = Pipeline::new();
        pipeline.ignore_errors();
        for section in ["memory", "cpu", "commandstats"] {
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
    let (memory, cpu, commands) = (text()?, text()?, text()?);
    let processed = text().and_then(|total| total.parse().ok());
    let number = |name| redis_field(&memory, name).and_then(|value| value.parse().ok());
    Some(StoreServerFigures {
        memory_bytes: number("used_memory")?,
        memory_bytes_max: number("maxmemory").unwrap_or_default(),
        cpu_seconds: cpu_seconds(&cpu)?,
        processed_total: processed.unwrap_or_default(),
        commands: command_figures(&commands),
        ..StoreServerFigures::default()
    })
}

/// Returns the CPU time of the thread that runs the commands, or of all where Redis does not
/// distinguish them.
fn cpu_seconds(info: &str) -> Option<f64> {
    let field = |name: &str| redis_field(info, name)?.parse::<f64>().ok();
    let sum = |names: [&str; 2]| Some(field(names[0])? + field(names[1])?);
    sum(["used_cpu_user_main_thread", "used_cpu_sys_main_thread"])
        .or_else(|| sum(["used_cpu_user", "used_cpu_sys"]))
}

fn command_figures(info: &str) -> Vec<CommandFigures> {
    let figures = |command: CommandSample| CommandFigures {
        kind: kind_of(&command.name),
        name: command.name,
        calls: command.calls,
        took: command.took,
    };
    CommandSample::parse(info, COMMANDS_MAX).into_iter().map(figures).collect()
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
