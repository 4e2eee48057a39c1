//! `[observe.postgres]`: the application's database.

use std::path::PathBuf;

use weir_observe::PostgresEndpoint;

use super::super::keys::{Key, Keys};

#[derive(Clone, Debug, Default)]
pub(super) struct Postgres {
    /// None: there is a mistake in it, which is reported.
    pub(super) endpoint: Option<PostgresEndpoint>,
    /// What it may use; none: what others leave of this machine, if it runs here.
    pub(super) memory_bytes: Option<u64>,
}

impl Postgres {
    /// `is_set`: the section is in the file, and must be complete.
    pub(super) fn read(&mut self, keys: &mut Keys<'_>, is_set: bool) {
        let (mut url, mut password) = (None, None);
        let (mut ca, mut cert, mut key): (Option<PathBuf>, Option<PathBuf>, Option<PathBuf>) =
            (None, None, None);
        keys.optional_text(
            Key::fixed("url", "The application's database: postgres://[USER@]HOST[:PORT]/DATABASE[?sslmode=verify-full], or postgres:///DATABASE?host=/run/postgresql for a socket; without a password."),
            &mut url,
        );
        keys.secret(Key::fixed("password", "Its password. None: it asks for none."), &mut password);
        keys.optional_path(
            Key::fixed("ca", "PEM file: who may have signed its certificate. None: those that the system trusts."),
            &mut ca,
        );
        keys.optional_path(
            Key::fixed("cert", "PEM file: the certificate to show it, with key."),
            &mut cert,
        );
        keys.optional_path(Key::fixed("key", "PEM file: the key of cert."), &mut key);
        keys.optional_size(
            Key::fixed("memory", "Memory that it may use, where it runs elsewhere or shares its machine. None: what others leave of this machine, if it runs here."),
            1 << 20..=1 << 50,
            &mut self.memory_bytes,
        );
        if is_set {
            keys.require("url");
        }
        let Some(url) = url else { return };
        if cert.is_some() != key.is_some() {
            let lacks = if cert.is_some() { "key" } else { "cert" };
            keys.error_at(lacks, "cert and key go together");
        }
        let endpoint = PostgresEndpoint::parse(&url).and_then(|mut endpoint| {
            (endpoint.password, endpoint.authority) = (password, ca);
            endpoint.client = cert.zip(key);
            if endpoint.authority.is_some() || endpoint.client.is_some() {
                endpoint.require_tls()?;
            }
            Ok(endpoint)
        });
        match endpoint {
            Ok(endpoint) => self.endpoint = Some(endpoint),
            Err(error) => keys.error_at("url", &error.to_string()),
        }
    }
}
