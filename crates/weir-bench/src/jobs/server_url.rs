//! `tcp://[:password@]host:port`, as Faktory's clients take it. The password never appears in output.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail};

const DEFAULT_PORT: u16 = 7419;

#[derive(Debug, Clone)]
pub(crate) struct ServerUrl {
    pub(crate) address: SocketAddr,
    pub(crate) password: Option<Password>,
}

/// A password that is redacted in output.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Password(pub(crate) String);

impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "tcp://{}", self.address)
    }
}

impl FromStr for ServerUrl {
    type Err = anyhow::Error;

    fn from_str(url: &str) -> Result<Self> {
        let Some(rest) = url.strip_prefix("tcp://") else {
            bail!("a server is given as tcp://[:password@]host:port (TLS is not supported)");
        };
        let (user_info, host) = match rest.rsplit_once('@') {
            Some((user_info, host)) => (Some(user_info), host),
            None => (None, rest),
        };
        let password = user_info.map(parse_password).transpose()?.flatten();
        Ok(Self { address: resolve(host.trim_end_matches('/'))?, password })
    }
}

fn parse_password(user_info: &str) -> Result<Option<Password>> {
    let Some((_user, password)) = user_info.split_once(':') else {
        return Ok(None);
    };
    let decoded =
        percent_decoded(password).context("the password is not valid percent-encoding")?;
    Ok(Some(decoded).filter(|password| !password.is_empty()).map(Password))
}

fn percent_decoded(text: &str) -> Result<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let digits = [rest.next(), rest.next()].map(|digit| digit.map(char::from));
        let [Some(high), Some(low)] = digits.map(|digit| digit.and_then(|d| d.to_digit(16))) else {
            bail!("% must be followed by two hexadecimal digits");
        };
        decoded.push(u8::try_from(high * 16 + low)?);
    }
    Ok(String::from_utf8(decoded)?)
}

fn resolve(host: &str) -> Result<SocketAddr> {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let with_port = if has_port { host.to_owned() } else { format!("{host}:{DEFAULT_PORT}") };
    let mut addresses = with_port.to_socket_addrs().with_context(|| format!("resolving {host}"))?;
    addresses.next().ok_or_else(|| anyhow!("{host} has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, address: &str, password: Option<&str>) {
        let parsed: ServerUrl = url.parse().expect(url);
        assert_eq!(parsed.address.to_string(), address);
        assert_eq!(parsed.password.map(|password| password.0).as_deref(), password);
    }

    #[test]
    fn urls_are_parsed_as_by_faktory_clients() {
        check("tcp://127.0.0.1:17419", "127.0.0.1:17419", None);
        check("tcp://127.0.0.1", "127.0.0.1:7419", None);
        check("tcp://:s%40cret@127.0.0.1:1/", "127.0.0.1:1", Some("s@cret"));
        check("tcp://user:pw@[::1]:2", "[::1]:2", Some("pw"));
    }

    #[test]
    fn other_schemes_and_invalid_escapes_are_rejected() {
        for url in ["tcp+tls://127.0.0.1:1", "127.0.0.1:1", "tcp://:%4@127.0.0.1:1"] {
            assert!(url.parse::<ServerUrl>().is_err(), "{url}");
        }
    }

    #[test]
    fn password_is_redacted() {
        let url: ServerUrl = "tcp://:hunter2@127.0.0.1:1".parse().expect("valid");
        assert!(!format!("{url} {url:?}").contains("hunter2"));
    }
}
