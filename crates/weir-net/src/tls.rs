//! TLS for a listener: certificates and keys from PEM files, selected by server name, and reloaded
//! when the files change.
//!
//! The crypto provider (aws-lc-rs) is passed explicitly: with two providers in the dependency tree,
//! rustls' process-wide default panics.
//!
//! Promise: if a new pair of files is unusable, the previous one stays in use, and the failure is
//! logged and counted.

mod certificate;
mod files;
mod names;
mod watch;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;

pub use self::certificate::Certificate;
use self::files::Stamp;
pub use self::files::{TlsError, TlsFiles};
use self::names::ByName;
use crate::metrics::{ReloadOutcome, TlsMetrics};

/// The ALPN name of HTTP/2 (RFC 9113, section 3.2).
pub(crate) const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// The certificates of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// At least one. The first is also for clients that send no server name, or an unknown one.
    pub certificates: Vec<TlsFiles>,
    /// How often the files are checked.
    pub reload_interval: Duration,
}

impl TlsSettings {
    /// Creates settings with one certificate for all names.
    #[must_use]
    pub fn one(files: TlsFiles) -> Self {
        Self { certificates: vec![files], reload_interval: Self::RELOAD_INTERVAL }
    }

    /// The default. Certificates are renewed days before they expire, so a minute is soon enough.
    pub const RELOAD_INTERVAL: Duration = Duration::from_secs(60);
}

/// The protocols that the handshake negotiates (ALPN).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlpnProtocols {
    /// No protocol: the listener has a single one.
    Nothing,
    /// HTTP/2 or HTTP/1.1, whichever the client supports.
    Http,
}

impl AlpnProtocols {
    fn protocols(self) -> Vec<Vec<u8>> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Http => vec![HTTP2.to_vec(), HTTP1.to_vec()],
        }
    }
}

/// A listener's certificates, which [`Tls::reload`] replaces; open connections keep theirs.
#[derive(Debug)]
pub struct Tls {
    settings: TlsSettings,
    config: Arc<ServerConfig>,
    current: Arc<ArcSwap<ByName>>,
    /// The versions of the files at the last load. A std mutex: it is never held across an await.
    stamps: Mutex<Vec<Stamp>>,
    metrics: TlsMetrics,
}

impl Tls {
    /// Loads the certificates.
    ///
    /// # Errors
    /// Fails if a pair of files is unusable.
    pub fn load(
        settings: TlsSettings,
        alpn: AlpnProtocols,
        metrics: TlsMetrics,
    ) -> Result<Self, TlsError> {
        let stamps = Mutex::new(Stamp::read_all(&settings.certificates));
        let certificates = settings.certificates.iter().map(|files| load(files, &metrics));
        let certificates = certificates.collect::<Result<Vec<_>, _>>()?;
        let current = Arc::new(ArcSwap::from_pointee(ByName::new(certificates)));
        let config = server_config(&current, alpn)?;
        Ok(Self { settings, config, current, stamps, metrics })
    }

    /// Returns the acceptor for new connections.
    #[must_use]
    pub fn acceptor(&self) -> tokio_rustls::TlsAcceptor {
        tokio_rustls::TlsAcceptor::from(Arc::clone(&self.config))
    }

    /// Reloads the files. An unusable pair changes nothing.
    ///
    /// # Errors
    /// Returns the error of each unusable pair.
    pub fn reload(&self) -> Result<(), TlsReloadError> {
        // Before the files are read, so that a change in between is detected the next time.
        let stamps = Stamp::read_all(&self.settings.certificates);
        let mut last = self.stamps.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.current.load();
        let mut failures = Vec::new();
        let mut certificates = Vec::new();
        for (files, before) in self.settings.certificates.iter().zip(before.certificates()) {
            certificates.push(match load(files, &self.metrics) {
                Ok(loaded) => {
                    self.metrics.reloaded(ReloadOutcome::Replaced);
                    loaded
                }
                Err(failure) => {
                    self.metrics.reloaded(ReloadOutcome::Failed);
                    failures.push(failure);
                    Arc::clone(before)
                }
            });
        }
        self.current.store(Arc::new(ByName::new(certificates)));
        *last = stamps;
        if failures.is_empty() { Ok(()) } else { Err(TlsReloadError(failures)) }
    }
}

/// The errors of the pairs that could not be reloaded.
#[derive(Debug)]
pub struct TlsReloadError(Vec<TlsError>);

impl std::fmt::Display for TlsReloadError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, failure) in self.0.iter().enumerate() {
            let between = if index == 0 { "" } else { "; " };
            write!(formatter, "{between}{failure}")?;
        }
        Ok(())
    }
}

impl std::error::Error for TlsReloadError {}

/// Returns the certificate for the server name `host`. None: there are no certificates.
#[must_use]
pub fn certificate_for(certificates: &[Arc<Certificate>], host: &str) -> Option<Arc<Certificate>> {
    ByName::new(certificates.to_vec()).find(Some(host)).cloned()
}

fn load(files: &TlsFiles, metrics: &TlsMetrics) -> Result<Arc<Certificate>, TlsError> {
    let certificate = Certificate::load(files)?;
    metrics.expires(&files.cert, certificate.expires());
    Ok(Arc::new(certificate))
}

/// Creates a configuration for TLS 1.2 and 1.3 without client certificates.
fn server_config(
    names: &Arc<ArcSwap<ByName>>,
    alpn: AlpnProtocols,
) -> Result<Arc<ServerConfig>, TlsError> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Provider { reason: error.to_string() })?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(names::Resolver(Arc::clone(names))));
    config.alpn_protocols = alpn.protocols();
    Ok(Arc::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
