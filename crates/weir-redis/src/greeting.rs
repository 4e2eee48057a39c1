//! Reads what a Redis sends before any command, which is an error if it rejects the client.
//!
//! Clients that have already sent a command, such as a login, usually miss that error, because the
//! connection is reset before they read it.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::{TcpStream, UnixStream};

use crate::address::RedisAddress;

/// A rejected client gets the error at once; an accepted one gets nothing.
const PATIENCE: Duration = Duration::from_millis(500);
const LONGEST: usize = 200;

/// Returns an error such as "ERR max number of clients reached". Returns `None` if there is none,
/// and for TLS and Sentinel, where it cannot be read.
pub(crate) async fn of(address: &RedisAddress) -> Option<String> {
    tokio::time::timeout(PATIENCE, error(address)).await.ok().flatten()
}

async fn error(address: &RedisAddress) -> Option<String> {
    match address {
        RedisAddress::Tcp { host, port, tls: false } => {
            line(TcpStream::connect((host.as_str(), *port)).await.ok()?).await
        }
        RedisAddress::Unix(path) => line(UnixStream::connect(path).await.ok()?).await,
        RedisAddress::Tcp { .. } | RedisAddress::Sentinel(_) => None,
    }
}

async fn line(mut stream: impl AsyncRead + Unpin) -> Option<String> {
    let mut bytes = [0; LONGEST];
    let count = stream.read(&mut bytes).await.ok()?;
    let text = String::from_utf8_lossy(&bytes[..count]);
    Some(text.lines().next()?.strip_prefix('-')?.to_owned())
}
