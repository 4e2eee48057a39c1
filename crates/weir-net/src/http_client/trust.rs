//! The certificate authorities that servers are checked against.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tokio_rustls::TlsConnector;
use weir_settings::{Setting, TableReader};

/// Certificate authorities for servers with `https`. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Trust(Arc<ClientConfig>);

/// Why a file of certificate authorities is unusable. `file`: the setting and the path.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// The file can't be read.
    #[error("cannot read {file}: {source}")]
    Read { file: String, source: std::io::Error },
    /// The file has no certificate.
    #[error("{file} holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)")]
    Nothing { file: String },
    /// PEM or a certificate in it is malformed.
    #[error("{file} holds a damaged certificate: {reason}")]
    Damaged { file: String, reason: String },
}

/// Reads a [`Trust`] from a settings file: `#[setting(trust)]`.
pub trait ReadTrust {
    /// Reads a PEM file. None: the public authorities.
    fn trust(&mut self, setting: Setting, field: &mut Trust);
}

impl ReadTrust for TableReader<'_> {
    fn trust(&mut self, setting: Setting, field: &mut Trust) {
        let mut file: Option<PathBuf> = None;
        self.optional_path(setting, &mut file);
        let name = self.path_of(setting.name);
        match file.map(|path| Trust::with_ca(&path, &name)) {
            None => {}
            Some(Ok(trust)) => *field = trust,
            Some(Err(error)) => self.named_error_at(setting.name, error.to_string()),
        }
    }
}

impl Trust {
    /// Returns the authorities that browsers trust (Mozilla's list, as of this build).
    #[must_use]
    pub fn public() -> Self {
        Self::with_roots(public_roots())
    }

    /// Returns the public authorities and those in a PEM file. `setting`: names the file in errors.
    ///
    /// # Errors
    /// Fails if the file is unreadable, or has no certificate or a malformed one.
    pub fn with_ca(path: &Path, setting: &str) -> Result<Self, CaError> {
        let file = format!("{setting} {}", path.display());
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(source) => return Err(CaError::Read { file, source }),
        };
        let mut roots = public_roots();
        let public = roots.len();
        for certificate in CertificateDer::pem_slice_iter(&text) {
            let certificate = certificate.map_err(|error| error.to_string());
            let add = |it| roots.add(it).map_err(|error| error.to_string());
            if let Err(reason) = certificate.and_then(add) {
                return Err(CaError::Damaged { file, reason });
            }
        }
        match roots.len() == public {
            true => Err(CaError::Nothing { file }),
            false => Ok(Self::with_roots(roots)),
        }
    }

    fn with_roots(roots: RootCertStore) -> Self {
        // Explicit: the process-wide default panics with two providers in the tree.
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("aws-lc-rs has the ciphers of TLS 1.2 and 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self(Arc::new(config))
    }

    /// Returns the TLS configuration for a protocol other than HTTP.
    #[must_use]
    pub fn client_config(&self) -> ClientConfig {
        let mut config = ClientConfig::clone(&self.0);
        config.alpn_protocols.clear();
        config
    }

    /// Returns the connector for HTTP/1.1 over TLS.
    #[must_use]
    pub fn connector(&self) -> TlsConnector {
        TlsConnector::from(Arc::clone(&self.0))
    }
}

fn public_roots() -> RootCertStore {
    RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ca_error_names_the_setting_and_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        let error = || Trust::with_ca(&path, "realtime.webhooks.ca").unwrap_err();
        assert!(matches!(error(), CaError::Read { .. }));
        std::fs::write(&path, "").unwrap();
        assert!(matches!(error(), CaError::Nothing { .. }));
        let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        std::fs::write(&path, pem).unwrap();
        let text = error().to_string();
        assert!(text.contains("realtime.webhooks.ca") && text.contains("ca.pem"), "{text}");
    }
}
