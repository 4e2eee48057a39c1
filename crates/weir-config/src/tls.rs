//! `[jobs.tls]`, `[front.tls]`: certificates and keys; whose certificates are believed where Weir is the client.

use std::path::PathBuf;

use weir_net::{TlsFiles, TlsSettings};

use super::keys::{Key, Keys};
use weir_settings::{DAY, SECOND};

/// The table `tls` of a part.
pub(super) fn read_section(tls: &mut Option<TlsSettings>, table: &mut Keys<'_>) {
    table.section("tls", |table| *tls = read(table));
}

pub(super) fn read(keys: &mut Keys<'_>) -> Option<TlsSettings> {
    let mut certificates: Vec<_> = read_pair(keys).into_iter().collect();
    let mut reload_interval = TlsSettings::RELOAD_INTERVAL;
    keys.duration(
        Key::fixed("reload_interval", "How often the files are looked at. What has changed is used for new connections; a pair that can't be used changes nothing, which is logged and counted. SIGHUP looks at once."),
        SECOND..=DAY,
        &mut reload_interval,
    );
    keys.each("certificates", |keys| certificates.extend(read_named(keys)));
    (!certificates.is_empty()).then_some(TlsSettings { certificates, reload_interval })
}

/// One more certificate, for names of its own.
fn read_named(keys: &mut Keys<'_>) -> Option<TlsFiles> {
    let mut files = read_pair(keys);
    keys.require("cert");
    keys.require("key");
    let mut hosts = Vec::new();
    keys.some_texts(
        Key::fixed("hosts", "Names that clients are shown it for, such as \"shop.example\" or \"*.shop.example\". None: those that it has."),
        &mut hosts,
    );
    if hosts.iter().any(|host: &String| host.contains([':', '/'])) {
        keys.error_at("hosts", "write names like \"shop.example\", without scheme, port or path");
    }
    if let Some(files) = &mut files {
        files.hosts = hosts;
    }
    files
}

fn read_pair(keys: &mut Keys<'_>) -> Option<TlsFiles> {
    let (mut cert, mut key): (Option<PathBuf>, Option<PathBuf>) = (None, None);
    keys.optional_path(
        Key::fixed("cert", "PEM file: the server's certificate, then its chain. Its content is read again when it changes. Of several certificates the first is for clients that ask for no name that another has."),
        &mut cert,
    );
    keys.optional_path(
        Key::fixed("key", "PEM file: the private key. Its content is read again when it changes."),
        &mut key,
    );
    match (cert, key) {
        (Some(cert), Some(key)) => Some(TlsFiles { cert, key, hosts: Vec::new() }),
        (None, None) => None,
        (Some(_), None) => {
            keys.error_at("cert", "it needs key beside it");
            None
        }
        (None, Some(_)) => {
            keys.error_at("key", "it needs cert beside it");
            None
        }
    }
}
