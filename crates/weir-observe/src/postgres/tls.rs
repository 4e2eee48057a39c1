//! Loads certificates from files for connections to Postgres.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::endpoint::PostgresEndpoint;
use super::error::PostgresError;

/// Returns a connector that always verifies the server's certificate, with the configured CA or the
/// system's.
pub(super) fn connector(endpoint: &PostgresEndpoint) -> Result<MakeRustlsConnect, PostgresError> {
    let mut roots = RootCertStore::empty();
    match &endpoint.authority {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| unusable(path, &error))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the versions that rustls takes by default")
        .with_root_certificates(roots);
    let config = match &endpoint.client {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let private = PrivateKeyDer::from_pem_file(key);
            let private = private.map_err(|error| unusable(key, &error))?;
            builder
                .with_client_auth_cert(certificates(certificate)?, private)
                .map_err(|error| unusable(certificate, &error))?
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PostgresError> {
    let certificates = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    certificates.map_err(|error| unusable(path, &error))
}

fn unusable(path: &Path, error: &dyn std::error::Error) -> PostgresError {
    PostgresError::Certificate { path: path.display().to_string(), problem: error.to_string() }
}
