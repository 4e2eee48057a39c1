//! Selects the certificate for a client by its server name (SNI).

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::certificate::Certificate;

/// Certificates by server name.
#[derive(Debug)]
pub(super) struct ByName {
    /// The first one is for all other names.
    certificates: Vec<Arc<Certificate>>,
    /// Wildcard names have the form `*.example`.
    names: HashMap<String, usize>,
}

impl ByName {
    pub(super) fn new(certificates: Vec<Arc<Certificate>>) -> Self {
        let mut names = HashMap::new();
        for (index, certificate) in certificates.iter().enumerate() {
            for host in certificate.hosts() {
                // The first in the settings has precedence.
                names.entry(host.clone()).or_insert(index);
            }
        }
        Self { certificates, names }
    }

    pub(super) fn certificates(&self) -> &[Arc<Certificate>] {
        &self.certificates
    }

    /// Returns the certificate for a server name. None: there are no certificates.
    pub(super) fn find(&self, name: Option<&str>) -> Option<&Arc<Certificate>> {
        let index = name.and_then(|name| {
            let [exact, any] = patterns(name);
            let any = || self.names.get(&any?);
            self.names.get(&exact?).or_else(any)
        });
        self.certificates.get(index.copied().unwrap_or_default())
    }
}

/// Returns whether one of `names` is `host`, or a wildcard for it.
pub(super) fn covers(names: &[String], host: &str) -> bool {
    patterns(host).iter().flatten().any(|pattern| names.contains(pattern))
}

/// Returns the names of a certificate that match: `name` itself, and the wildcard for its first
/// label.
fn patterns(name: &str) -> [Option<String>; 2] {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let any = name.split_once('.').map(|(_, rest)| format!("*.{rest}"));
    [Some(name), any]
}

/// Selects the current certificate in a handshake.
#[derive(Debug)]
pub(super) struct Resolver(pub(super) Arc<ArcSwap<ByName>>);

impl ResolvesServerCert for Resolver {
    fn resolve(&self, client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.0.load();
        current.find(client.server_name()).map(|found| Arc::clone(found.key()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_matches_one_label() {
        let names = ["shop.example".to_owned(), "*.shop.example".to_owned()];
        for (host, is_covered) in [
            ("shop.example", true),
            ("Shop.Example.", true),
            ("www.shop.example", true),
            ("a.b.shop.example", false),
            ("example", false),
            ("*.shop.example", true),
        ] {
            assert_eq!(covers(&names, host), is_covered, "{host}");
        }
    }
}
