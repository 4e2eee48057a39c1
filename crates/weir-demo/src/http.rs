//! HTTP clients of the front, of realtime's API and of the admin API.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use hyper::Uri;
use weir_net::http_client::{ClientSettings, HttpClient, Reach, Server};

/// Limit of a response.
pub(crate) const BODY_BYTES_MAX: usize = 4 << 20;

/// Returns a client of a server on this machine.
pub(crate) fn client(address: SocketAddr, connections_kept_max: usize) -> HttpClient {
    let url = format!("http://{address}").parse().expect("an address makes a URL");
    let settings = ClientSettings { connections_kept_max, ..ClientSettings::default() };
    HttpClient::new(Server::Web { url, nearest: Reach::Special }, Arc::new(settings))
}

/// Returns a client of the admin API.
pub(crate) fn admin_client(socket: &Path) -> HttpClient {
    HttpClient::new(Server::Unix(socket.to_owned()), Arc::new(ClientSettings::default()))
}

/// Parses a path with its query, which this crate has composed.
pub(crate) fn target(path: &str) -> Uri {
    path.parse().expect("the path is valid")
}
