//! TLS for a listener: certificate and key from PEM files, replaced while running.
//!
//! The provider is named (aws-lc-rs), never taken from a process-wide default: with two providers
//! in the tree the default panics at run time.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem};

/// HTTP/2 by its name in TLS (RFC 9113, section 3.2).
pub(crate) const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// Where certificate and key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// PEM: the server's certificate first, then its chain.
    pub cert: PathBuf,
    /// PEM: the private key (PKCS#8, PKCS#1 or SEC1).
    pub key: PathBuf,
}

/// Why TLS can't be served with these files.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file can't be read.
    #[error("cannot read {what} {path}: {source}")]
    Read { what: &'static str, path: PathBuf, source: std::io::Error },
    /// No certificate or key in it.
    #[error("{path} holds no {what} in PEM form (-----BEGIN {begin}-----)")]
    Nothing { what: &'static str, begin: &'static str, path: PathBuf },
    /// PEM, but damaged.
    #[error("{path} is not valid PEM: {reason}")]
    Damaged { path: PathBuf, reason: String },
    /// Key and certificate don't belong together, or are of a kind that isn't supported.
    #[error("{cert} and {key} can't be used together: {reason}")]
    Mismatch { cert: PathBuf, key: PathBuf, reason: String },
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

/// A server configuration that [`Tls::reload`] replaces; running connections keep theirs.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    agreed: Agreed,
    /// std: held for one pointer copy per handshake, never across an await.
    current: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads the files.
    pub fn load(files: TlsFiles, agreed: Agreed) -> Result<Self, TlsError> {
        let current = RwLock::new(server_config(&files, agreed)?);
        Ok(Self { files, agreed, current })
    }

    /// What the next handshake uses.
    #[must_use]
    pub fn acceptor(&self) -> tokio_rustls::TlsAcceptor {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        tokio_rustls::TlsAcceptor::from(Arc::clone(&current))
    }

    /// Reads the files again. On an error the old configuration stays.
    pub fn reload(&self) -> Result<(), TlsError> {
        let fresh = server_config(&self.files, self.agreed)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }
}

/// A rustls configuration for TLS 1.2 and 1.3 without client certificates.
pub fn server_config(files: &TlsFiles, agreed: Agreed) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = read_chain(&files.cert)?;
    let key = read_key(&files.key)?;
    let mismatch = |error: rustls::Error| TlsError::Mismatch {
        cert: files.cert.clone(),
        key: files.key.clone(),
        reason: error.to_string(),
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(mismatch)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(mismatch)?;
    config.alpn_protocols = agreed.protocols();
    Ok(Arc::new(config))
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read("certificate", path)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.map_err(|error| damaged(path, &error))?;
    if chain.is_empty() {
        let path = path.to_owned();
        return Err(TlsError::Nothing { what: "certificate", begin: "CERTIFICATE", path });
    }
    Ok(chain)
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = read("key", path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            TlsError::Nothing { what: "private key", begin: "PRIVATE KEY", path: path.to_owned() }
        }
        other => damaged(path, &other),
    })
}

fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Read { what, path: path.to_owned(), source })
}

fn damaged(path: &Path, error: &pem::Error) -> TlsError {
    TlsError::Damaged { path: path.to_owned(), reason: error.to_string() }
}
