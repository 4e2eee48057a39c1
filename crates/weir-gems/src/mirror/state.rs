//! The state of a mirror, for pages and commands.

use std::time::Duration;

use weir_base::clock::Timestamp;

use super::look::Looked;
use super::progress::SyncProgress;
use crate::store::mirror::{MirrorCounts, Refusal, ReplacedRelease};

/// State of a mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorState {
    /// Upstreams in the order of the settings.
    pub upstreams: Vec<UpstreamState>,
    pub hooks_waiting: u64,
    /// The newest round of synchronizations that is done for all upstreams
    /// ([`super::Mirror::request_synchronization`]).
    pub rounds_done: u64,
    /// When this mirror was created. Rounds are counted from then on.
    pub started: Timestamp,
}

/// State of one upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamState {
    pub name: String,
    pub url: String,
    /// Progress of the synchronization in progress, if there is one.
    pub progress: Option<SyncProgress>,
    pub last_look: Option<Timestamp>,
    /// When its `/versions` was read; None if it never was, or the last attempt failed.
    pub last_listed: Option<Timestamp>,
    /// When everything it had was last here; kept across restarts.
    pub last_success: Option<Timestamp>,
    /// When all of `/versions` was last compared; kept across restarts.
    pub last_compared: Option<Timestamp>,
    /// Error of the last synchronization, if it failed.
    pub last_error: Option<String>,
    /// Why a name could not be updated by the last synchronization; the last such reason.
    pub last_miss: Option<String>,
    /// Names that the upstream lists but denies access to; the first ones of the last
    /// synchronization.
    pub denied_names: Vec<String>,
    /// Outcome of the last successful synchronization.
    pub last_result: Option<Looked>,
    pub counts: MirrorCounts,
    /// Names that it lists and that are rejected, at most [`REFUSED_NAMES_MAX`]. They include
    /// private names that are published there.
    pub refused: Vec<(String, Refusal)>,
    /// Releases that are rejected because the upstream has replaced their file, at most
    /// [`REPLACED_RELEASES_MAX`].
    pub replaced: Vec<ReplacedRelease>,
    /// Number of requests since the start.
    pub requests: u64,
    pub received_bytes: u64,
}

/// Maximum number of rejected names in a state.
pub const REFUSED_NAMES_MAX: usize = 100;
/// Maximum number of releases with a replaced file in a state.
pub const REPLACED_RELEASES_MAX: usize = 100;
/// Maximum number of denied names in a state.
pub const DENIED_NAMES_MAX: usize = 5;

impl UpstreamState {
    /// Returns how long the mirror may have been out of date, or None if it was never up to date.
    #[must_use]
    pub fn staleness(&self, now: Timestamp) -> Option<Duration> {
        self.last_success.map(|at| now.since(at))
    }
}
