//! A mirror, as operators see it.

use serde::{Deserialize, Serialize};
use weir_base::clock::Timestamp;

use crate::mirror::progress::{Phase, SyncProgress};
use crate::mirror::state::{MirrorState, UpstreamState};
use crate::mirror::{Looked, Read};
use crate::store::mirror::{Refusal, ReplacedRelease};

/// A mirror.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MirrorView {
    /// In their order.
    pub upstreams: Vec<UpstreamView>,
    /// Webhooks in the inbox.
    pub hooks_waiting: u64,
    /// The newest round of looks that all upstreams have had; the first comes by itself.
    pub rounds_done: u64,
    /// When this mirror was started: another one counts anew. Seconds since the Unix epoch, as all
    /// times here.
    pub started_at: f64,
}

/// How it is with one upstream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UpstreamView {
    pub name: String,
    pub url: String,
    /// None: nothing is being done.
    pub progress: Option<ProgressView>,
    pub last_look_at: Option<f64>,
    /// When all that it had was here; None: never.
    pub last_success_at: Option<f64>,
    /// How long ago that is.
    pub staleness_seconds: Option<f64>,
    /// When all of its `/versions` was compared.
    pub last_compared_at: Option<f64>,
    /// Of the last look, if it came to nothing.
    pub last_error: Option<String>,
    /// Why a name could not be brought up to date by the last look; None: all were.
    pub last_miss: Option<String>,
    /// Names that it lists and does not give out; the first of the last look.
    pub denied_names: Vec<String>,
    /// Of the last look that came to something.
    pub last_result: Option<LookView>,
    /// Names that it lists.
    pub names: u64,
    /// Names that are not up to date.
    pub pending: u64,
    /// Names that it lists and that are not taken from it.
    pub refused: u64,
    /// Some of them.
    pub refused_names: Vec<RefusedView>,
    /// Releases whose file it has replaced under the same version: kept out until an operator accepts
    /// them.
    #[serde(default)]
    pub replaced: u64,
    /// Some of them.
    #[serde(default)]
    pub replaced_releases: Vec<ReplacedView>,
    /// Since the start.
    pub requests: u64,
    pub received_bytes: u64,
}

/// What is being done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressView {
    pub phase: PhaseView,
    pub done: u64,
    /// None: it is not known.
    pub total: Option<u64>,
}

/// What it is about, and counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseView {
    /// Bytes of `/versions`.
    Versions,
    /// Gems that are brought up to date.
    Gems,
    /// `.gem` files.
    Files,
}

/// What came of a look.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LookView {
    pub read: ReadView,
    /// Names that were brought up to date, those that were left from earlier included.
    pub names: u64,
    /// Versions that came, went, and say something else than before.
    pub added: u64,
    pub yanked: u64,
    pub changed: u64,
    /// Names that are not taken from there.
    pub refused: u64,
    /// Names that wait for an upstream that comes earlier and does not answer.
    pub waiting: u64,
    /// Names that could not be brought up to date; they are tried again.
    pub failed: u64,
    /// Names that the upstream lists and does not give out (401, 403); they are tried again.
    pub denied: u64,
    /// Lines that can't be kept.
    pub left_out: u64,
    /// `.gem` files, where a look fetches them.
    pub files: u64,
    pub files_failed: u64,
    pub requests: u64,
    pub received_bytes: u64,
    pub seconds: f64,
}

/// How much of `/versions` was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadView {
    Unchanged,
    Tail,
    Whole,
}

/// A name that is not taken, and why: `policy`, `local`, `bound`, `shadowed`, `former`,
/// `lookalike`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedView {
    pub name: String,
    pub reason: String,
}

/// A release whose file an upstream has replaced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplacedView {
    pub name: String,
    pub number: String,
    pub platform: String,
    /// Of the file as it was first seen, in hexadecimal digits. It is served if it was fetched.
    pub pinned_sha256: String,
    /// Of the file that the upstream has now.
    pub offered_sha256: String,
    /// When that was first seen.
    pub since: f64,
}

impl MirrorView {
    /// As it is at that time.
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
    /// How far a look is.
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
    /// What came of it.
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
