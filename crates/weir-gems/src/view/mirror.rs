//! The state of a mirror for operators.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_base::clock::Timestamp;

use crate::mirror::progress::{Phase, SyncProgress};
use crate::mirror::state::{MirrorState, UpstreamState};
use crate::mirror::{Looked, Read};
use crate::store::mirror::{Refusal, ReplacedRelease};

/// A mirror.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MirrorView {
    /// Upstreams in the order of the settings.
    pub upstreams: Vec<UpstreamView>,
    /// Number of webhooks in the inbox.
    pub hooks_waiting: u64,
    /// The newest round of synchronizations that is done for all upstreams. The first round starts
    /// by itself.
    pub rounds_done: u64,
    /// When this mirror was started; rounds are counted from then on. In seconds since the Unix
    /// epoch, as all times here.
    pub started_at: f64,
}

/// State of one upstream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UpstreamView {
    pub name: String,
    pub url: String,
    /// Progress of the synchronization in progress; None if there is none.
    pub progress: Option<ProgressView>,
    pub last_look_at: Option<f64>,
    /// When everything it had was last here; None if that never was.
    pub last_success_at: Option<f64>,
    /// Seconds since then.
    pub staleness_seconds: Option<f64>,
    /// When all of its `/versions` was last compared.
    pub last_compared_at: Option<f64>,
    /// Error of the last synchronization, if it failed.
    pub last_error: Option<String>,
    /// Why a name could not be updated by the last synchronization; None if all were.
    pub last_miss: Option<String>,
    /// Names that it lists but denies access to; the first ones of the last synchronization.
    pub denied_names: Vec<String>,
    /// Outcome of the last successful synchronization.
    pub last_result: Option<LookView>,
    /// Number of names that it lists.
    pub names: u64,
    /// Number of pending names.
    pub pending: u64,
    /// Number of names that it lists and that are rejected.
    pub refused: u64,
    /// Some of the rejected names.
    pub refused_names: Vec<RefusedView>,
    /// Number of releases whose file it has replaced without a new version. They are rejected until
    /// an operator accepts them.
    #[serde(default)]
    pub replaced: u64,
    /// Some of these releases.
    #[serde(default)]
    pub replaced_releases: Vec<ReplacedView>,
    /// Number of requests since the start.
    pub requests: u64,
    pub received_bytes: u64,
}

/// Progress of a synchronization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgressView {
    pub phase: PhaseView,
    pub done: u64,
    /// The total, or None if it is unknown.
    pub total: Option<u64>,
}

/// Current step, and the unit of its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PhaseView {
    /// Reading `/versions`; in bytes.
    Versions,
    /// Updating gems; in names.
    Gems,
    /// Fetching `.gem` files; in files.
    Files,
}

/// Outcome of a synchronization.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LookView {
    pub read: ReadView,
    /// Number of names that were updated, including those pending from earlier.
    pub names: u64,
    /// Numbers of versions that were added, removed and changed.
    pub added: u64,
    pub yanked: u64,
    pub changed: u64,
    /// Number of names that were rejected.
    pub refused: u64,
    /// Number of names that wait for an earlier upstream that is unavailable.
    pub waiting: u64,
    /// Number of names that could not be updated; they are tried again.
    pub failed: u64,
    /// Number of names that the upstream lists but denies access to (401, 403); they are tried
    /// again.
    pub denied: u64,
    /// Number of unusable lines.
    pub left_out: u64,
    /// Numbers of `.gem` files, if they are fetched eagerly.
    pub files: u64,
    pub files_failed: u64,
    pub requests: u64,
    pub received_bytes: u64,
    pub seconds: f64,
}

/// How much of `/versions` was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReadView {
    Unchanged,
    Tail,
    Whole,
}

/// A rejected name and the reason: `policy`, `local`, `bound`, `shadowed`, `former`, `lookalike`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedView {
    pub name: String,
    pub reason: String,
}

/// A release whose file an upstream has replaced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplacedView {
    pub name: String,
    pub number: String,
    pub platform: String,
    /// Checksum of the first file, in hex. That file is served if it was fetched.
    pub pinned_sha256: String,
    /// Checksum of the file that the upstream has now.
    pub offered_sha256: String,
    /// When the new file was first seen.
    pub since: f64,
}

impl MirrorView {
    /// Returns the view of a state at the time `now`.
    #[must_use]
    pub fn of(state: MirrorState, now: Timestamp) -> Self {
        let MirrorState { upstreams, hooks_waiting, rounds_done, started } = state;
        Self {
            upstreams: upstreams.into_iter().map(|it| UpstreamView::of(it, now)).collect(),
            hooks_waiting,
            rounds_done,
            started_at: started.as_secs_f64(),
        }
    }
}

impl UpstreamView {
    fn of(state: UpstreamState, now: Timestamp) -> Self {
        let seconds = |at: Option<Timestamp>| at.map(Timestamp::as_secs_f64);
        Self {
            staleness_seconds: state.staleness(now).map(|it| it.as_secs_f64()),
            name: state.name,
            url: state.url,
            progress: state.progress.as_ref().map(ProgressView::of),
            last_look_at: seconds(state.last_look),
            last_success_at: seconds(state.last_success),
            last_compared_at: seconds(state.last_compared),
            last_error: state.last_error,
            last_miss: state.last_miss,
            denied_names: state.denied_names,
            last_result: state.last_result.as_ref().map(LookView::of),
            names: state.counts.names,
            pending: state.counts.pending,
            refused: state.counts.refused,
            refused_names: state.refused.into_iter().map(RefusedView::of).collect(),
            replaced: state.counts.replaced,
            replaced_releases: state.replaced.into_iter().map(ReplacedView::of).collect(),
            requests: state.requests,
            received_bytes: state.received_bytes,
        }
    }
}

impl ProgressView {
    /// Returns the view of a progress.
    #[must_use]
    pub const fn of(progress: &SyncProgress) -> Self {
        let phase = match progress.phase {
            Phase::Versions => PhaseView::Versions,
            Phase::Gems => PhaseView::Gems,
            Phase::Files => PhaseView::Files,
        };
        Self { phase, done: progress.done, total: progress.total }
    }
}

impl LookView {
    /// Returns the view of an outcome.
    #[must_use]
    pub fn of(looked: &Looked) -> Self {
        let Looked { read, work, left_out, files, requests, received_bytes, took } = looked;
        Self {
            read: match read {
                Read::Unchanged => ReadView::Unchanged,
                Read::Tail(_) => ReadView::Tail,
                Read::Whole(_) => ReadView::Whole,
            },
            names: work.applied.gems,
            added: work.applied.added,
            yanked: work.applied.yanked,
            changed: work.applied.changed,
            refused: work.refused,
            waiting: work.waiting,
            failed: work.failed + work.mismatched,
            denied: work.denied,
            left_out: *left_out,
            files: files.fetched,
            files_failed: files.failed,
            requests: *requests,
            received_bytes: *received_bytes,
            seconds: took.as_secs_f64(),
        }
    }
}

impl ReplacedView {
    pub(crate) fn of(release: ReplacedRelease) -> Self {
        let ReplacedRelease { name, identity, pinned, offered, since } = release;
        Self {
            name: name.to_string(),
            number: identity.number.to_string(),
            platform: identity.platform.to_string(),
            pinned_sha256: pinned.to_string(),
            offered_sha256: offered.to_string(),
            since: since.as_secs_f64(),
        }
    }
}

impl RefusedView {
    fn of((name, reason): (String, Refusal)) -> Self {
        Self { name, reason: reason.name().to_owned() }
    }
}
