//! Requests to close a user's connections to all nodes, in a stream that every node reads.

use redis::{Pipeline, RedisResult, Value};
use tokio::time::Instant;

use crate::command_connection::CommandConnection;
use crate::keys::Keys;

/// Requests that the stream keeps, about. A node that is away for longer misses earlier ones.
const KEPT_MAX: usize = 10_000;
/// How long the stream is kept after its last request.
const AGE_MS: u64 = 24 * 3_600 * 1_000;
/// Requests that are read in one round trip.
const READ_MAX: usize = 256;

/// Where a node has read up to. It begins with the time at which the node started.
#[derive(Clone, Debug)]
pub(crate) struct TerminationReader {
    after: String,
}

/// A request of another node, or of this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Termination {
    /// Its position in the stream.
    id: String,
    pub(crate) node: String,
    pub(crate) app: String,
    pub(crate) user: String,
}

/// Returns the commands that add a request.
pub(crate) fn add(keys: &Keys, node: &str, app: &str, user: &str) -> Pipeline {
    let key = keys.terminations();
    let mut pipeline = Pipeline::new();
    let add = pipeline.cmd("XADD").arg(&key).arg("MAXLEN").arg("~").arg(KEPT_MAX).arg("*");
    add.arg(&["node", node, "app", app, "user", user]).ignore();
    pipeline.cmd("PEXPIRE").arg(&key).arg(AGE_MS).ignore();
    pipeline
}

impl TerminationReader {
    /// Begins with the server's time at `started`: users may have connected to the node before the node
    /// connected to Redis.
    pub(crate) async fn begin(
        connection: &mut CommandConnection,
        started: Instant,
    ) -> RedisResult<Self> {
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query_async(connection).await?;
        let age_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let now_ms = seconds * 1_000 + micros / 1_000;
        Ok(Self { after: format!("{}-0", now_ms.saturating_sub(age_ms + 1)) })
    }

    /// Returns the next requests.
    pub(crate) async fn read(
        &self,
        keys: &Keys,
        connection: &mut CommandConnection,
    ) -> RedisResult<Vec<Termination>> {
        let mut command = redis::cmd("XRANGE");
        command.arg(keys.terminations()).arg(format!("({}", self.after)).arg("+");
        command.arg("COUNT").arg(READ_MAX);
        let entries: Vec<(String, Vec<Value>)> = command.query_async(connection).await?;
        Ok(entries.into_iter().map(|(id, fields)| parse(id, &fields)).collect())
    }

    /// Notes that a request was carried out.
    pub(crate) fn advance(&mut self, done: &Termination) {
        self.after.clone_from(&done.id);
    }
}

/// Reads an entry. Fields that are missing are empty: no app has that id.
fn parse(id: String, fields: &[Value]) -> Termination {
    let text = |value: &Value| match value {
        Value::BulkString(text) => String::from_utf8_lossy(text).into_owned(),
        _ => String::new(),
    };
    let field = |name: &str| {
        let mut pairs = fields.chunks_exact(2);
        pairs.find(|pair| text(&pair[0]) == name).map(|pair| text(&pair[1])).unwrap_or_default()
    };
    Termination { node: field("node"), app: field("app"), user: field("user"), id }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_may_have_other_fields() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let words = ["app", "1", "new", "x", "user", "7", "node", "ab"].map(text);
        let termination = parse("5-0".to_owned(), &words);
        assert_eq!([&*termination.node, &*termination.app, &*termination.user], ["ab", "1", "7"]);
        assert_eq!(parse("5-0".to_owned(), &words[..1]).app, "");
    }
}
