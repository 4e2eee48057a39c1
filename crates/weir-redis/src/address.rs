//! How a Redis is reached.

use std::path::PathBuf;

use weir_base::secret::Secret;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisAddress {
    /// Over TCP.
    Tcp {
        /// Host name or IP address.
        host: String,
        /// Port, by default 6379.
        port: u16,
        /// Whether TLS is used (`rediss://`).
        tls: bool,
    },
    /// A Unix socket.
    Unix(PathBuf),
    /// The master named by Sentinel.
    Sentinel(Sentinel),
}

/// Several Sentinels and the service that they monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentinel {
    /// Addresses, which are tried in order.
    pub addresses: Vec<(String, u16)>,
    /// Name of the service, such as `mymaster`.
    pub service: String,
    /// Whether TLS is used, for Sentinels and server alike.
    pub tls: bool,
    /// User name for the Sentinels.
    pub username: Option<String>,
    /// Password for the Sentinels.
    pub password: Option<Secret>,
}
