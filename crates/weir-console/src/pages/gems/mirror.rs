//! The upstreams of a mirror.

use weir_gems::view::{
    MirrorView, PhaseView, ProgressView, RefusedView, ReplacedView, UpstreamView,
};

use crate::figures;
use crate::visible::visible;

/// Limit of rejected names, of all upstreams, on the page.
const REFUSED_MAX: usize = 20;
/// Limit of blocked versions on the page.
const REPLACED_MAX: usize = 20;
/// Digits of a digest on the page.
const DIGITS: usize = 12;

pub(super) struct MirrorPart {
    pub(super) upstreams: Vec<UpstreamRow>,
    pub(super) hooks: String,
    /// Own names that upstreams have, too.
    pub(super) refused: Vec<RefusedNameRow>,
    /// Versions whose file an upstream has replaced.
    pub(super) replaced: Vec<ReplacedReleaseRow>,
    /// The total number of those versions.
    pub(super) replaced_total: String,
}

pub(super) struct ReplacedReleaseRow {
    pub(super) release: String,
    pub(super) upstream: String,
    pub(super) since: String,
    /// Prefixes of digests.
    pub(super) pinned: String,
    pub(super) offered: String,
}

pub(super) struct UpstreamRow {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) up_to_date: String,
    pub(super) names: String,
    pub(super) pending: String,
    pub(super) refused: String,
    pub(super) now: String,
    /// None: the last poll succeeded.
    pub(super) error: Option<String>,
}

pub(super) struct RefusedNameRow {
    pub(super) name: String,
    pub(super) upstream: String,
    pub(super) reason: &'static str,
}

impl MirrorPart {
    pub(super) fn new(view: MirrorView, now: f64) -> Self {
        let refused = view.upstreams.iter().flat_map(|upstream| {
            upstream
                .refused_names
                .iter()
                .filter_map(|refused_name| RefusedNameRow::new(refused_name, &upstream.name))
        });
        let replaced = view.upstreams.iter().flat_map(|upstream| {
            let all = upstream.replaced_releases.iter();
            all.map(|it| ReplacedReleaseRow::new(it, &upstream.name, now))
        });
        let replaced_total = view.upstreams.iter().map(|upstream| upstream.replaced).sum();
        Self {
            replaced: replaced.take(REPLACED_MAX).collect(),
            replaced_total: figures::counted(replaced_total, "version"),
            refused: refused.take(REFUSED_MAX).collect(),
            hooks: figures::counted(view.hooks_waiting, "webhook"),
            upstreams: view
                .upstreams
                .into_iter()
                .map(|upstream| UpstreamRow::new(upstream, now))
                .collect(),
        }
    }
}

impl UpstreamRow {
    fn new(upstream: UpstreamView, now: f64) -> Self {
        let progress = upstream.last_success_at.map(|progress| figures::relative(now, progress));
        Self {
            up_to_date: progress.unwrap_or_else(|| "never".to_owned()),
            names: figures::count(upstream.names),
            pending: figures::count(upstream.pending),
            refused: figures::count(upstream.refused),
            now: upstream.progress.as_ref().map_or_else(|| "idle".to_owned(), phase_text),
            error: upstream.last_error.map(|error| visible(&error).into_owned()),
            name: upstream.name,
            url: upstream.url,
        }
    }
}

fn phase_text(progress: &ProgressView) -> String {
    let phase = match progress.phase {
        PhaseView::Versions => "reading /versions",
        PhaseView::Gems => "reading gems",
        PhaseView::Files => "fetching files",
    };
    match progress.total {
        Some(total) if total > 0 => format!("{phase}: {} %", progress.done * 100 / total),
        _ => phase.to_owned(),
    }
}

impl ReplacedReleaseRow {
    fn new(release: &ReplacedView, upstream: &str, now: f64) -> Self {
        let beginning = |digest: &str| digest.chars().take(DIGITS).collect();
        let ReplacedView { name, number, platform, .. } = release;
        Self {
            release: visible(&format!("{name} {number} ({platform})")).into_owned(),
            upstream: upstream.to_owned(),
            since: figures::relative(now, release.since),
            pinned: beginning(&release.pinned_sha256),
            offered: beginning(&release.offered_sha256),
        }
    }
}

impl RefusedNameRow {
    /// Returns the row of a name. None: the name belongs to another upstream, which is not an
    /// error.
    fn new(refused: &RefusedView, upstream: &str) -> Option<Self> {
        let reason = match refused.reason.as_str() {
            "policy" => "private by the policy",
            "local" => "pushed or imported here",
            "lookalike" => "too similar to a name that was pushed or imported here",
            _ => return None,
        };
        let name = visible(&refused.name).into_owned();
        Some(Self { name, upstream: upstream.to_owned(), reason })
    }
}
