//! TLS for a listener: certificates and keys from PEM files, one for each name that a client may ask
//! for, replaced while running when the files change.
//!
//! The provider is named (aws-lc-rs), never taken from a process-wide default: with two providers
//! in the tree the default panics at run time.
//!
//! Promise: a new pair that can't be used changes nothing; the one before stays, and the log and a
//! metric say so.

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

/// HTTP/2 by its name in TLS (RFC 9113, section 3.2).
pub(crate) const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// What a listener shows, and to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// The first is for clients that name no host, or one that no other has. At least one.
    pub certificates: Vec<TlsFiles>,
    /// How often the files are checked.
    pub reload_interval: Duration,
}

impl TlsSettings {
    /// One certificate for everybody.
    #[must_use]
    pub fn one(files: TlsFiles) -> Self {
        Self { certificates: vec![files], reload_interval: Self::RELOAD_INTERVAL }
    }

    /// Certificates are renewed days before they expire, so a minute is soon enough.
    pub const RELOAD_INTERVAL: Duration = Duration::from_secs(60);
}

/// What is agreed upon within the handshake (ALPN).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreed {
    /// Nothing: the listener has one protocol of its own.
    Nothing,
    /// HTTP/2 or HTTP/1.1, as the client likes.
    Http,
}

impl Agreed {
    fn protocols(self) -> Vec<Vec<u8>> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Http => vec![HTTP2.to_vec(), HTTP1.to_vec()],
        }
    }
}

/// A listener's certificates, which [`Tls::reload`] replaces; running connections keep theirs.
#[derive(Debug)]
pub struct Tls {
    settings: TlsSettings,
    config: Arc<ServerConfig>,
    current: Arc<ArcSwap<ByName>>,
    /// Of the files when they were last read. std: no wait, and held by one reload at a time.
    stamps: Mutex<Vec<Stamp>>,
    metrics: TlsMetrics,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// A pair can't be used.
    pub fn load(
        settings: TlsSettings,
        agreed: Agreed,
        metrics: TlsMetrics,
    ) -> Result<Self, TlsError> {
        let stamps = Mutex::new(Stamp::of_all(&settings.certificates));
        let certificates = settings.certificates.iter().map(|files| load(files, &metrics));
        let certificates = certificates.collect::<Result<Vec<_>, _>>()?;
        let current = Arc::new(ArcSwap::from_pointee(ByName::new(certificates)));
        let config = server_config(&current, agreed)?;
        Ok(Self { settings, config, current, stamps, metrics })
    }

    /// What the next handshake uses.
    #[must_use]
    pub fn acceptor(&self) -> tokio_rustls::TlsAcceptor {
        tokio_rustls::TlsAcceptor::from(Arc::clone(&self.config))
    }

    /// Reloads the files. An unusable pair changes nothing.
    ///
    /// # Errors
    /// Those pairs.
    pub fn reload(&self) -> Result<(), TlsReloadError> {
        // Before the files: whoever changes them meanwhile is seen the next time.
        let stamps = Stamp::of_all(&self.settings.certificates);
        let mut last = self.stamps.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.current.load();
        let mut failures = Vec::new();
        let mut certificates = Vec::new();
        for (files, before) in self.settings.certificates.iter().zip(before.certificates()) {
            certificates.push(match load(files, &self.metrics) {
                Ok(fresh) => {
                    self.metrics.reloaded(ReloadOutcome::Replaced);
                    fresh
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

/// Pairs that could not be reloaded.
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

/// The certificate for the server name `host`; None: there is none at all.
#[must_use]
pub fn shown(certificates: &[Arc<Certificate>], host: &str) -> Option<Arc<Certificate>> {
    ByName::new(certificates.to_vec()).find(Some(host)).cloned()
}

fn load(files: &TlsFiles, metrics: &TlsMetrics) -> Result<Arc<Certificate>, TlsError> {
    let certificate = Certificate::load(files)?;
    metrics.expires(&files.cert, certificate.expires());
    Ok(Arc::new(certificate))
}

/// TLS 1.2 and 1.3 without client certificates.
fn server_config(
    names: &Arc<ArcSwap<ByName>>,
    agreed: Agreed,
) -> Result<Arc<ServerConfig>, TlsError> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Provider { reason: error.to_string() })?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(names::Resolver(Arc::clone(names))));
    config.alpn_protocols = agreed.protocols();
    Ok(Arc::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
