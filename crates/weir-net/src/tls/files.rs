//! The files of a certificate, and their errors.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem};

/// The files of a certificate and its server names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// PEM: the server's certificate first, then its chain.
    pub cert: PathBuf,
    /// PEM: the private key (PKCS#8, PKCS#1 or SEC1).
    pub key: PathBuf,
    /// Server names, `*.` for any first label. Empty: those of the certificate.
    pub hosts: Vec<String>,
}

/// Why TLS cannot be served with these files.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file can't be read.
    #[error("cannot read {kind} {path}: {source}")]
    Read { kind: &'static str, path: PathBuf, source: std::io::Error },
    /// The file has no certificate or key.
    #[error("{path} holds no {kind} in PEM form (-----BEGIN {pem_label}-----)")]
    Nothing { kind: &'static str, pem_label: &'static str, path: PathBuf },
    /// The PEM is malformed.
    #[error("{path} is not valid PEM: {reason}")]
    Damaged { path: PathBuf, reason: String },
    /// The PEM is valid, but not the certificate in it.
    #[error("{path} holds no valid certificate: {reason}")]
    NoCertificate { path: PathBuf, reason: String },
    /// Key and certificate do not belong together, or their type is not supported.
    #[error("{cert} and {key} can't be used together: {reason}")]
    Mismatch { cert: PathBuf, key: PathBuf, reason: String },
    /// An error that is not of the files.
    #[error("TLS can't be set up: {reason}")]
    Provider { reason: String },
}

/// Identifies the version of a file: it changes when the file is replaced or written. None: no
/// file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(Option<(u64, u64, i64, i64, u64)>);

impl Stamp {
    pub(super) fn read_all(all: &[TlsFiles]) -> Vec<Self> {
        all.iter()
            .flat_map(|files| [Self::read_stamp(&files.cert), Self::read_stamp(&files.key)])
            .collect()
    }

    fn read_stamp(path: &Path) -> Self {
        let metadata = std::fs::metadata(path).ok();
        Self(metadata.map(|metadata| {
            (
                metadata.dev(),
                metadata.ino(),
                metadata.mtime(),
                metadata.mtime_nsec(),
                metadata.size(),
            )
        }))
    }
}

pub(super) fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read("certificate", path)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.map_err(|error| damaged(path, &error))?;
    if chain.is_empty() {
        let path = path.to_owned();
        return Err(TlsError::Nothing { kind: "certificate", pem_label: "CERTIFICATE", path });
    }
    Ok(chain)
}

pub(super) fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = read("key", path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::Nothing {
            kind: "private key",
            pem_label: "PRIVATE KEY",
            path: path.to_owned(),
        },
        other => damaged(path, &other),
    })
}

fn read(kind: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Read { kind, path: path.to_owned(), source })
}

fn damaged(path: &Path, error: &pem::Error) -> TlsError {
    TlsError::Damaged { path: path.to_owned(), reason: error.to_string() }
}
