//! Whether a server can store jobs: its version and its role, as `INFO` reports them.

use thiserror::Error;

/// The first version of Redis with all commands that the store uses.
const OLDEST: (u32, u32) = (6, 2);

/// Why a server can't store jobs. Each text follows the server's name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum ServerStateError {
    #[error("is version {0}, and jobs need Redis 6.2 or later, or Valkey: upgrade it")]
    TooOld(String),
    #[error(
        "is still loading its data from disk; wait until `redis-cli INFO persistence` shows \
         loading:0"
    )]
    Loading,
    #[error(
        "is a replica of {0}, which rejects writes; use the address of its primary, or of its \
         Sentinels (redis+sentinel://HOST/SERVICE)"
    )]
    Replica(String),
    #[error(
        "is a node of a Redis Cluster (cluster_enabled:1), which stores only some of the keys; use \
         a Redis without cluster mode"
    )]
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
pub(super) fn check(info: &str) -> Result<(), ServerStateError> {
    let info = Info(info);
    // Valkey reports a `redis_version` that its clients know, such as 7.2.4.
    if let Some(version) = info.value("redis_version")
        && parse_version(version).is_some_and(|version| version < OLDEST)
    {
        return Err(ServerStateError::TooOld(version.to_owned()));
    }
    if info.value("loading") == Some("1") {
        return Err(ServerStateError::Loading);
    }
    if info.value("cluster_enabled") == Some("1") {
        return Err(ServerStateError::ClusterNode);
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
        check(info).map_or_else(|error| error.to_string(), |()| "usable".to_owned())
    }

    #[test]
    fn the_state_of_a_server_is_named() {
        for (info, expected) in [
            ("redis_version:7.0.15\r\nrole:master\r\ncluster_enabled:0\r\nloading:0", "usable"),
            ("redis_version:6.2.0\r\nrole:master", "usable"),
            ("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1", "usable"),
            ("redis_version:255.255.255\r\nrole:master", "usable"),
            ("redis_version:unstable", "usable"),
            ("redis_version:6.0.16\r\nrole:master", "version 6.0.16"),
            ("redis_version:5.0.7\r\nrole:slave", "version 5.0.7"),
            ("role:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6379", "replica of 10.0.0.1:6379"),
            ("role:master\r\ncluster_enabled:1", "node of a Redis Cluster"),
            ("redis_version:7.0.15\r\nloading:1\r\nrole:slave", "still loading"),
        ] {
            assert!(state(info).contains(expected), "{info:?}: {}", state(info));
        }
    }
}
