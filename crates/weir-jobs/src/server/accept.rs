//! Accepts connections: each is served, rejected after HELLO, or rejected immediately.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use weir_base::shutdown::ShutdownToken;

use super::JobService;
use crate::faktory::{self, Admission, Signal};
use crate::metrics::JobServerLimit;
use crate::store::Store;

/// Delay before accepting again after a system error, to avoid a busy loop.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// A file that is held open and closed when no file descriptors are left.
const SPARE: &str = "/dev/null";

/// Accepts the connections of one listener.
#[derive(Debug)]
pub(super) struct Acceptor<S> {
    service: Rc<JobService<S>>,
    tls: Option<Arc<weir_net::Tls>>,
    shutdown: ShutdownToken,
    spare: Option<File>,
}

impl<S: Store> Acceptor<S> {
    pub(super) fn new(
        service: &Rc<JobService<S>>,
        tls: Option<Arc<weir_net::Tls>>,
        shutdown: &ShutdownToken,
    ) -> Self {
        let (service, shutdown) = (Rc::clone(service), shutdown.clone());
        Self { service, tls, shutdown, spare: File::open(SPARE).ok() }
    }

    /// Accepts connections until the server shuts down.
    pub(super) async fn run(mut self, listener: TcpListener) {
        let shutdown = self.shutdown.clone();
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.requested() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, address)) => self.admit(stream, address.ip()).await,
                Err(error) if is_descriptor_limit(&error) => {
                    self.use_spare(&listener, &error).await;
                }
                // The client has already disconnected.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections; trying again");
                    sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
    }

    async fn admit(&self, stream: TcpStream, address: IpAddr) {
        let limits = &self.service.settings().limits;
        let open = self.service.connections.len();
        let admission = if open < limits.connections_max {
            Admission::Serve
        } else if open < limits.connections_max + limits.refusals_max {
            Admission::Reject
        } else {
            self.service.metrics.limit_hit(JobServerLimit::RefusalsMax);
            return faktory::reject_immediately(
                stream,
                "too many connections",
                limits.linger_timeout,
            )
            .await;
        };
        // Replies are already batched; without this option they would wait for the client's TCP
        // ACK.
        let _ = stream.set_nodelay(true);
        let (id, signal) = self.service.connections.open();
        let service = Rc::clone(&self.service);
        match &self.tls {
            None => {
                self.shutdown.spawn_local(async move {
                    let open = ConnectionGuard { service, id };
                    let service = Rc::clone(&open.service);
                    faktory::serve(service, stream, address, signal, admission).await;
                });
            }
            Some(tls) => {
                let acceptor = tls.acceptor();
                let open = ConnectionGuard { service, id };
                let task = serve_tls(open, acceptor, stream, address, signal, admission);
                self.shutdown.spawn_local(task);
            }
        }
    }

    /// Frees the spare descriptor, so that one connection can be accepted and rejected with an
    /// error message.
    async fn use_spare(&mut self, listener: &TcpListener, error: &io::Error) {
        self.service.metrics.limit_hit(JobServerLimit::OpenFiles);
        tracing::warn!(%error, "no open files left: connection rejected (ulimit -n)");
        self.spare = None;
        let rejecting = async {
            let (stream, _) = listener.accept().await?;
            let reason = "too many connections: the server has no open files left";
            let limit = self.service.settings().limits.linger_timeout;
            faktory::reject_immediately(stream, reason, limit).await;
            io::Result::Ok(())
        };
        let done = timeout(ACCEPT_RETRY_DELAY, rejecting).await;
        self.spare = File::open(SPARE).ok();
        if !matches!(done, Ok(Ok(()))) {
            sleep(ACCEPT_RETRY_DELAY).await;
        }
    }
}

async fn serve_tls<S: Store>(
    open: ConnectionGuard<S>,
    acceptor: tokio_rustls::TlsAcceptor,
    stream: TcpStream,
    address: IpAddr,
    signal: Rc<Signal>,
    admission: Admission,
) {
    let service = Rc::clone(&open.service);
    let hello_timeout = service.settings().limits.hello_timeout;
    match timeout(hello_timeout, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => faktory::serve(service, stream, address, signal, admission).await,
        Ok(Err(error)) => tracing::debug!(%address, %error, "TLS handshake failed"),
        Err(_) => service.metrics.limit_hit(JobServerLimit::HelloTimeout),
    }
}

/// Removes a connection from the open ones when its task ends, in whatever way.
struct ConnectionGuard<S> {
    service: Rc<JobService<S>>,
    id: u64,
}

impl<S> Drop for ConnectionGuard<S> {
    fn drop(&mut self) {
        self.service.connections.close(self.id);
    }
}

fn is_descriptor_limit(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}
