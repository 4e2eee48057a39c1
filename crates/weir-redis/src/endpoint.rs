//! Address and credentials of a Redis.

use std::fmt;
use std::path::PathBuf;

use weir_base::secret::Secret;

use crate::address::{RedisAddress, Sentinel};
use crate::error::ConnectError;

const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// A Redis server, given directly or through Sentinel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisEndpoint {
    /// The server's address.
    pub address: RedisAddress,
    /// Number of the database. Numbers other than 0 require permission for `SELECT`.
    pub database: i64,
    /// The user name, or `None` for Redis' `default`.
    pub username: Option<String>,
    /// The password, from the environment or a file, never from the URL.
    pub password: Option<Secret>,
    /// Certificates for TLS.
    pub tls: TlsFiles,
}

/// Paths of PEM files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// CA certificates for verifying the server, or `None` for the system's.
    pub authority: Option<PathBuf>,
    /// The client's certificate and key, if the server requires them.
    pub client: Option<(PathBuf, PathBuf)>,
}

impl RedisEndpoint {
    /// Parses `redis://[USER@]HOST[:PORT][/DATABASE]`, `rediss://..` (TLS),
    /// `unix:///PATH[?db=DATABASE]` or
    /// `redis+sentinel://HOST[:PORT][,HOST[:PORT]]/SERVICE[/DATABASE]` (`rediss+sentinel`).
    ///
    /// # Errors
    /// Returns an error if the URL is invalid or contains a password, which would be visible in
    /// process lists.
    pub fn parse(url: &str) -> Result<Self, ConnectError> {
        parse(url).map_err(|problem| ConnectError::Address { address: redacted(url), problem })
    }

    /// Returns the endpoint of a node of the Redis Cluster to which this one leads.
    #[must_use]
    pub fn of_cluster_node(&self, host: &str, port: u16) -> Self {
        let tls = match &self.address {
            RedisAddress::Tcp { tls, .. } => *tls,
            RedisAddress::Sentinel(sentinel) => sentinel.tls,
            RedisAddress::Unix(_) => false,
        };
        let address = RedisAddress::Tcp { host: host.to_owned(), port, tls };
        Self { address, ..self.clone() }
    }

    /// Returns the host of the nodes of that cluster that leave out theirs.
    #[must_use]
    pub fn cluster_host(&self) -> &str {
        match &self.address {
            RedisAddress::Tcp { host, .. } => host,
            RedisAddress::Sentinel(_) | RedisAddress::Unix(_) => "127.0.0.1",
        }
    }
}

fn parse(url: &str) -> Result<RedisEndpoint, &'static str> {
    let (scheme, rest) =
        url.split_once("://").ok_or("it must begin with redis://, rediss:// or unix://")?;
    if scheme == "unix" || scheme == "redis+unix" {
        return unix(rest);
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (username, hosts) = match authority.rsplit_once('@') {
        Some((user, _)) if user.contains(':') => {
            return Err("it contains a password; pass that in the environment or a file");
        }
        Some((user, hosts)) => (Some(decoded(user)?).filter(|user| !user.is_empty()), hosts),
        None => (None, authority),
    };
    let address = |address, database| {
        let (password, tls) = (None, TlsFiles::default());
        RedisEndpoint { address, database, username, password, tls }
    };
    match scheme {
        "redis" | "rediss" => {
            let (host, port) = host_port(hosts, REDIS_PORT)?;
            Ok(address(RedisAddress::Tcp { host, port, tls: scheme == "rediss" }, number(path)?))
        }
        "redis+sentinel" | "rediss+sentinel" => {
            let (service, database) = path.split_once('/').unwrap_or((path, ""));
            let tls = scheme == "rediss+sentinel";
            Ok(address(RedisAddress::Sentinel(sentinel(hosts, service, tls)?), number(database)?))
        }
        _ => Err("it must begin with redis://, rediss://, redis+sentinel:// or unix://"),
    }
}

fn unix(rest: &str) -> Result<RedisEndpoint, &'static str> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !path.starts_with('/') {
        return Err("a socket's path must be absolute: unix:///run/redis/redis.sock");
    }
    let database = match query {
        "" => 0,
        query => number(query.strip_prefix("db=").ok_or(
            "a socket's path may be followed only by \
                                       ?db=NUMBER",
        )?)?,
    };
    let (address, tls) = (RedisAddress::Unix(PathBuf::from(path)), TlsFiles::default());
    Ok(RedisEndpoint { address, database, username: None, password: None, tls })
}

fn sentinel(hosts: &str, service: &str, tls: bool) -> Result<Sentinel, &'static str> {
    if service.is_empty() {
        return Err("the Sentinels' addresses must be followed by the service's name: /mymaster");
    }
    let addresses =
        hosts.split(',').map(|host| host_port(host, SENTINEL_PORT)).collect::<Result<_, _>>()?;
    Ok(Sentinel { addresses, service: service.to_owned(), tls, username: None, password: None })
}

fn host_port(text: &str, default: u16) -> Result<(String, u16), &'static str> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("an IPv6 address must end with ]")?;
            (host, port.strip_prefix(':'))
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err("the host is missing");
    }
    let port = port.map_or(Ok(default), |port| {
        port.parse().map_err(|_| "the port must be a number up to 65535")
    })?;
    Ok((host.to_owned(), port))
}

/// Decodes percent-encoded characters: `a%40b`.
fn decoded(text: &str) -> Result<String, &'static str> {
    const ODD: &str = "a % in the user name must be followed by two hexadecimal digits";
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).ok_or(ODD)?;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let byte = u8::from_str_radix(digits, 16).ok().filter(|_| is_hex);
        bytes.push(byte.ok_or(ODD)?);
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8(bytes).map_err(|_| "the user name is not UTF-8")
}

fn number(text: &str) -> Result<i64, &'static str> {
    match text {
        "" => Ok(0),
        text => text.parse().ok().filter(|it| *it >= 0).ok_or("the database must be a number"),
    }
}

/// Removes everything before the last `@`, which may contain a password.
fn redacted(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://***@{rest}"),
        (None, Some((_, rest))) => format!("***@{rest}"),
        _ => url.to_owned(),
    }
}

/// Formats the address for errors and reports.
impl fmt::Display for RedisEndpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            RedisAddress::Tcp { host, port, .. } => write!(formatter, "{host}:{port}")?,
            RedisAddress::Unix(path) => write!(formatter, "{}", path.display())?,
            RedisAddress::Sentinel(sentinel) => {
                write!(formatter, "{} (Sentinel)", sentinel.service)?
            }
        }
        if self.database == 0 { Ok(()) } else { write!(formatter, "/{}", self.database) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(url: &str) -> String {
        RedisEndpoint::parse(url)
            .map_or_else(|error| error.to_string(), |endpoint| endpoint.to_string())
    }

    #[test]
    fn addresses_are_read() {
        for (url, expected) in [
            ("redis://localhost", "localhost:6379"),
            ("redis://weir@10.0.0.1:7000/3", "10.0.0.1:7000/3"),
            ("rediss://redis.example", "redis.example:6379"),
            ("redis://[::1]:7000", "::1:7000"),
            ("unix:///run/redis.sock", "/run/redis.sock"),
            ("unix:///run/redis.sock?db=2", "/run/redis.sock/2"),
            ("redis+sentinel://a,b:26380/mymaster/1", "mymaster (Sentinel)/1"),
        ] {
            assert_eq!(name(url), expected, "{url}");
        }
        let endpoint = RedisEndpoint::parse("rediss+sentinel://weir@a,b:26380/mymaster").unwrap();
        let RedisAddress::Sentinel(sentinel) = endpoint.address else { panic!("{endpoint:?}") };
        assert_eq!(sentinel.addresses, [("a".to_owned(), 26379), ("b".to_owned(), 26380)]);
        assert!(sentinel.tls);
        assert_eq!(endpoint.username.as_deref(), Some("weir"));
        let endpoint = RedisEndpoint::parse("redis://a%40b%3A%C3%A9@localhost").unwrap();
        assert_eq!(endpoint.username.as_deref(), Some("a@b:é"));
    }

    #[test]
    fn mistakes_say_what_is_wrong() {
        for (url, problem) in [
            ("localhost:6379", "must begin with"),
            ("http://localhost", "must begin with"),
            ("redis://", "host is missing"),
            ("redis://a:port", "port must be a number"),
            ("redis://a/x", "database must be a number"),
            ("redis://a/-1", "database must be a number"),
            ("unix://run/redis.sock", "must be absolute"),
            ("unix:///run/redis.sock?x=1", "followed only by ?db=NUMBER"),
            ("redis+sentinel://a,b", "service's name"),
            ("redis://[::1", "must end with ]"),
            ("redis://a%4@h", "two hexadecimal digits"),
            ("redis://a%+1@h", "two hexadecimal digits"),
            ("redis://a%ff@h", "not UTF-8"),
        ] {
            assert!(name(url).contains(problem), "{url}: {}", name(url));
        }
    }

    #[test]
    fn a_password_is_refused_and_not_repeated() {
        let error = name("redis://:hunter2@localhost/0");
        assert!(error.contains("contains a password"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
        assert!(!name("ftp://u:hunter2@localhost").contains("hunter2"));
    }

    proptest! {
        #[test]
        fn no_text_panics_or_repeats_a_password(text in "\\PC{0,40}", host in "[a-z]{1,8}") {
            let _ = RedisEndpoint::parse(&text);
            let error = name(&format!("redis://user:hunter2{text}@{host}"));
            prop_assert!(!error.contains("hunter2"), "{}", error);
        }
    }
}
