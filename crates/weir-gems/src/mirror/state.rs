//! How a mirror is, for pages and commands.

use std::time::Duration;

use weir_base::clock::Timestamp;

use super::look::Looked;
use super::progress::SyncProgress;
use crate::store::mirror::{MirrorCounts, Refusal, ReplacedRelease};

/// How a mirror is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorState {
    /// In their order.
    pub upstreams: Vec<UpstreamState>,
    pub hooks_waiting: u64,
    /// The newest round of looks that all upstreams have had ([`super::Mirror::request_synchronization`]).
    pub rounds_done: u64,
    /// When this mirror was put together: another one counts anew.
    pub started: Timestamp,
}

/// How it is with one upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamState {
    pub name: String,
    pub url: String,
    /// What is being done; None: nothing.
    pub progress: Option<SyncProgress>,
    pub last_look: Option<Timestamp>,
    /// When its `/versions` was read; None: not yet, or it could not be read the last time.
    pub last_listed: Option<Timestamp>,
    /// When all that it had was here; kept over restarts, as the next.
    pub last_success: Option<Timestamp>,
    /// When all of `/versions` was compared.
    pub last_compared: Option<Timestamp>,
    /// Of the last look, if it came to nothing.
    pub last_error: Option<String>,
    /// Why a name could not be brought up to date by the last look, if there was one: of the last such.
    pub last_miss: Option<String>,
    /// Names that the upstream does not give out though it lists them; the first of the last look.
    pub denied_names: Vec<String>,
    /// Of the last look that came to something.
    pub last_result: Option<Looked>,
    pub counts: MirrorCounts,
    /// Names that it lists and that are not taken from it, at most [`REFUSED_NAMES_MAX`]: among them
    /// those of ours that somebody has published there.
    pub refused: Vec<(String, Refusal)>,
    /// Releases whose file it has replaced and that are kept out, at most [`REPLACED_RELEASES_MAX`].
    pub replaced: Vec<ReplacedRelease>,
    /// Since the start.
    pub requests: u64,
    pub received_bytes: u64,
}

/// Names that a state tells.
pub const REFUSED_NAMES_MAX: usize = 100;
/// Releases with a replaced file that a state tells.
pub const REPLACED_RELEASES_MAX: usize = 100;
/// The same for those that are denied.
pub const DENIED_NAMES_MAX: usize = 5;

impl UpstreamState {
    /// For how long what is here may have been out of date; None: it was never up to date.
    #[must_use]
    pub fn staleness(&self, now: Timestamp) -> Option<Duration> {
        self.last_success.map(|at| now.since(at))
    }
}
