//! `[[observe.redis]]`: one Redis, or each of several shards.

use std::path::PathBuf;

use weir_base::secret::Secret;
use weir_sidekiq::{Address, Endpoint, TlsFiles};

use super::super::keys::{Key, Keys};

/// As it stands in the file.
#[derive(Debug, Default)]
struct Redis {
    url: String,
    password: Option<Secret>,
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    sentinel_user: Option<String>,
    sentinel_password: Option<Secret>,
}

/// None: there is a mistake in it, which is reported.
pub(super) fn read(keys: &mut Keys<'_>) -> Option<Endpoint> {
    let mut redis = Redis::default();
    keys.required_text(
        Key::fixed("url", "Sidekiq's Redis: redis://[USER@]HOST[:PORT][/DATABASE], rediss://.. (TLS), unix:///PATH, redis+sentinel://HOST[,HOST]/SERVICE; without a password."),
        &mut redis.url,
    );
    keys.secret(
        Key::fixed("password", "Its password. None: it asks for none."),
        &mut redis.password,
    );
    keys.optional_path(
        Key::fixed(
            "ca",
            "PEM file: who may have signed its certificate. None: those that the system trusts.",
        ),
        &mut redis.ca,
    );
    keys.optional_path(
        Key::fixed("cert", "PEM file: the certificate to show it, with key."),
        &mut redis.cert,
    );
    keys.optional_path(Key::fixed("key", "PEM file: the key of cert."), &mut redis.key);
    keys.optional_text(
        Key::fixed("sentinel_user", "User of the Sentinels."),
        &mut redis.sentinel_user,
    );
    keys.secret(
        Key::fixed("sentinel_password", "Password of the Sentinels."),
        &mut redis.sentinel_password,
    );
    redis.endpoint(keys)
}

/// What a comparison of settings has to look at.
pub(super) fn secrets(endpoint: &Endpoint) -> [Option<Secret>; 2] {
    let of_sentinels = match &endpoint.address {
        Address::Sentinel(sentinel) => sentinel.password.clone(),
        Address::Tcp { .. } | Address::Unix(_) => None,
    };
    [endpoint.password.clone(), of_sentinels]
}

impl Redis {
    fn endpoint(self, keys: &mut Keys<'_>) -> Option<Endpoint> {
        if self.url.is_empty() {
            return None;
        }
        let mut endpoint = match Endpoint::parse(&self.url) {
            Ok(endpoint) => endpoint,
            Err(error) => {
                keys.error_at("url", &error.to_string());
                return None;
            }
        };
        if self.cert.is_some() != self.key.is_some() {
            let lacks = if self.cert.is_some() { "key" } else { "cert" };
            keys.error_at(lacks, "cert and key go together");
        }
        endpoint.password = self.password;
        endpoint.tls = TlsFiles { authority: self.ca, client: self.cert.zip(self.key) };
        let has_tls = match &mut endpoint.address {
            Address::Tcp { tls, .. } => *tls,
            Address::Unix(_) => false,
            Address::Sentinel(sentinel) => {
                sentinel.username = self.sentinel_user;
                sentinel.password = self.sentinel_password;
                sentinel.tls
            }
        };
        if !has_tls && endpoint.tls != TlsFiles::default() {
            keys.error_at("url", "there are certificates but no TLS; write rediss://");
        }
        Some(endpoint)
    }
}
