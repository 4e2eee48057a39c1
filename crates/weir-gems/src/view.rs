//! What operators may see: plain data, for the admin API, the console and the command line.

mod mirror;

use serde::{Deserialize, Serialize};
use weir_base::clock::Timestamp;

pub use self::mirror::{
    LookView, MirrorView, PhaseView, ProgressView, ReadView, RefusedView, ReplacedView,
    UpstreamView,
};
use crate::store::{Key, Scope};

/// The index as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overview {
    /// Gems that have a release.
    pub gems: u64,
    /// Bytes of `/versions`, which a new client fetches.
    pub versions_bytes: u64,
    /// Its digest: two indexes with the same one have the same gems.
    pub versions_md5: String,
    /// Endpoints that are switched off.
    pub switched_off: Vec<String>,
}

/// Names of gems, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamePage {
    pub names: Vec<String>,
    /// How many there are in all pages.
    pub total: u64,
    /// Names behind this one are on the next page; None: there is none.
    pub next: Option<String>,
}

/// A gem with its releases, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GemView {
    pub name: String,
    /// Not all, if there are more than were asked for.
    pub releases: Vec<ReleaseView>,
    pub releases_total: usize,
    /// Downloads of all of them, here.
    pub downloads: u64,
}

/// A release that is not yanked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseView {
    pub number: String,
    /// `ruby`: any.
    pub platform: String,
    pub dependencies: Vec<DependencyView>,
    /// Of its file, in hex.
    pub sha256: String,
    /// The Rubies that it runs on; None: any. For RubyGems likewise.
    pub ruby: Option<String>,
    pub rubygems: Option<String>,
    /// Length of its file; None: it was imported, and its file is elsewhere.
    pub bytes: Option<u64>,
    /// How often its file was downloaded here.
    pub downloads: u64,
}

/// What a release needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DependencyView {
    pub name: String,
    /// `>= 2.0, < 3`
    pub requirement: String,
}

/// The gems that need a gem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependents {
    /// In order; not all, if there are more than were asked for.
    pub names: Vec<String>,
    pub total: u64,
}

/// A line at the end of `/versions`: what has changed of a gem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeView {
    pub name: String,
    /// `1.0`, `1.0-java`
    pub pushed: Vec<String>,
    pub yanked: Vec<String>,
    /// Versions of the line that are not told.
    pub more: usize,
}

/// How it is with an endpoint of webhooks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndpointView {
    pub name: String,
    /// Events that it has not got.
    pub waiting: u64,
    /// When the oldest of them happened; seconds since the Unix epoch, as all times here.
    pub oldest_at: Option<f64>,
    /// Attempts that failed since the last that did not.
    pub failures: u32,
    /// When the next attempt is due.
    pub due_at: f64,
}

/// An API key, without its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyView {
    pub id: u64,
    pub name: String,
    pub scopes: Vec<Scope>,
    /// Patterns of names; none: all gems.
    pub gems: Vec<String>,
    /// Seconds since the Unix epoch.
    pub created_at: f64,
    /// None: it does not expire.
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
