//! The permissions that realtime needs, as a line for `ACL SETUSER`, and a check that a user has them.
//!
//! The check runs with every connection: what a script did before it was denied the rest is not
//! rolled back.

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisError, RedisResult, Value};
use weir_redis::acl::{self, CommandTrial, TrialKey};
use weir_redis::{RedisErrorKind, grant};

use crate::keys::Keys;
use crate::partition::Partition;

/// All commands of the node and of its scripts, in the order in which they are tried. `MULTI` and
/// `EXEC` are last: where `EXEC` is denied, the connection is of no use afterwards.
const COMMANDS: [CommandTrial; 31] = [
    ("ping", TrialKey::None, &[]),
    ("info", TrialKey::None, &["server"]),
    ("time", TrialKey::None, &[]),
    ("set", TrialKey::Text, &["1"]),
    ("get", TrialKey::Text, &[]),
    ("incr", TrialKey::Text, &[]),
    ("pexpire", TrialKey::Text, &["60000"]),
    ("pttl", TrialKey::Text, &[]),
    ("hset", TrialKey::Hash, &["x", "1"]),
    ("hget", TrialKey::Hash, &["x"]),
    ("hmget", TrialKey::Hash, &["x"]),
    ("hincrby", TrialKey::Hash, &["x", "1"]),
    ("hdel", TrialKey::Hash, &["x"]),
    ("hgetall", TrialKey::Hash, &[]),
    ("hlen", TrialKey::Hash, &[]),
    ("hscan", TrialKey::Hash, &["0"]),
    ("hrandfield", TrialKey::Hash, &["1"]),
    ("exists", TrialKey::Hash, &[]),
    ("sadd", TrialKey::Set, &["x"]),
    ("srem", TrialKey::Set, &["x"]),
    ("smembers", TrialKey::Set, &[]),
    ("srandmember", TrialKey::Set, &[]),
    ("xadd", TrialKey::Stream, &["1-0", "x", "1"]),
    ("xrange", TrialKey::Stream, &["-", "+"]),
    ("xrevrange", TrialKey::Stream, &["+", "-"]),
    ("del", TrialKey::All, &[]),
    ("script|load", TrialKey::None, &[acl::SCRIPT]),
    ("evalsha", TrialKey::None, &[acl::SCRIPT_HASH, "0"]),
    SPUBLISH,
    ("multi", TrialKey::None, &[]),
    ("exec", TrialKey::None, &[]),
];

/// What the nodes of a cluster need as well. First of all: `ASKING` concerns the next command.
const CLUSTER_COMMANDS: [CommandTrial; 2] =
    [("asking", TrialKey::None, &[]), ("cluster|slots", TrialKey::None, &[])];

/// Publishes to a channel without subscribers, whose name is like that of a key.
const SPUBLISH: CommandTrial = ("spublish", TrialKey::Text, &["x"]);
const SSUBSCRIBE: &str = "ssubscribe";

/// What a user needs for one deployment of Weir.
#[derive(Debug)]
pub(crate) struct Permissions<'a> {
    pub(crate) user: Option<&'a str>,
    pub(crate) keys: &'a Keys,
    /// Whether the server is a node of a Redis Cluster.
    pub(crate) is_cluster: bool,
}

/// Returns the words that a cluster needs in addition: `+asking +cluster|slots`.
pub(crate) fn cluster_words() -> String {
    CLUSTER_COMMANDS.map(|(rule, ..)| format!("+{rule}")).join(" ")
}

/// Returns whether the user lacks any command on any of these servers. Without the last two: a connection in use may
/// not begin a transaction that it can't end.
pub(crate) async fn is_any_denied(
    keys: &Keys,
    servers: &mut [MultiplexedConnection],
) -> RedisResult<bool> {
    let mut pipeline = Pipeline::new();
    for trial in &COMMANDS[..COMMANDS.len() - 2] {
        pipeline.add_command(acl::trial(keys.stem(), *trial));
    }
    pipeline.ignore_errors();
    for server in servers {
        let replies: Vec<Value> = pipeline.query_async(server).await?;
        let mut results = replies.into_iter().map(Value::extract_error);
        if results.any(|result| result.is_err_and(|error| is_denied(&error))) {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Permissions<'_> {
    /// Returns the command that grants everything: `ACL SETUSER weir ~keys &channels +ping ..`.
    pub(crate) fn line(&self) -> String {
        let patterns = [self.pattern('~'), self.pattern('&')];
        let commands = self.commands().map(|(rule, ..)| rule).chain([SSUBSCRIBE]);
        let words = patterns.into_iter().chain(commands.map(|rule| format!("+{rule}")));
        grant::line(self.user, &words.collect::<Vec<_>>().join(" "))
    }

    /// Returns the error of a user that lacks these words.
    pub(crate) fn error(&self, missing: &[String]) -> String {
        let user = self.user.unwrap_or("default");
        let (words, line) = (missing.join(" "), self.line());
        format!(
            "its user {user} lacks permissions: {words}; to grant all that realtime needs: {line}"
        )
    }

    /// Tries all that a node does, with both of its connections. Subscribes to one partition.
    ///
    /// # Errors
    /// Returns an error if there is no reply.
    pub(crate) async fn lacking(
        &self,
        commands: &mut MultiplexedConnection,
        subscriptions: &mut MultiplexedConnection,
    ) -> Result<Vec<String>, RedisError> {
        let mut pipeline = Pipeline::new();
        for trial in self.commands() {
            pipeline.add_command(acl::trial(self.keys.stem(), trial));
        }
        pipeline.ignore_errors();
        let replies: Vec<Value> = pipeline.query_async(commands).await?;
        let mut lacking: Vec<String> = Vec::new();
        for (trial, reply) in self.commands().zip(replies) {
            let pattern = self.pattern(if trial == SPUBLISH { '&' } else { '~' });
            if let Some(word) = acl::missing_word(trial.0, &pattern, &reply)
                && !lacking.contains(&word)
            {
                lacking.push(word);
            }
        }
        let mut subscribe = redis::cmd("SSUBSCRIBE");
        subscribe.arg(self.keys.shard_channel(Partition::first()));
        match subscribe.exec_async(subscriptions).await {
            Err(error) if is_denied(&error) && !lacking.contains(&self.pattern('&')) => {
                lacking.push(format!("+{SSUBSCRIBE}"));
            }
            Err(error) if is_denied(&error) => {}
            // Another node of the cluster has it.
            Err(error) if RedisErrorKind::of(&error, "") == RedisErrorKind::ClusterRedirect => {}
            other => other?,
        }
        Ok(lacking)
    }

    /// Returns the commands in the order in which they are tried.
    fn commands(&self) -> impl Iterator<Item = CommandTrial> {
        let cluster = if self.is_cluster { CLUSTER_COMMANDS.as_slice() } else { &[] };
        cluster.iter().copied().chain(COMMANDS)
    }

    /// Returns the pattern of keys (`~`) or of channels (`&`).
    fn pattern(&self, sign: char) -> String {
        format!("{sign}{}:*", acl::escaped(self.keys.stem()))
    }
}

/// Returns whether an error is about a missing permission.
pub(crate) fn is_denied(error: &RedisError) -> bool {
    matches!(RedisErrorKind::of(error, ""), RedisErrorKind::NoPermission { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_keys_and_the_channels_of_the_deployment() {
        let line =
            Permissions { user: Some("weir"), keys: &Keys::new("w.1"), is_cluster: false }.line();
        let expected = "ACL SETUSER weir ~w.1:realtime:* &w.1:realtime:* +ping +info ";
        assert!(line.starts_with(expected) && line.ends_with(" +exec +ssubscribe"), "{line}");
    }
}
