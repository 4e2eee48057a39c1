//! Whether a worker that starts serves already.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{sleep, timeout};
use weir_front::Address;

/// Between two probes.
const PAUSE: Duration = Duration::from_millis(50);
/// For the answer to one.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Resolves when the worker can be connected to and, with a path, answers a request for it with a
/// status below 500.
pub(super) async fn until_ready(address: &Address, path: Option<&str>) {
    while !is_ready(address, path).await {
        sleep(PAUSE).await;
    }
}

async fn is_ready(address: &Address, path: Option<&str>) -> bool {
    let asking = async {
        match address {
            Address::Unix(socket) => answers(UnixStream::connect(socket).await?, path).await,
            Address::Tcp(address) => answers(TcpStream::connect(address).await?, path).await,
        }
    };
    matches!(timeout(ANSWER_TIMEOUT, asking).await, Ok(Ok(true)))
}

async fn answers<S>(mut stream: S, path: Option<&str>) -> io::Result<bool>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Some(path) = path else { return Ok(true) };
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    // `HTTP/1.1 200`
    let mut head = [0; 12];
    stream.read_exact(&mut head).await?;
    Ok(head.starts_with(b"HTTP/1.") && (b'1'..=b'4').contains(&head[9]))
}
