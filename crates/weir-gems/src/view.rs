//! Plain data that operators may see, for the admin API, the console and the command line.

mod mirror;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_base::clock::Timestamp;

pub use self::mirror::{
    LookView, MirrorView, PhaseView, ProgressView, ReadView, RefusedView, ReplacedView,
    UpstreamView,
};
use crate::store::{Key, Scope};

/// Summary of the index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Overview {
    /// Number of gems that have a release.
    pub gems: u64,
    /// Size of `/versions` in bytes, which a new client downloads.
    pub versions_bytes: u64,
    /// MD5 of `/versions`; indexes with the same digest have the same gems.
    pub versions_md5: String,
    /// Endpoints that are switched off.
    pub switched_off: Vec<String>,
}

/// One page of gem names, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamePage {
    pub names: Vec<String>,
    /// Number of names on all pages.
    pub total: u64,
    /// Pass this name as `after` to get the next page; None on the last page.
    pub next: Option<String>,
}

/// A gem with its releases, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GemView {
    pub name: String,
    /// The newest releases, up to the requested number.
    pub releases: Vec<ReleaseView>,
    pub releases_total: usize,
    /// Always 0: Weir counts no downloads any more. The field stays for clients of 0.2.
    pub downloads: u64,
}

/// A release that is not yanked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseView {
    pub number: String,
    /// `ruby` for any platform.
    pub platform: String,
    pub dependencies: Vec<DependencyView>,
    /// SHA-256 of its file, in hex.
    pub sha256: String,
    /// Ruby versions that it runs on; None for any. `rubygems` likewise.
    pub ruby: Option<String>,
    pub rubygems: Option<String>,
    /// Size of its file in bytes; None if it was imported without its file.
    pub bytes: Option<u64>,
    /// Always 0, like that of the gem.
    pub downloads: u64,
}

/// A dependency of a release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DependencyView {
    pub name: String,
    /// For example `>= 2.0, < 3`.
    pub requirement: String,
}

/// Delivery state of a webhook endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EndpointView {
    pub name: String,
    /// Number of events not delivered yet.
    pub waiting: u64,
    /// Time of the oldest undelivered event, in seconds since the Unix epoch, as all times here.
    pub oldest_at: Option<f64>,
    /// Number of failed attempts since the last success.
    pub failures: u32,
    /// Time of the next attempt.
    pub due_at: f64,
}

/// An API key, without its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeyView {
    pub id: u64,
    pub name: String,
    pub scopes: Vec<Scope>,
    /// Patterns of gem names; empty for all gems.
    pub gems: Vec<String>,
    /// Seconds since the Unix epoch.
    pub created_at: f64,
    /// Expiry in seconds since the Unix epoch; None if the key does not expire.
    pub expires_at: Option<f64>,
    pub is_expired: bool,
}

impl KeyView {
    pub(crate) fn of(key: &Key, now: Timestamp) -> Self {
        let settings = &key.settings;
        let seconds = |micros| Timestamp::from_micros(micros).as_secs_f64();
        Self {
            id: key.id,
            name: settings.name.clone(),
            scopes: settings.scopes.clone(),
            gems: settings.gems.iter().map(ToString::to_string).collect(),
            created_at: key.created_at.as_secs_f64(),
            expires_at: settings.expires_at_us.map(seconds),
            is_expired: key.is_expired(now),
        }
    }
}
