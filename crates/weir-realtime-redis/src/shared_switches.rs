//! Switches of all nodes. What an operator changes on one node is stored in Redis, and the other nodes
//! read all switches again.

use std::time::Duration;

use redis::RedisResult;
use weir_base::switch::Off;
use weir_base::switchboard::{SwitchChanges, Switchboard};

use crate::command_connection::CommandConnection;
use crate::keys::Keys;
use crate::scripts;

/// How often a node looks for changes by its own operators. The message to the other nodes follows at
/// once, so that all nodes have a change within a second.
pub(crate) const INTERVAL: Duration = Duration::from_millis(200);

/// The switches of this node, during one connection.
#[derive(Debug)]
pub(crate) struct SharedSwitches {
    board: Option<Switchboard>,
    /// The number of the change that the node has applied last.
    version: Option<Version>,
    /// Whether a message has reported a change.
    is_due: bool,
}

type Version = (String, u64);

impl SharedSwitches {
    /// Begins with a connection. Without a switchboard, nothing is shared.
    pub(crate) fn new(board: Option<Switchboard>) -> Self {
        if let Some(board) = &board {
            board.share();
        }
        Self { board, version: None, is_due: true }
    }

    /// Notes that another node has changed a switch.
    pub(crate) fn on_message(&mut self) {
        self.is_due = true;
    }

    /// Sends changes by operators, and applies those of other nodes if a message has reported any, or if
    /// `looks` for those whose message was lost.
    pub(crate) async fn exchange(
        &mut self,
        keys: &Keys,
        looks: bool,
        connection: &mut CommandConnection,
    ) -> RedisResult<()> {
        let Some(board) = self.board.clone() else { return Ok(()) };
        let mut taken = TakenChanges { board: &board, changes: board.take_changes() };
        if taken.changes.is_empty() && !self.is_due && !looks {
            return Ok(());
        }
        let version = send(keys, &board, &taken.changes, connection).await?;
        taken.changes = SwitchChanges::default();
        drop(taken);
        self.apply(keys, board, version, connection).await
    }

    /// Reads and applies all switches, if they have another version.
    async fn apply(
        &mut self,
        keys: &Keys,
        board: Switchboard,
        version: Option<Version>,
        connection: &mut CommandConnection,
    ) -> RedisResult<()> {
        self.is_due = version.is_none();
        if version.is_none() || self.version == version {
            return Ok(());
        }
        let mut command = redis::cmd("HGETALL");
        let stored: Vec<(String, String)> =
            command.arg(keys.switches()).query_async(connection).await?;
        let all: Vec<Off> =
            stored.iter().filter_map(|(_, json)| serde_json::from_str(json).ok()).collect();
        // Blocking: the file is synced.
        match tokio::task::spawn_blocking(move || board.replace(all)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "the switches of other nodes are not stored"),
            Err(error) => tracing::error!(%error, "the switches of other nodes are not applied"),
        }
        self.version = version;
        Ok(())
    }
}

/// Sends changes. If Redis has no switches, because this is the first node or Redis was emptied, sends
/// all of this node first. Returns the version afterwards.
/// Changes that are being sent. If that fails, or the session ends meanwhile, they go back to the board.
struct TakenChanges<'a> {
    board: &'a Switchboard,
    changes: SwitchChanges,
}

impl Drop for TakenChanges<'_> {
    fn drop(&mut self) {
        self.board.return_changes(std::mem::take(&mut self.changes));
    }
}

async fn send(
    keys: &Keys,
    board: &Switchboard,
    changes: &SwitchChanges,
    connection: &mut CommandConnection,
) -> RedisResult<Option<Version>> {
    let version = read_version(keys, connection).await?;
    if version.is_some() && changes.is_empty() {
        return Ok(version);
    }
    if version.is_none() {
        let own = board.all_off().into_iter().map(|off| (off.pattern.clone(), Some(off)));
        change(keys, &own.collect(), true, connection).await?;
    }
    if !changes.is_empty() {
        change(keys, changes, false, connection).await?;
    }
    read_version(keys, connection).await
}

async fn read_version(
    keys: &Keys,
    connection: &mut CommandConnection,
) -> RedisResult<Option<Version>> {
    let mut command = redis::cmd("HMGET");
    command.arg(keys.switches_version()).arg("epoch").arg("number");
    let (epoch, number): (Option<String>, Option<u64>) = command.query_async(connection).await?;
    Ok(epoch.zip(number))
}

/// Changes switches for all nodes. `only_first`: only if no node has stored any before.
async fn change(
    keys: &Keys,
    changes: &SwitchChanges,
    only_first: bool,
    connection: &mut CommandConnection,
) -> RedisResult<()> {
    let changes = changes.iter().map(|(pattern, off)| {
        let json = off.as_ref().map(|off| serde_json::json!(off).to_string());
        (pattern.to_string(), json.unwrap_or_default())
    });
    scripts::change_switches(keys, only_first, changes).exec_async(connection).await
}
