//! `[jobs.tls]`, `[front.tls]`: certificate and key.

use std::path::PathBuf;

use weir_net::TlsFiles;

use super::keys::{Key, Keys};

pub(super) fn read(keys: &mut Keys<'_>) -> Option<TlsFiles> {
    let (mut cert, mut key): (Option<PathBuf>, Option<PathBuf>) = (None, None);
    keys.optional_path(
        Key::fixed("cert", "PEM file: the server's certificate, then its chain. Its content is read again on SIGHUP."),
        &mut cert,
    );
    keys.optional_path(
        Key::fixed("key", "PEM file: the private key. Its content is read again on SIGHUP."),
        &mut key,
    );
    match (cert, key) {
        (Some(cert), Some(key)) => Some(TlsFiles { cert, key }),
        (None, None) => None,
        (Some(_), None) => {
            keys.mistake_at("cert", "it needs key beside it");
            None
        }
        (None, Some(_)) => {
            keys.mistake_at("key", "it needs cert beside it");
            None
        }
    }
}
