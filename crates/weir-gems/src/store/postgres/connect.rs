//! Connections, and the thread that runs their I/O.
//!
//! Connections are independent of the service's cores, whose runtimes start and stop and are busy
//! with requests. All connections live on one thread, which only moves their bytes. Writes run
//! there to completion, so that a client that disconnects does not interrupt one.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use deadpool_postgres::Connect;
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Client, Config, Error, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;
use weir_net::http_client::Trust;

use super::failure::sentence;
use super::metrics::{Counted, PostgresMetrics};
use super::settings::{PostgresLimits, PostgresSettings, for_server};
use crate::store::StoreError;

/// The application name that Postgres shows in its activity views.
const APPLICATION_NAME: &str = "weir-gems";
/// Interval of TCP keepalives, which prevent firewalls from dropping idle connections.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// The I/O thread. Dropping this ends it and closes all connections.
#[derive(Debug)]
pub(super) struct IoThread {
    handle: Handle,
    _alive: oneshot::Sender<()>,
}

impl IoThread {
    pub(super) fn start() -> Result<Self, StoreError> {
        let failed = |error| StoreError::Io { path: "a thread for Postgres".to_owned(), error };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let handle = runtime.handle().clone();
        let (alive, ended) = oneshot::channel::<()>();
        let run = move || drop(runtime.block_on(ended));
        thread::Builder::new().name("weir-gems-db".to_owned()).spawn(run).map_err(failed)?;
        Ok(Self { handle, _alive: alive })
    }

    /// Runs a future to completion on the thread, even if the returned handle is dropped.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.handle.spawn(work)
    }
}

/// Creates connections for the pool.
pub(super) struct Connector {
    handle: Handle,
    tls: Option<MakeRustlsConnect>,
    /// Statements to run first on each connection.
    greeting: Arc<str>,
    metrics: PostgresMetrics,
}

impl Connector {
    pub(super) fn new(
        settings: &PostgresSettings,
        io: &IoThread,
        metrics: PostgresMetrics,
    ) -> Result<Self, StoreError> {
        let tls = match settings.url.config.get_ssl_mode() {
            SslMode::Disable => None,
            _ => Some(MakeRustlsConnect::new(trust(settings.ca.as_deref())?.client_config())),
        };
        let greeting = greeting(settings).into();
        Ok(Self { handle: io.handle.clone(), tls, greeting, metrics })
    }
}

/// Returns the parameters of connections.
pub(super) fn config(settings: &PostgresSettings, limits: &PostgresLimits) -> Config {
    let mut config = settings.url.config.clone();
    if let Some(password) = &settings.password {
        config.password(password.expose());
    }
    config
        .application_name(APPLICATION_NAME)
        .connect_timeout(limits.connect_timeout)
        .keepalives_idle(KEEPALIVE)
        .tcp_user_timeout(limits.write_timeout)
        // Of several servers, use the writable one.
        .target_session_attrs(TargetSessionAttrs::ReadWrite);
    config
}

/// Returns the first statements of a connection. Plans here don't depend on values, so generic
/// plans are forced. Durability requires `synchronous_commit`, whatever the database's default is.
fn greeting(settings: &PostgresSettings) -> String {
    let limits = settings.limits.within_reason();
    let (query, write) = (for_server(limits.query_timeout), for_server(limits.write_timeout));
    format!(
        "SET search_path = {}; SET statement_timeout = {query}; SET lock_timeout = {write};
         SET idle_in_transaction_session_timeout = {write};
         SET client_min_messages = warning; SET jit = off;
         SET plan_cache_mode = force_generic_plan;
         SELECT set_config('synchronous_commit', 'on', false)
         WHERE current_setting('synchronous_commit') = 'off'",
        settings.schema
    )
}

impl Connect for Connector {
    fn connect(&self, config: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), Error>> {
        let (config, greeting) = (config.clone(), Arc::clone(&self.greeting));
        let (tls, metrics) = (self.tls.clone(), self.metrics.clone());
        Box::pin(async move {
            let counted = metrics.clone();
            let made = self.handle.spawn(async move {
                match tls {
                    None => open(&config, NoTls, &greeting, &counted).await,
                    Some(tls) => open(&config, tls, &greeting, &counted).await,
                }
            });
            match made.await {
                Ok(Ok(made)) => {
                    metrics.connects.inc();
                    Ok(made)
                }
                Ok(Err(error)) => {
                    metrics.connect_failures.inc();
                    Err(error)
                }
                // The thread has ended; the pool's timeout reports this.
                Err(_) => std::future::pending().await,
            }
        })
    }
}

async fn open<T>(
    config: &Config,
    tls: T,
    greeting: &str,
    metrics: &PostgresMetrics,
) -> Result<(Client, JoinHandle<()>), Error>
where
    T: MakeTlsConnect<Socket> + Send + 'static,
    T::Stream: Send + 'static,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    let (client, connection) = config.connect(tls).await?;
    let open = Counted::by(&metrics.connections);
    let driver = Handle::current().spawn(async move {
        let _open = open;
        if let Err(error) = connection.await {
            tracing::warn!(error = sentence(&error), "a connection to Postgres has ended");
        }
    });
    match client.batch_execute(greeting).await {
        Ok(()) => Ok((client, driver)),
        Err(error) => {
            driver.abort();
            Err(error)
        }
    }
}

/// Returns the public certificate authorities, and those of the file.
fn trust(ca: Option<&Path>) -> Result<Trust, StoreError> {
    match ca.map(|path| Trust::with_ca(path, "gems.postgres.ca")) {
        None => Ok(Trust::public()),
        Some(Ok(trust)) => Ok(trust),
        Some(Err(error)) => Err(StoreError::Engine(Box::new(error))),
    }
}
