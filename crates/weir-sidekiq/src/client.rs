//! Opens connections with the client library.

use std::fs;
use std::path::Path;

use redis::aio::MultiplexedConnection;
use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo,
    RedisConnectionInfo, RedisError, TlsCertificates, TlsMode,
};

use crate::address::{RedisAddress, Sentinel};
use crate::endpoint::{RedisEndpoint, TlsFiles};
use crate::error::SidekiqError;
use crate::limits::SampleLimits;

/// Opens a connection to database 0 and logs in. Returns the address that was reached, too.
pub(crate) async fn connect(
    endpoint: &RedisEndpoint,
    certificates: Option<TlsCertificates>,
    limits: &SampleLimits,
) -> Result<(MultiplexedConnection, String), RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(limits.connect_timeout))
        .set_response_timeout(Some(limits.answer_timeout));
    let client = client(endpoint, certificates).await?;
    let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    Ok((connection, client.get_connection_info().addr().to_string()))
}

async fn client(
    endpoint: &RedisEndpoint,
    certificates: Option<TlsCertificates>,
) -> Result<Client, RedisError> {
    let address = match &endpoint.address {
        RedisAddress::Tcp { host, port, tls } => tcp(host, *port, *tls),
        RedisAddress::Unix(path) => ConnectionAddr::Unix(path.clone()),
        RedisAddress::Sentinel(sentinel) => {
            return by_sentinel(endpoint, sentinel, certificates).await;
        }
    };
    let info = address.into_connection_info()?.set_redis_settings(login(endpoint));
    match certificates {
        Some(certificates) => Client::build_with_tls(info, certificates),
        None => Client::open(info),
    }
}

fn tcp(host: &str, port: u16, tls: bool) -> ConnectionAddr {
    if tls {
        let host = host.to_owned();
        ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
    } else {
        ConnectionAddr::Tcp(host.to_owned(), port)
    }
}

/// Disables `CLIENT SETINFO`, which the documented ACL does not allow.
fn login(endpoint: &RedisEndpoint) -> RedisConnectionInfo {
    let mut login = RedisConnectionInfo::default().set_skip_set_lib_name();
    if let Some(username) = &endpoint.username {
        login = login.set_username(username);
    }
    if let Some(password) = &endpoint.password {
        login = login.set_password(password.expose());
    }
    login
}

async fn by_sentinel(
    endpoint: &RedisEndpoint,
    sentinel: &Sentinel,
    certificates: Option<TlsCertificates>,
) -> Result<Client, RedisError> {
    let addresses = sentinel.addresses.iter().map(|(host, port)| tcp(host, *port, sentinel.tls));
    let mut builder =
        SentinelClientBuilder::new(addresses, &sentinel.service, SentinelServerType::Master)?;
    if let Some(username) = &endpoint.username {
        builder = builder.set_client_to_redis_username(username);
    }
    if let Some(password) = &endpoint.password {
        builder = builder.set_client_to_redis_password(password.expose());
    }
    if let Some(username) = &sentinel.username {
        builder = builder.set_client_to_sentinel_username(username);
    }
    if let Some(password) = &sentinel.password {
        builder = builder.set_client_to_sentinel_password(password.expose());
    }
    if sentinel.tls {
        builder = builder
            .set_client_to_redis_tls_mode(TlsMode::Secure)
            .set_client_to_sentinel_tls_mode(TlsMode::Secure);
        if let Some(certificates) = certificates {
            builder = builder
                .set_client_to_redis_certificates(certificates.clone())
                .set_client_to_sentinel_certificates(certificates);
        }
    }
    let found = builder.build()?.async_get_client().await?;
    let info = found.get_connection_info().clone();
    let login = info.redis_settings().clone().set_skip_set_lib_name();
    Client::open(info.set_redis_settings(login))
}

/// Reads certificates and key.
pub(crate) fn certificates(files: &TlsFiles) -> Result<Option<TlsCertificates>, SidekiqError> {
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

fn read(path: &Path) -> Result<Vec<u8>, SidekiqError> {
    let failed = |source| SidekiqError::Certificate { path: path.display().to_string(), source };
    fs::read(path).map_err(failed)
}
