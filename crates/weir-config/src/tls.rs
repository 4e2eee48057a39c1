//! `[jobs.tls]`, `[front.tls]`: certificates and keys; whose certificates are believed where Weir is the client.

use std::path::PathBuf;
use std::time::Duration;

use weir_net::{TlsFiles, TlsSettings};

use weir_settings::{DAY, SECOND, Section, TableReader};

/// Reads the table `tls` of a part.
pub(super) fn read_section(tls: &mut Option<TlsSettings>, table: &mut TableReader<'_>) {
    table.section("tls", |table| *tls = read(table));
}

/// `[jobs.tls]`, `[front.tls]`, `[gems.tls]`.
#[derive(Debug, Section)]
#[section(restart)]
struct TlsTable {
    #[setting(flatten)]
    pair: PairTable,
    /// How often the files are checked. New connections use the changed files. An unusable pair
    /// changes nothing, and is logged and counted. SIGHUP checks immediately.
    #[setting(advanced, range = SECOND..=DAY, default = TlsSettings::RELOAD_INTERVAL)]
    reload_interval: Duration,
}

#[derive(Debug, Section)]
#[section(restart)]
struct PairTable {
    /// PEM file: the server's certificate, then its chain. Reread when it changes. Of several
    /// certificates, the first is for clients whose server name matches none.
    cert: Option<PathBuf>,
    /// PEM file: the private key. Reread when it changes.
    key: Option<PathBuf>,
}

/// One more certificate, for names of its own.
#[derive(Debug, Section)]
#[section(restart)]
struct NamedTable {
    #[setting(flatten)]
    pair: PairTable,
    /// Server names for this certificate, such as "shop.example" or "*.shop.example". None:
    /// those in the certificate.
    #[setting(some_texts)]
    hosts: Vec<String>,
}

fn read(table: &mut TableReader<'_>) -> Option<TlsSettings> {
    let mut settings = TlsTable::default();
    settings.read(table);
    let mut certificates: Vec<_> = settings.pair.files(table).into_iter().collect();
    table.each("certificates", |table| certificates.extend(read_named(table)));
    let reload_interval = settings.reload_interval;
    (!certificates.is_empty()).then_some(TlsSettings { certificates, reload_interval })
}

fn read_named(table: &mut TableReader<'_>) -> Option<TlsFiles> {
    let mut settings = NamedTable::default();
    settings.read(table);
    let NamedTable { pair, hosts } = settings;
    let files = pair.files(table);
    table.require("cert");
    table.require("key");
    if hosts.iter().any(|host| host.contains([':', '/'])) {
        table.error_at("hosts", "write names like \"shop.example\", without scheme, port or path");
    }
    files.map(|files| TlsFiles { hosts, ..files })
}

impl PairTable {
    fn files(self, table: &mut TableReader<'_>) -> Option<TlsFiles> {
        match (self.cert, self.key) {
            (Some(cert), Some(key)) => Some(TlsFiles { cert, key, hosts: Vec::new() }),
            (None, None) => None,
            (Some(_), None) => {
                table.error_at("cert", "it needs key beside it");
                None
            }
            (None, Some(_)) => {
                table.error_at("key", "it needs cert beside it");
                None
            }
        }
    }
}
