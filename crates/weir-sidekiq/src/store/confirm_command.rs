//! The command that waits until the writes of its connection are confirmed, and what it replies.

use std::time::Duration;

use redis::{Cmd, FromRedisValue, RedisError, Value};
use weir_redis::RedisErrorKind;

use super::confirm_settings::ConfirmSettings;
use super::link_connection::LinkConnection;
use crate::keys;

/// How long the command waits when it is only tried.
const TRIAL_TIMEOUT: Duration = Duration::from_millis(1);

/// `WAITAOF` if pushes must be on disk, otherwise `WAIT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConfirmCommand {
    disk: bool,
    replicas: u64,
    timeout: Duration,
}

/// How many have confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Confirmations {
    disk: bool,
    replicas: u64,
}

impl ConfirmCommand {
    pub(super) const fn new(settings: &ConfirmSettings) -> Self {
        let ConfirmSettings { disk, replicas, timeout, .. } = *settings;
        Self { disk, replicas, timeout }
    }

    /// Returns what is written for doctor; `None`: pushes wait for nothing.
    pub(super) fn describe(command: Option<Self>) -> String {
        command.map_or_else(
            || keys::push_confirmation(false, 0),
            |command| keys::push_confirmation(command.disk, command.replicas),
        )
    }

    const fn name(self) -> &'static str {
        if self.disk { "WAITAOF" } else { "WAIT" }
    }

    fn within(self, timeout: Duration) -> Cmd {
        let mut command = redis::cmd(self.name());
        if self.disk {
            command.arg(1);
        }
        command.arg(self.replicas).arg(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        command
    }

    /// Waits. Returns what is missing when the time is over, if anything is.
    pub(super) async fn wait(
        self,
        connection: &mut LinkConnection,
    ) -> Result<Option<String>, RedisError> {
        let reply: Value = self.within(self.timeout).query_async(connection).await?;
        Ok(self.missing(self.confirmations(reply)))
    }

    /// Tries the command on a new connection. Returns why Redis can't confirm anything, if so.
    pub(super) async fn refusal(
        self,
        connection: &mut LinkConnection,
    ) -> Result<Option<ConfirmRefusal>, RedisError> {
        let tried: Result<Value, _> = self.within(TRIAL_TIMEOUT).query_async(connection).await;
        let Err(error) = tried else { return Ok(None) };
        match RedisErrorKind::of(&error, self.name()) {
            RedisErrorKind::UnknownCommand => {
                let version = version(connection).await;
                Ok(Some(ConfirmRefusal { text: too_old(&version), is_lasting: true }))
            }
            RedisErrorKind::Other if error.code() == Some("ERR") => {
                let text = error.detail().unwrap_or_default().to_owned();
                Ok(Some(ConfirmRefusal { text, is_lasting: false }))
            }
            _ => Err(error),
        }
    }

    fn confirmations(self, reply: Value) -> Confirmations {
        if self.disk {
            let (disk, replicas) = <(u64, u64)>::from_redis_value(reply).unwrap_or_default();
            Confirmations { disk: disk > 0, replicas }
        } else {
            let replicas = u64::from_redis_value(reply).unwrap_or_default();
            Confirmations { disk: false, replicas }
        }
    }

    fn missing(self, confirmed: Confirmations) -> Option<String> {
        let lacks_disk = self.disk && !confirmed.disk;
        if !lacks_disk && confirmed.replicas >= self.replicas {
            return None;
        }
        let mut parts = Vec::new();
        if self.disk {
            parts.push(if lacks_disk { "not by its disk" } else { "by its disk" }.to_owned());
        }
        if self.replicas > 0 {
            let (got, wanted) = (confirmed.replicas.min(self.replicas), self.replicas);
            let noun = if wanted == 1 { "replica" } else { "replicas" };
            parts.push(format!("by {got} of {wanted} {noun}"));
        }
        let timeout = self.timeout;
        Some(format!("confirmed {} within {timeout:?} (jobs.redis.confirm)", parts.join(" and ")))
    }
}

/// Why Redis can't confirm pushes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConfirmRefusal {
    pub(super) text: String,
    /// Only another server will be able to.
    pub(super) is_lasting: bool,
}

fn too_old(version: &str) -> String {
    format!(
        "version {version} has no WAITAOF, which came with Redis 7.2: upgrade it, or set \
         jobs.redis.confirm.disk = false"
    )
}

/// Returns the version of the server, for messages.
async fn version(connection: &mut LinkConnection) -> String {
    let info: Result<String, _> = redis::cmd("INFO").arg("server").query_async(connection).await;
    let info = info.unwrap_or_default();
    let field = |name| weir_advisor::observation::redis_field(&info, name);
    match (field("valkey_version"), field("redis_version")) {
        (Some(version), _) => format!("{version} (Valkey)"),
        (None, Some(version)) => version.to_owned(),
        (None, None) => "(unknown)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(disk: bool, replicas: u64) -> ConfirmCommand {
        let timeout = Duration::from_millis(1_500);
        ConfirmCommand { disk, replicas, timeout }
    }

    fn pair(disk: i64, replicas: i64) -> Value {
        Value::Array(vec![Value::Int(disk), Value::Int(replicas)])
    }

    #[test]
    fn fewer_confirmations_than_asked_for_are_named() {
        let missing =
            |command: ConfirmCommand, reply| command.missing(command.confirmations(reply));
        assert_eq!(missing(command(true, 1), pair(1, 2)), None);
        assert_eq!(missing(command(false, 2), Value::Int(2)), None);
        let text = missing(command(true, 1), pair(1, 0)).unwrap();
        let expected =
            "confirmed by its disk and by 0 of 1 replica within 1.5s (jobs.redis.confirm)";
        assert_eq!(text, expected);
        let text = missing(command(true, 0), pair(0, 0)).unwrap();
        assert!(text.starts_with("confirmed not by its disk within"), "{text}");
        let text = missing(command(false, 2), Value::Int(1)).unwrap();
        assert!(text.starts_with("confirmed by 1 of 2 replicas"), "{text}");
        assert!(missing(command(true, 1), Value::Nil).is_some(), "an odd reply confirms nothing");
    }

    #[test]
    fn the_command_says_what_is_waited_for() {
        let packed = |command: ConfirmCommand| {
            String::from_utf8(command.within(command.timeout).get_packed_command()).unwrap()
        };
        let words = |text: &str| text.replace("\r\n", " ");
        let waitaof = words(&packed(command(true, 1)));
        assert_eq!(waitaof, "*4 $7 WAITAOF $1 1 $1 1 $4 1500 ");
        assert_eq!(words(&packed(command(false, 2))), "*3 $4 WAIT $1 2 $4 1500 ");
    }
}
