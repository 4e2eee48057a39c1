//! Opens connections with the client library.
//!
//! Certificates, keys and passwords in files are read for each connection, so that they can be
//! replaced while Weir runs.

use std::fs;
use std::path::Path;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo,
    ProtocolVersion, RedisConnectionInfo, RedisError, TlsCertificates,
};
use weir_base::secret::Secret;

use crate::endpoint::TlsFiles;
use crate::error::ConnectError;

/// A user and a password.
#[derive(Clone, Debug, Default)]
pub(crate) struct Login {
    username: Option<String>,
    password: Option<Secret>,
}

impl Login {
    /// Reads the password again if it is in a file.
    ///
    /// # Errors
    /// Returns an error that names the file if it can't be read.
    pub(crate) fn of(username: Option<&str>, password: Option<&Secret>) -> Result<Self, String> {
        let current = |secret: &Secret| match secret.file() {
            Some(file) => weir_settings::secrets::of_file(file),
            None => Ok(secret.clone()),
        };
        let password = password.map(current).transpose()?;
        Ok(Self { username: username.map(str::to_owned), password })
    }
}

/// Opens a connection to database 0 and logs in.
pub(crate) async fn connect(
    address: ConnectionAddr,
    login: Login,
    certificates: Option<TlsCertificates>,
    protocol: ProtocolVersion,
    config: &AsyncConnectionConfig,
) -> Result<MultiplexedConnection, RedisError> {
    let client = build(address, login, certificates, protocol)?;
    client.get_multiplexed_async_connection_with_config(config).await
}

/// Returns a client, which has not connected yet.
pub(crate) fn build(
    address: ConnectionAddr,
    login: Login,
    certificates: Option<TlsCertificates>,
    protocol: ProtocolVersion,
) -> Result<Client, RedisError> {
    // `CLIENT SETINFO` is not in the documented ACL.
    let mut settings =
        RedisConnectionInfo::default().set_skip_set_lib_name().set_protocol(protocol);
    if let Some(username) = login.username {
        settings = settings.set_username(username);
    }
    if let Some(password) = &login.password {
        settings = settings.set_password(password.expose());
    }
    // Commands that follow each other would wait for a round trip: the library leaves Nagle's algorithm on.
    let tcp = TcpSettings::default().set_nodelay(true);
    let info = address.into_connection_info()?.set_redis_settings(settings).set_tcp_settings(tcp);
    match certificates {
        Some(certificates) => Client::build_with_tls(info, certificates),
        None => Client::open(info),
    }
}

pub(crate) fn tcp(host: &str, port: u16, tls: bool) -> ConnectionAddr {
    if tls {
        let host = host.to_owned();
        ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
    } else {
        ConnectionAddr::Tcp(host.to_owned(), port)
    }
}

/// Reads certificates and key.
pub(crate) fn certificates(files: &TlsFiles) -> Result<Option<TlsCertificates>, ConnectError> {
    if *files == TlsFiles::default() {
        return Ok(None);
    }
    let root_cert = files.authority.as_deref().map(read).transpose()?;
    let client_tls = match &files.client {
        None => None,
        Some((certificate, key)) => {
            Some(ClientTlsConfig { client_cert: read(certificate)?, client_key: read(key)? })
        }
    };
    Ok(Some(TlsCertificates { client_tls, root_cert }))
}

fn read(path: &Path) -> Result<Vec<u8>, ConnectError> {
    let failed = |source| ConnectError::Certificate { path: path.display().to_string(), source };
    fs::read(path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_commands_are_sent_at_once() {
        let address = tcp("127.0.0.1", 6379, false);
        let client = build(address, Login::default(), None, ProtocolVersion::RESP2).unwrap();
        assert!(client.get_connection_info().tcp_settings().nodelay());
    }
}
