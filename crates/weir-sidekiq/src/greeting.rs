//! What a Redis says before it was asked anything: it does so only to refuse who has come.
//!
//! Whoever has sent something by then, a password at least, mostly loses it: the connection is reset
//! before what was said is read.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::{TcpStream, UnixStream};

use crate::endpoint::RedisAddress;

/// A refusal comes at once; who is let in is told nothing.
const PATIENCE: Duration = Duration::from_millis(500);
const LONGEST: usize = 200;

/// "ERR max number of clients reached". None: nothing is said, or nothing can be: before TLS, and where
/// Sentinels say who it is.
pub(crate) async fn of(address: &RedisAddress) -> Option<String> {
    tokio::time::timeout(PATIENCE, said(address)).await.ok().flatten()
}

async fn said(address: &RedisAddress) -> Option<String> {
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
