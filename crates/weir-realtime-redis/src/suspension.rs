//! Subscriptions and members while Redis rejects what concerns them, although it takes events.
//!
//! The node then goes on without them, as it does while Redis is away: events need none of it. It tries again at
//! intervals, and stores everything anew under another identity, because a script that was denied a command may have
//! done a part of its work.

use std::time::Duration;

use redis::RedisError;
use tokio::time::Instant;
use weir_redis::{RedisErrorKind, error_kind};

use crate::rejections::is_rejected;

/// Time until the first attempt. It doubles with each that fails, up to the other one.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(4);

/// Whether subscriptions and members are sent, and when the next attempt is due.
#[derive(Debug)]
pub(crate) struct Suspension {
    retry_at: Option<Instant>,
    /// The time from the next failure until an attempt.
    delay: Duration,
    /// Whether the user lacks a permission. Then the permissions are tried first, which changes nothing.
    lacks_permission: bool,
}

impl Default for Suspension {
    fn default() -> Self {
        Self { retry_at: None, delay: RETRY_MIN, lacks_permission: false }
    }
}

impl Suspension {
    /// Returns whether nothing is sent.
    pub(crate) fn is_active(&self) -> bool {
        self.retry_at.is_some()
    }

    pub(crate) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    pub(crate) fn lacks_permission(&self) -> bool {
        self.lacks_permission
    }

    /// Begins, or continues after an attempt.
    pub(crate) fn begin(&mut self, error: &RedisError) {
        self.lacks_permission =
            matches!(RedisErrorKind::of(error, ""), RedisErrorKind::NoPermission { .. });
        self.retry_at = Some(Instant::now() + self.delay);
        self.delay = (2 * self.delay).min(RETRY_MAX);
    }

    /// Waits for permissions that are still missing.
    pub(crate) fn wait_for_permissions(&mut self) {
        self.retry_at = Some(Instant::now() + RETRY_MIN);
    }

    /// Ends for an attempt.
    pub(crate) fn end(&mut self) {
        self.retry_at = None;
    }

    /// Notes that everything is stored.
    pub(crate) fn on_all_stored(&mut self) {
        self.delay = RETRY_MIN;
    }
}

/// Returns whether an error says nothing about the server as a whole: it has executed the command, or refused this
/// one. Events may go on.
pub(crate) fn is_of_command(error: &RedisError) -> bool {
    use RedisErrorKind::{
        AuthRequired, Busy, ClusterRedirect, Loading, MasterDown, NodeAway, ReadOnly,
    };
    let is_of_server = matches!(
        RedisErrorKind::of(error, ""),
        AuthRequired | Busy(_) | ClusterRedirect | Loading | MasterDown | NodeAway | ReadOnly
    );
    error_kind::server_error(error).is_some() && !is_of_server && !is_rejected(error)
}

#[cfg(test)]
mod tests {
    use redis::{ErrorKind, RedisResult, Value};

    use super::*;

    fn reply(text: &str) -> RedisError {
        let reply: RedisResult<Value> = redis::parse_redis_value(format!("-{text}\r\n").as_bytes());
        reply.and_then(Value::extract_error).expect_err("an error")
    }

    #[test]
    fn errors_of_the_server_as_a_whole_are_none_of_a_command() {
        for text in [
            "NOPERM this user has no permissions to run the 'sadd' command",
            "ERR The user executing the script can't run this command or subcommand script: 1",
            "WRONGTYPE Operation against a key holding the wrong kind of value",
        ] {
            assert!(is_of_command(&reply(text)), "{text}");
        }
        for text in [
            "READONLY You can't write against a read only replica.",
            "LOADING Redis is loading the dataset in memory",
            "MOVED 3999 127.0.0.1:6381",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL",
        ] {
            assert!(!is_of_command(&reply(text)), "{text}");
        }
        assert!(!is_of_command(&RedisError::from((ErrorKind::Io, "closed"))));
    }
}
