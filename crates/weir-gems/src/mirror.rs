//! Mirrors other gem indexes: copies an index and keeps it up to date, fetches files on request,
//! and serves both while the upstream is unavailable.
//!
//! - [`read`]: parses the upstream's texts, which are untrusted; `client`: sends HTTP requests;
//! - `versions`, `infos`: synchronize the index, first all of it, then changes; `gone`: limits how
//!   much of it may disappear at once; `files`: fetches `.gem` files;
//! - [`policy`], `decide`: determine which names may come from which upstream;
//! - `hooks`: processes webhooks from upstreams; `run`: schedules synchronization; `asked`: runs it
//!   earlier on request; `together`: runs it once, for a command;
//! - [`state`], [`progress`], [`settings`].
//!
//! Guarantees:
//! - A private name (by the policy, or because it was pushed here), or a name that could be
//!   confused with it, is never taken from an upstream, whether or not that upstream is reachable.
//! - A gem is served only from the upstream whose index lists it. A file is served only if its
//!   checksum is the one in that index and the one the release had at first, unless an operator
//!   accepts the change.
//! - Data is stored only when complete. A mirror that is killed continues where it stopped.

mod asked;
mod claims;
mod client;
mod decide;
mod door;
mod enforce;
mod error;
mod files;
mod gone;
mod hooks;
mod infos;
mod look;
pub mod policy;
pub mod prefix;
pub mod progress;
pub mod read;
mod run;
pub mod settings;
pub mod state;
mod together;
mod upstream;
pub mod upstream_name;
mod versions;

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use weir_base::clock::{Clock, Timestamp};

use self::asked::Asked;
pub use self::door::{Accepted, Fetched, HookAnswer, HookRoute, MirrorDoor, Viewed};
pub use self::enforce::PolicyChangeError;
pub use self::error::{MirrorError, Problem};
use self::files::Flights;
pub use self::files::{EagerFiles, FileError, forget_file};
pub use self::hooks::HooksDone;
use self::hooks::Inbox;
pub use self::infos::Work;
pub use self::look::{Looked, Scope};
use self::policy::{Policy, PolicyError};
use self::settings::{MirrorLimits, MirrorSettings, UPSTREAMS_MAX};
use self::state::{MirrorState, REFUSED_NAMES_MAX, REPLACED_RELEASES_MAX, UpstreamState};
use self::upstream::{Upstream, upstreams};
use self::upstream_name::UpstreamName;
pub use self::versions::Read;
use crate::files::Files;
use crate::metrics::MirrorMetrics;
use crate::name::GemName;
use crate::package::PackageLimits;
use crate::release::Identity;
use crate::store::mirror::ReplacedRelease;
use crate::store::{GemStore, StoreError};
use crate::view::MirrorView;

/// Components of a mirror.
#[derive(Debug)]
pub struct MirrorParts {
    /// The store that the gems are served from ([`crate::Gems::shared_store`]).
    pub store: Arc<GemStore>,
    pub files: Files,
    pub settings: MirrorSettings,
    pub policy: Policy,
    /// Limits for the contents of a `.gem` file.
    pub package: PackageLimits,
    pub clock: Clock,
    pub metrics: MirrorMetrics,
}

/// Errors in the settings of a mirror.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum MirrorSetupError {
    #[error("gems.mirror.upstreams has {0} upstreams; there may be 1 to {UPSTREAMS_MAX}")]
    Upstreams(usize),
    #[error("gems.mirror.upstreams has {0} twice; what comes from an upstream belongs to its name")]
    Twice(UpstreamName),
    #[error("gems.mirror.policy: {0}")]
    Policy(#[from] PolicyError),
}

/// A mirror. Share it in an [`Arc`].
pub struct Mirror {
    store: Arc<GemStore>,
    files: Files,
    package: ArcSwap<PackageLimits>,
    policy: ArcSwap<Policy>,
    settings: MirrorSettings,
    limits: MirrorLimits,
    clock: Clock,
    metrics: MirrorMetrics,
    /// Upstreams in the order of the settings.
    upstreams: Vec<Upstream>,
    /// A tokio lock: held for reading while changes are decided or applied, and for writing while
    /// gems that only an earlier policy allowed are removed.
    enforced: tokio::sync::RwLock<Enforced>,
    inbox: Inbox,
    flights: Flights,
    asked: Asked,
    started: Timestamp,
}

/// Whether gems that were mirrored under an earlier policy have been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Enforced {
    No,
    Yes,
}

impl fmt::Debug for Mirror {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Mirror").field("upstreams", &self.upstreams).finish_non_exhaustive()
    }
}

impl Mirror {
    /// Creates a mirror. It does nothing until a method such as [`Mirror::run`] is called. The
    /// policy may name upstreams that are not in the settings; their names are then taken from no
    /// upstream.
    ///
    /// # Errors
    /// Fails if the settings contradict each other.
    pub fn new(parts: MirrorParts) -> Result<Arc<Self>, MirrorSetupError> {
        let MirrorParts { store, files, settings, policy, package, clock, metrics } = parts;
        settings.check_upstreams()?;
        let upstreams = upstreams(&settings, &metrics);
        Ok(Arc::new(Self {
            flights: Flights::default(),
            inbox: Inbox::default(),
            asked: Asked::new(upstreams.len()),
            started: clock.now(),
            limits: settings.limits.clone(),
            policy: ArcSwap::from_pointee(policy),
            enforced: tokio::sync::RwLock::new(Enforced::No),
            store,
            files,
            package: ArcSwap::from_pointee(package),
            settings,
            clock,
            metrics,
            upstreams,
        }))
    }

    /// Returns the state of the mirror and its upstreams.
    pub fn state(&self) -> BoxFuture<'_, Result<MirrorState, StoreError>> {
        Box::pin(async move {
            let mut state = MirrorState {
                upstreams: Vec::new(),
                hooks_waiting: self.store.waiting_hooks().await?,
                rounds_done: self.asked.rounds_done(),
                started: self.started,
            };
            for upstream in &self.upstreams {
                let name = upstream.name.as_str();
                let known = upstream.state();
                // Counting reads all names, so the counts of the last synchronization are reused.
                let counts = match known.last_look {
                    Some(_) => known.counts,
                    None => self.store.counts(name).await?,
                };
                let refused = self.store.refused(name, REFUSED_NAMES_MAX).await?;
                let replaced = self.store.replaced(name, REPLACED_RELEASES_MAX).await?;
                let (requests, received_bytes) = upstream.metrics.traffic();
                state.upstreams.push(UpstreamState {
                    counts,
                    refused,
                    replaced,
                    requests,
                    received_bytes,
                    ..known
                });
            }
            Ok(state)
        })
    }

    /// Returns the state of the mirror for operators.
    pub fn view(&self) -> BoxFuture<'_, Result<MirrorView, StoreError>> {
        Box::pin(async move { Ok(MirrorView::of(self.state().await?, self.clock.now())) })
    }

    /// Replaces the limits for files that are fetched from now on.
    pub fn set_package_limits(&self, limits: PackageLimits) {
        self.package.store(Arc::new(limits));
    }

    /// Requests that [`Mirror::run`] synchronizes all upstreams as soon as possible. Returns a
    /// number; the request is done when [`MirrorState::rounds_done`] reaches it.
    pub fn request_synchronization(&self, scope: Scope) -> u64 {
        self.asked.request_synchronization(scope)
    }

    /// Accepts the changed file of a release that was rejected because its checksum differs from
    /// the earlier one. Requests a synchronization, which then adds the release. If the upstream
    /// changes the file once more, it is rejected again. Returns None if no such release is
    /// rejected.
    pub fn accept<'a>(
        &'a self,
        name: &'a GemName,
        identity: &'a Identity,
    ) -> BoxFuture<'a, Result<Option<ReplacedRelease>, StoreError>> {
        Box::pin(async move {
            let accepted = self.store.accept(name, identity).await?;
            if let Some(ReplacedRelease { pinned, offered, .. }) = &accepted {
                let gem = format!("{name}-{identity}");
                tracing::info!(gem, %pinned, %offered, "an operator has accepted a replaced release");
                for upstream in &self.upstreams {
                    self.count(upstream).await?;
                }
                self.request_synchronization(Scope::Changes);
            }
            Ok(accepted)
        })
    }

    /// Returns whether all names that these upstreams list have been recorded recently.
    fn is_known(&self, names: &[UpstreamName]) -> bool {
        let now = self.clock.now();
        let mut listed = self.those(names).map(|upstream| upstream.state().last_listed);
        listed.all(|at| at.is_some_and(|at| now.since(at) <= self.settings.interval * 2))
    }

    fn those(&self, names: &[UpstreamName]) -> impl Iterator<Item = &Upstream> {
        self.upstreams.iter().filter(|upstream| names.contains(&upstream.name))
    }

    fn upstream(&self, name: &str) -> Option<&Upstream> {
        self.upstreams.iter().find(|upstream| upstream.name.as_str() == name)
    }
}
