//! Whether a server can be used: its version, its mode and its role, as `INFO` reports them.

use std::collections::HashMap;

use redis::Value;
use redis::aio::MultiplexedConnection;
use thiserror::Error;

/// The first version of Redis with all commands that a part of Weir uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldestVersion {
    /// Major and minor version.
    pub version: (u32, u32),
    /// The part, and its verb, for messages: `jobs need`.
    pub part_needs: &'static str,
}

/// Why a server can't be used. Each text follows the server's name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ServerStateError {
    /// Its version lacks commands.
    #[error("is version {found}, and {} Redis {}.{} or later, or Valkey: upgrade it", oldest.part_needs, oldest.version.0, oldest.version.1)]
    TooOld {
        /// Its version.
        found: String,
        /// What is needed.
        oldest: OldestVersion,
    },
    /// It is starting.
    #[error(
        "is still loading its data from disk; wait until `redis-cli INFO persistence` shows \
         loading:0"
    )]
    Loading,
    /// It is a replica.
    #[error(
        "is a replica of {0}, which rejects writes; use the address of its primary, or of its \
         Sentinels (redis+sentinel://HOST/SERVICE)"
    )]
    Replica(String),
}

/// How a server stores keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerMode {
    /// All of them.
    Alone,
    /// Those of some slots.
    ClusterNode,
}

/// The values of `INFO`.
struct Info<'a>(&'a str);

impl Info<'_> {
    fn value(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
    }
}

/// Checks the reply to `INFO`. Fields that a server leaves out are not checked.
///
/// # Errors
/// Returns why the server can't be used.
pub fn check(info: &str, oldest: OldestVersion) -> Result<ServerMode, ServerStateError> {
    let mode = mode(info);
    check_version(&Info(info), oldest)?;
    check_role(&Info(info)).map(|()| mode)
}

/// Returns whether the server is a node of a Redis Cluster.
#[must_use]
pub fn mode(info: &str) -> ServerMode {
    match Info(info).value("cluster_enabled") {
        Some("1") => ServerMode::ClusterNode,
        _ => ServerMode::Alone,
    }
}

/// Returns how a server that denies `INFO` stores keys. `HELLO` needs no permission.
pub async fn mode_without_info(connection: &mut MultiplexedConnection) -> ServerMode {
    let hello: Result<HashMap<String, Value>, _> =
        redis::cmd("HELLO").query_async(connection).await;
    let is_cluster = |mode: &Value| matches!(mode, Value::BulkString(mode) if mode == b"cluster");
    match hello.is_ok_and(|hello| hello.get("mode").is_some_and(is_cluster)) {
        true => ServerMode::ClusterNode,
        false => ServerMode::Alone,
    }
}

/// Returns what identifies the process of the server. A restarted server, and another one, has
/// another id.
#[must_use]
pub fn run_id(info: &str) -> Option<&str> {
    info.lines().find_map(|line| line.strip_prefix("run_id:"))
}

fn check_version(info: &Info<'_>, oldest: OldestVersion) -> Result<(), ServerStateError> {
    // Valkey reports a `redis_version` that its clients know, such as 7.2.4.
    if let Some(version) = info.value("redis_version")
        && parse_version(version).is_some_and(|version| version < oldest.version)
    {
        return Err(ServerStateError::TooOld { found: version.to_owned(), oldest });
    }
    Ok(())
}

fn check_role(info: &Info<'_>) -> Result<(), ServerStateError> {
    if info.value("loading") == Some("1") {
        return Err(ServerStateError::Loading);
    }
    if info.value("role") == Some("slave") {
        let part = |name| info.value(name).unwrap_or("?");
        let primary = format!("{}:{}", part("master_host"), part("master_port"));
        return Err(ServerStateError::Replica(primary));
    }
    Ok(())
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(info: &str) -> String {
        let oldest = OldestVersion { version: (6, 2), part_needs: "jobs need" };
        check(info, oldest)
            .map_or_else(|error| error.to_string(), |mode| format!("usable {mode:?}"))
    }

    #[test]
    fn the_id_of_a_process_is_read() {
        assert_eq!(run_id("redis_version:7.0.15\r\nrun_id:ab12\r\n"), Some("ab12"));
        assert_eq!(run_id("role:master"), None);
    }

    #[test]
    fn the_state_of_a_server_is_named() {
        for (info, expected) in [
            (
                "redis_version:7.0.15\r\nrole:master\r\ncluster_enabled:0\r\nloading:0",
                "usable Alone",
            ),
            ("redis_version:6.2.0\r\nrole:master", "usable"),
            ("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1", "usable"),
            ("redis_version:255.255.255\r\nrole:master", "usable"),
            ("redis_version:unstable", "usable"),
            (
                "redis_version:6.0.16\r\nrole:master",
                "version 6.0.16, and jobs need Redis 6.2 or later",
            ),
            ("redis_version:5.0.7\r\nrole:slave", "version 5.0.7"),
            ("role:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6379", "replica of 10.0.0.1:6379"),
            ("role:master\r\ncluster_enabled:1", "usable ClusterNode"),
            ("redis_version:7.0.15\r\nloading:1\r\nrole:slave", "still loading"),
        ] {
            assert!(state(info).contains(expected), "{info:?}: {}", state(info));
        }
    }
}
