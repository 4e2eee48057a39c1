//! Explains why no connection could be made, from the error of the system or TLS and the kind of
//! address.

use redis::RedisError;

use crate::endpoint::RedisAddress;
use crate::unready::UnreadyKind;

/// The reason for a failed connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Away {
    pub(crate) kind: UnreadyKind,
    /// A description that follows the name of the Redis.
    pub(crate) what: &'static str,
    /// What an operator can do.
    pub(crate) remedy: &'static str,
}

/// How a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    /// The connection was refused.
    Refused,
    /// There was no response.
    Silence,
    /// The connection was closed before the first reply.
    Broken,
    /// The host name or the socket does not exist.
    NotThere,
    /// The user lacks the permission.
    Denied,
}

/// How the server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reachability {
    Plain,
    Tls,
    Socket,
    Sentinels,
}

/// Returns the reason, or `None` if no remedy is known for the error.
pub(crate) fn of(address: &RedisAddress, error: &RedisError) -> Option<Away> {
    let said = error.to_string();
    if let Some(refusal) = of_tls(&said) {
        return Some(refusal);
    }
    explained(way(address), sign(error, &said)?)
}

const fn way(address: &RedisAddress) -> Reachability {
    match address {
        RedisAddress::Tcp { tls: false, .. } => Reachability::Plain,
        RedisAddress::Tcp { tls: true, .. } => Reachability::Tls,
        RedisAddress::Unix(_) => Reachability::Socket,
        RedisAddress::Sentinel(_) => Reachability::Sentinels,
    }
}

/// Classifies the error. The client library reports some causes by kind and others only as text.
fn sign(error: &RedisError, said: &str) -> Option<Sign> {
    let said = said.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
    Some(if says(&["no such file", "entity not found", "lookup", "resolve"]) {
        Sign::NotThere
    } else if says(&["permission denied"]) {
        Sign::Denied
    } else if error.is_connection_refusal() {
        Sign::Refused
    } else if error.is_timeout() || says(&["timed out"]) {
        Sign::Silence
    } else if error.is_connection_dropped() || error.is_io_error() || says(&["broken pipe"]) {
        Sign::Broken
    } else {
        return None;
    })
}

/// Recognizes TLS errors by the messages of rustls.
fn of_tls(said: &str) -> Option<Away> {
    const NOT_TRUSTED: &str = "has a certificate that is not trusted here";
    let kind = UnreadyKind::Certificate;
    let (what, remedy) = if said.contains("UnknownIssuer") || said.contains("CaUsedAsEndEntity") {
        (
            NOT_TRUSTED,
            "pass the file of the authority that signed it with --redis-ca (ca in \
             [[observe.redis]])",
        )
    } else if said.contains("NotValidForName") {
        (NOT_TRUSTED, "use the host name of its certificate in the address")
    } else if said.contains("Expired") || said.contains("NotValidYet") {
        (NOT_TRUSTED, "check its dates, and this machine's clock")
    } else if said.contains("CertificateRequired") || said.contains("HandshakeFailure") {
        (
            "requires a client certificate",
            "pass one with --redis-cert and --redis-key (cert and key in [[observe.redis]])",
        )
    } else {
        return None;
    };
    Some(Away { kind, what, remedy })
}

fn explained(way: Reachability, sign: Sign) -> Option<Away> {
    let (what, remedy) = match (way, sign) {
        (Reachability::Sentinels, _) => (
            "cannot be found through its Sentinels",
            "check that they run at these addresses and know the service (redis-cli -h HOST -p \
             26379 SENTINEL masters), and that the server that they name has free connections \
             (maxclients)",
        ),
        (Reachability::Socket, Sign::Denied) => (
            "cannot be opened by this user",
            "check the socket's group and mode (unixsocketperm in redis.conf)",
        ),
        (Reachability::Socket, _) => (
            "does not respond",
            "check that it is running (systemctl status 'redis*'), and the socket's path \
             (unixsocket in redis.conf)",
        ),
        (_, Sign::Refused) => (
            "does not respond: nothing listens there",
            "check that it is running (systemctl status 'redis*'), and the host and port in the \
             address",
        ),
        (_, Sign::NotThere) => ("has no address", "check the host name in the address"),
        (Reachability::Tls, Sign::Silence) => (
            "does not respond with TLS",
            "if its port does not use TLS (tls-port in redis.conf), use redis://; otherwise check \
             host and port, and firewalls",
        ),
        // Before the TLS handshake, Redis cannot report that it has too many clients.
        (Reachability::Tls, Sign::Broken) => (
            "closes the connection",
            "check that its port uses TLS (tls-port in redis.conf; if not, use redis://), whether \
             it requires a certificate (--redis-cert, --redis-key), and that it has free \
             connections (maxclients)",
        ),
        (Reachability::Plain, Sign::Broken) => {
            ("closes the connection", "if its port uses TLS, use rediss://; otherwise see its log")
        }
        (Reachability::Plain, Sign::Silence) => {
            ("does not respond", "check the host and port in the address, and firewalls")
        }
        (_, Sign::Denied) => return None,
    };
    Some(Away { kind: UnreadyKind::Away, what, remedy })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn failed(kind: io::ErrorKind) -> RedisError {
        RedisError::from(io::Error::from(kind))
    }

    #[test]
    fn each_way_that_fails_says_what_to_do() {
        let tcp = |tls| RedisAddress::Tcp { host: "h".to_owned(), port: 1, tls };
        for (address, kind, remedy) in [
            (tcp(false), io::ErrorKind::ConnectionRefused, "check that it is running"),
            (tcp(true), io::ErrorKind::ConnectionRefused, "check that it is running"),
            (tcp(false), io::ErrorKind::BrokenPipe, "use rediss://"),
            (tcp(false), io::ErrorKind::ConnectionReset, "use rediss://"),
            (tcp(false), io::ErrorKind::TimedOut, "firewalls"),
            (tcp(true), io::ErrorKind::TimedOut, "use redis://"),
            (tcp(true), io::ErrorKind::UnexpectedEof, "maxclients"),
            (RedisAddress::Unix("/x".into()), io::ErrorKind::NotFound, "unixsocket in redis.conf"),
            (RedisAddress::Unix("/x".into()), io::ErrorKind::PermissionDenied, "unixsocketperm"),
        ] {
            let away = of(&address, &failed(kind)).expect("it is explained");
            assert!(away.remedy.contains(remedy), "{kind:?}: {}", away.remedy);
            assert_eq!(away.kind, UnreadyKind::Away);
        }
    }

    #[test]
    fn a_certificate_is_another_matter_than_nobody_there() {
        let said = "invalid peer certificate: UnknownIssuer";
        let address = RedisAddress::Tcp { host: "h".to_owned(), port: 1, tls: true };
        let error = RedisError::from(io::Error::new(io::ErrorKind::InvalidData, said));
        let away = of(&address, &error).expect("it is explained");
        assert!(away.remedy.contains("--redis-ca"), "{away:?}");
        assert_eq!(away.kind, UnreadyKind::Certificate);
    }
}
