//! `[[observe.redis]]`, `[[jobs.store.redis]]`, `[[realtime.broker.redis]]`: one Redis, or each of several shards.

use std::path::PathBuf;

use weir_base::secret::Secret;
use weir_redis::{RedisAddress, RedisEndpoint, TlsFiles};

use weir_settings::{Section, TableReader};

/// As it is in the file.
#[derive(Debug, Section)]
#[section(restart)]
struct Redis {
    /// The Redis: redis://[USER@]HOST[:PORT][/DATABASE], rediss://.. (TLS), unix:///PATH,
    /// redis+sentinel://HOST[,HOST]/SERVICE; without a password.
    #[setting(required_text)]
    url: String,
    /// Its password. None: it needs none. A file is read again for each connection.
    password: Option<Secret>,
    /// PEM file: certificate authorities for its certificate. None: those that the system trusts.
    /// Certificates and keys are read again for each connection.
    ca: Option<PathBuf>,
    /// PEM file: the certificate to present to it, with key.
    cert: Option<PathBuf>,
    /// PEM file: the key of cert.
    key: Option<PathBuf>,
    /// User of the Sentinels.
    sentinel_user: Option<String>,
    /// Password of the Sentinels. A file is read again for each connection.
    sentinel_password: Option<Secret>,
}

/// Reads the table. None: an error was reported.
pub(crate) fn read(table: &mut TableReader<'_>) -> Option<RedisEndpoint> {
    let mut redis = Redis::default();
    redis.read(table);
    redis.endpoint(table)
}

/// Returns why servers with these names are not several shards.
pub(crate) fn shards_problem(
    shards: &[(&str, &RedisEndpoint)],
    shards_max: usize,
) -> Option<String> {
    if shards.len() > shards_max {
        return Some(format!("at most {shards_max} servers"));
    }
    let database = |endpoint: &RedisEndpoint| (endpoint.address.clone(), endpoint.database);
    for (place, (name, endpoint)) in shards.iter().enumerate() {
        let mut before = shards[..place].iter();
        if before.clone().any(|(_, other)| database(other) == database(endpoint)) {
            return Some(format!("{endpoint} is given twice; remove one"));
        }
        if before.any(|(other, _)| other == name) {
            return Some(format!("two servers have the name {name:?}; each needs its own"));
        }
    }
    None
}

/// Returns the secrets, for comparison. Those in files count by their path: a new text needs no
/// restart.
pub(crate) fn secrets(endpoint: &RedisEndpoint) -> [Option<Secret>; 2] {
    let by_source = |secret: Secret| match secret.file() {
        Some(path) => Secret::new(path.display().to_string()),
        None => secret,
    };
    let of_sentinels = match &endpoint.address {
        RedisAddress::Sentinel(sentinel) => sentinel.password.clone(),
        RedisAddress::Tcp { .. } | RedisAddress::Unix(_) => None,
    };
    [endpoint.password.clone(), of_sentinels].map(|secret| secret.map(by_source))
}

impl Redis {
    fn endpoint(self, table: &mut TableReader<'_>) -> Option<RedisEndpoint> {
        if self.url.is_empty() {
            return None;
        }
        let mut endpoint = match RedisEndpoint::parse(&self.url) {
            Ok(endpoint) => endpoint,
            Err(error) => {
                table.error_at("url", &error.to_string());
                return None;
            }
        };
        if self.cert.is_some() != self.key.is_some() {
            let lacks = if self.cert.is_some() { "key" } else { "cert" };
            table.error_at(lacks, "cert and key go together");
        }
        endpoint.password = self.password;
        endpoint.tls = TlsFiles { authority: self.ca, client: self.cert.zip(self.key) };
        let has_tls = match &mut endpoint.address {
            RedisAddress::Tcp { tls, .. } => *tls,
            RedisAddress::Unix(_) => false,
            RedisAddress::Sentinel(sentinel) => {
                sentinel.username = self.sentinel_user;
                sentinel.password = self.sentinel_password;
                sentinel.tls
            }
        };
        if !has_tls && endpoint.tls != TlsFiles::default() {
            table.error_at("url", "certificates need TLS; write rediss:// instead of redis://");
        }
        Some(endpoint)
    }
}
