//! A certificate with its key.

use std::sync::Arc;

use rustls::sign::CertifiedKey;
use weir_base::clock::Timestamp;
use x509_cert::certificate::{CertificateInner, Raw};
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::time::Time;

use super::files::{TlsError, TlsFiles, read_chain, read_key};
use super::{names, provider};

/// As lenient as rustls: serial numbers that RFC 5280 forbids are harmless here.
type Parsed = CertificateInner<Raw>;

/// A certificate and the key that belongs to it.
#[derive(Debug)]
pub struct Certificate {
    key: Arc<CertifiedKey>,
    /// The server names in the settings.
    hosts: Vec<String>,
    /// The names in the certificate.
    names: Vec<String>,
    valid_from: Timestamp,
    expires: Timestamp,
}

impl Certificate {
    /// Loads the files.
    ///
    /// # Errors
    /// Fails if a file is unusable, or if they do not belong together. An expired certificate is no
    /// error, because it may be better than none.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        let chain = read_chain(&files.cert)?;
        let key = read_key(&files.key)?;
        let no_certificate = |reason: String| {
            let path = files.cert.clone();
            TlsError::NoCertificate { path, reason }
        };
        let parsed =
            Parsed::from_der(&chain[0]).map_err(|error| no_certificate(error.to_string()))?;
        let names = names_of(&parsed);
        let validity = &parsed.tbs_certificate.validity;
        let (valid_from, expires) = (time(validity.not_before), time(validity.not_after));
        let key = CertifiedKey::from_der(chain, key, &provider()).map_err(|error| {
            let (cert, key) = (files.cert.clone(), files.key.clone());
            TlsError::Mismatch { cert, key, reason: error.to_string() }
        })?;
        let hosts = files.hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        Ok(Self { key: Arc::new(key), hosts, names, valid_from, expires })
    }

    /// Returns the names in the certificate, in lower case.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns whether clients accept it for `host`.
    #[must_use]
    pub fn covers(&self, host: &str) -> bool {
        names::covers(&self.names, host)
    }

    /// Returns the start of its validity.
    #[must_use]
    pub fn valid_from(&self) -> Timestamp {
        self.valid_from
    }

    /// Returns the end of its validity.
    #[must_use]
    pub fn expires(&self) -> Timestamp {
        self.expires
    }

    /// Returns the server names for which it is selected.
    pub(super) fn hosts(&self) -> &[String] {
        if self.hosts.is_empty() { &self.names } else { &self.hosts }
    }

    pub(super) fn key(&self) -> &Arc<CertifiedKey> {
        &self.key
    }
}

/// Returns the alternative names. Clients ignore the subject's common name (RFC 9525).
fn names_of(certificate: &Parsed) -> Vec<String> {
    let Ok(Some((_, names))) = certificate.tbs_certificate.get::<SubjectAltName>() else {
        return Vec::new();
    };
    let names = names.0.iter();
    names
        .filter_map(|name| match name {
            GeneralName::DnsName(name) => Some(name.as_str().to_ascii_lowercase()),
            _ => None,
        })
        .collect()
}

fn time(time: Time) -> Timestamp {
    Timestamp::default() + time.to_unix_duration()
}
