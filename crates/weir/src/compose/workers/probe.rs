//! Probes whether a starting worker serves, and sends its warm-up requests.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, sleep, timeout};
use weir_front::UpstreamAddress;

use crate::sockets::{BEGUN, SocketApp, SocketApps, SocketWorker};

/// Pause between two probes.
const PAUSE: Duration = Duration::from_millis(50);
/// Timeout of the response to a probe.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The probe of a starting worker.
pub(super) struct Probe {
    /// The name in the log, such as `shop-3`.
    pub(super) name: String,
    pub(super) target: ProbeTarget,
    /// Requested before the worker counts as ready; None: it is ready when it accepts connections.
    pub(super) ready_path: Option<String>,
    /// Paths that are requested after that.
    pub(super) warm_up: Vec<String>,
    pub(super) host: String,
    /// A worker that is not ready within this time is killed.
    pub(super) start_deadline: Duration,
}

/// How the worker is reached.
pub(super) enum ProbeTarget {
    Proxied(UpstreamAddress),
    /// By sockets that it shares with others.
    Shared(Arc<SocketApps>, String, SocketWorker),
}

/// A connection of any kind.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

impl Probe {
    /// Resolves to true when the worker accepts connections on each of its sockets, has answered
    /// `ready_path` with a status below 500, and was warmed up. False: it was not ready in time.
    pub(super) async fn is_ready_in_time(&self) -> bool {
        let began = Instant::now();
        if timeout(self.start_deadline, self.wait_until_ready()).await.is_err() {
            return false;
        }
        // A tenth is left for the report to the parent.
        let left = (self.start_deadline * 9 / 10).saturating_sub(began.elapsed());
        if timeout(left, self.warm_up()).await.is_err() {
            tracing::warn!(worker = self.name, "the warm-up takes too long and was aborted");
        }
        true
    }

    async fn wait_until_ready(&self) {
        if let ProbeTarget::Shared(apps, app, socket_worker) = &self.target {
            let Some(app) = apps.get(app) else { return };
            self.wait_until_listening(app, *socket_worker).await;
        }
        while !self.is_ready().await {
            sleep(PAUSE).await;
        }
    }

    /// Resolves when the worker accepts connections on its whole slice: on a socket without a
    /// listener they would wait forever.
    async fn wait_until_listening(&self, app: &SocketApp, socket_worker: SocketWorker) {
        for queue in app.sockets(socket_worker.slot) {
            if timeout(self.start_deadline / 2, app.connect(queue, socket_worker)).await.is_err() {
                let worker = &self.name;
                tracing::warn!(
                    worker,
                    queue,
                    "does not accept connections from this queue of its slice"
                );
                app.connect(queue, socket_worker).await;
            }
        }
    }

    async fn is_ready(&self) -> bool {
        let request = async {
            let stream = self.connect().await?;
            match &self.ready_path {
                Some(path) => self.get_status(stream, path, "localhost").await.map(|it| it < 500),
                None => Ok(true),
            }
        };
        matches!(timeout(RESPONSE_TIMEOUT, request).await, Ok(Ok(true)))
    }

    async fn warm_up(&self) {
        for path in &self.warm_up {
            let request = async { self.get_status(self.connect().await?, path, &self.host).await };
            match request.await {
                Ok(status) if status < 400 => {
                    tracing::debug!(worker = self.name, path, status, "warmed up")
                }
                Ok(status) => tracing::warn!(worker = self.name, path, status, "warm-up"),
                Err(error) => tracing::warn!(worker = self.name, path, %error, "warm-up"),
            }
        }
    }

    async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match &self.target {
            ProbeTarget::Proxied(UpstreamAddress::Unix(socket)) => {
                Box::new(UnixStream::connect(socket).await?)
            }
            ProbeTarget::Proxied(UpstreamAddress::Tcp(address)) => {
                Box::new(TcpStream::connect(address).await?)
            }
            ProbeTarget::Shared(apps, app, socket_worker) => {
                let app = apps.get(app).ok_or(io::ErrorKind::NotFound)?;
                let sockets = app.sockets(socket_worker.slot);
                let first = sockets.first().copied().unwrap_or_default();
                Box::new(app.connect(first, *socket_worker).await)
            }
        })
    }

    /// Requests `path`, reads the response to its end, and returns its status.
    async fn get_status(
        &self,
        mut stream: Box<dyn Stream>,
        path: &str,
        host: &str,
    ) -> io::Result<u16> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let rest = match self.target {
            ProbeTarget::Proxied(_) => request.as_str(),
            ProbeTarget::Shared(..) => request.strip_prefix(BEGUN).unwrap_or(&request),
        };
        stream.write_all(rest.as_bytes()).await?;
        // Such as `HTTP/1.1 200`.
        let mut head = [0; 12];
        stream.read_exact(&mut head).await?;
        let status = std::str::from_utf8(&head[9..]).ok().and_then(|text| text.parse().ok());
        let status = status.filter(|_| head.starts_with(b"HTTP/1."));
        let status = status.ok_or_else(|| io::Error::other("the response is not HTTP/1.x"))?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
        Ok(status)
    }
}
