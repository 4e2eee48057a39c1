//! Explains errors that concern a Redis as a whole, with remedies.

use crate::address::RedisAddress;
use crate::error_kind::{Blocker, RedisErrorKind};
use crate::network_error::{NetworkErrorKind, TlsErrorKind};

/// What is wrong with a Redis, and what an operator can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Explanation {
    /// A description that follows the name of the Redis.
    pub(crate) description: String,
    pub(crate) remedy: String,
}

impl Explanation {
    fn of((description, remedy): (&str, &str)) -> Self {
        Self { description: description.to_owned(), remedy: remedy.to_owned() }
    }

    /// Explains a state in which Redis rejects all commands, or all writes. Returns `None` for an
    /// error that concerns one command.
    pub(crate) fn of_state(kind: &RedisErrorKind) -> Option<Self> {
        state(kind).map(Self::of)
    }

    /// Explains why no connection to `address` was made.
    pub(crate) fn of_connecting(address: &RedisAddress, kind: NetworkErrorKind) -> Option<Self> {
        let tls = match kind {
            NetworkErrorKind::Tls(kind) => certificate(kind),
            _ => None,
        };
        tls.or_else(|| network(address, kind)).map(Self::of)
    }
}

impl Explanation {
    /// Explains why Sentinels have named no server.
    pub(crate) fn of_sentinels(kind: &RedisErrorKind) -> Self {
        let remedy = match kind {
            RedisErrorKind::AuthRequired | RedisErrorKind::WrongPassword => {
                "check the user and password of the Sentinels (sentinel_user and \
                 sentinel_password beside the url; --sentinel-user, --sentinel-password-file)"
            }
            RedisErrorKind::NoPermission { .. } => {
                "allow this user of the Sentinels +sentinel|master"
            }
            RedisErrorKind::Network(NetworkErrorKind::Tls(kind)) => {
                certificate(*kind).map_or(SENTINELS.1, |(_, remedy)| remedy)
            }
            _ => SENTINELS.1,
        };
        Self::of((SENTINELS.0, remedy))
    }

    /// Explains why the server that Sentinels name is not used.
    pub(crate) fn of_failover() -> Self {
        Self::of((
            "is a replica, although its Sentinels name it: a failover is in progress",
            "wait until it is over; `redis-cli -p 26379 SENTINEL MASTERS` shows its state",
        ))
    }
}

const SENTINELS: (&str, &str) = (
    "cannot be found through its Sentinels",
    "check that they run at these addresses and know the service (redis-cli -h HOST -p 26379 \
     SENTINEL masters)",
);

const fn state(kind: &RedisErrorKind) -> Option<(&'static str, &'static str)> {
    Some(match kind {
        RedisErrorKind::Loading => (
            "is still loading its data from disk",
            "wait until `redis-cli INFO persistence` shows loading:0",
        ),
        RedisErrorKind::AuthRequired => (
            "requires a password",
            "pass it with --redis-password-env or --redis-password-file (in weir.toml, beside the \
             url: password = { env = \"NAME\" } or { file = \"PATH\" })",
        ),
        RedisErrorKind::WrongPassword => (
            "rejects that user or that password",
            "check the user in the address and the password in the environment or file; if Redis \
             has no password (requirepass), pass none",
        ),
        RedisErrorKind::ClientsExhausted => (
            "accepts no more connections (maxclients), from any program",
            "stop a client that is not needed, then: redis-cli CONFIG SET maxclients 20000",
        ),
        RedisErrorKind::Busy(Blocker::Script) => (
            "is blocked by a script, for all programs",
            "redis-cli SCRIPT KILL, which ends it unless it has already written",
        ),
        RedisErrorKind::Busy(Blocker::Function) => (
            "is blocked by a function, for all programs",
            "redis-cli FUNCTION KILL, which ends it unless it has already written",
        ),
        RedisErrorKind::MasterDown => (
            "is a replica that has lost its master",
            "use the address of the master, or check why the replica cannot reach it",
        ),
        RedisErrorKind::ReadOnly => (
            "is a replica, which rejects writes",
            "use its master: `redis-cli INFO replication` shows master_host",
        ),
        RedisErrorKind::Misconf => (
            "rejects writes because it cannot save its snapshot",
            "check its log and the free space on its disk",
        ),
        RedisErrorKind::OutOfMemory => (
            "rejects writes because its memory is full",
            "raise maxmemory: redis-cli CONFIG SET maxmemory BYTES",
        ),
        RedisErrorKind::NoReplicas => (
            "rejects writes because too few replicas are connected (min-replicas-to-write)",
            "start the replica",
        ),
        RedisErrorKind::Network(_)
        | RedisErrorKind::UnknownCommand
        | RedisErrorKind::NoPermission { .. }
        | RedisErrorKind::ClusterRedirect
        | RedisErrorKind::SlotUnavailable
        | RedisErrorKind::NodeAway
        | RedisErrorKind::CrossSlot
        | RedisErrorKind::WrongType
        | RedisErrorKind::Other => return None,
    })
}

const fn certificate(kind: TlsErrorKind) -> Option<(&'static str, &'static str)> {
    const NOT_TRUSTED: &str = "has a certificate that is not trusted here";
    Some(match kind {
        TlsErrorKind::UnknownIssuer => (
            NOT_TRUSTED,
            "pass the file of the authority that signed it with --redis-ca (ca beside the url in \
             weir.toml)",
        ),
        TlsErrorKind::WrongName => {
            (NOT_TRUSTED, "use the host name of its certificate in the address")
        }
        TlsErrorKind::NotValidNow => (NOT_TRUSTED, "check its dates, and this machine's clock"),
        TlsErrorKind::ClientCertificate => (
            "requires a client certificate",
            "pass one with --redis-cert and --redis-key (cert and key beside the url in weir.toml)",
        ),
        TlsErrorKind::Other => return None,
    })
}

const fn network(
    address: &RedisAddress,
    kind: NetworkErrorKind,
) -> Option<(&'static str, &'static str)> {
    use NetworkErrorKind::{Closed, Denied, HostNotFound, NotFound, Refused, TimedOut, Tls};
    Some(match (address, kind) {
        (RedisAddress::Sentinel(_), _) => SENTINELS,
        (RedisAddress::Unix(_), Denied) => (
            "cannot be opened by this user",
            "check the socket's group and mode (unixsocketperm in redis.conf)",
        ),
        (RedisAddress::Unix(_), _) => (
            "does not respond",
            "check that it is running (systemctl status 'redis*'), and the socket's path \
             (unixsocket in redis.conf)",
        ),
        (_, Refused) => (
            "does not respond: nothing listens there",
            "check that it is running (systemctl status 'redis*'), and the host and port in the \
             address",
        ),
        (_, HostNotFound) => ("has no address", "check the host name in the address"),
        (RedisAddress::Tcp { tls: true, .. }, TimedOut) => (
            "does not respond with TLS",
            "if its port does not use TLS (tls-port in redis.conf), use redis://; otherwise check \
             host and port, and firewalls",
        ),
        // Before the TLS handshake, Redis cannot report that it has too many clients.
        (RedisAddress::Tcp { tls: true, .. }, Closed | Tls(_)) => (
            "closes the connection",
            "check that its port uses TLS (tls-port in redis.conf; if not, use redis://), whether \
             it requires a certificate (--redis-cert, --redis-key), and that it has free \
             connections (maxclients)",
        ),
        (_, Closed) => {
            ("closes the connection", "if its port uses TLS, use rediss://; otherwise see its log")
        }
        (_, TimedOut) => {
            ("does not respond", "check the host and port in the address, and firewalls")
        }
        (_, NotFound | Denied | Tls(_)) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_the_network_has_a_remedy() {
        use NetworkErrorKind::{Closed, Denied, NotFound, Refused, TimedOut, Tls};
        let tcp = |tls| RedisAddress::Tcp { host: "h".to_owned(), port: 1, tls };
        for (address, kind, remedy) in [
            (tcp(false), Refused, "check that it is running"),
            (tcp(true), Refused, "check that it is running"),
            (tcp(false), Closed, "use rediss://"),
            (tcp(false), TimedOut, "firewalls"),
            (tcp(true), TimedOut, "use redis://"),
            (tcp(true), Closed, "maxclients"),
            (tcp(true), Tls(TlsErrorKind::Other), "maxclients"),
            (tcp(true), Tls(TlsErrorKind::UnknownIssuer), "--redis-ca"),
            (RedisAddress::Unix("/x".into()), NotFound, "unixsocket in redis.conf"),
            (RedisAddress::Unix("/x".into()), Denied, "unixsocketperm"),
        ] {
            let explanation = Explanation::of_connecting(&address, kind).expect("an explanation");
            assert!(explanation.remedy.contains(remedy), "{kind:?}: {}", explanation.remedy);
        }
    }
}
