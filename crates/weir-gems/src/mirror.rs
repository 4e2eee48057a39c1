//! Gems of other indexes: their index is copied and kept up to date, their files are fetched when
//! they are asked for, and both are served while they are away.
//!
//! - [`read`]: their texts, which anybody may have written; `client`: HTTP to them;
//! - `versions`, `infos`: the index, whole and then what has changed; `gone`: how much of it may go at
//!   once; `files`: `.gem` files;
//! - [`policy`], `decide`: which names come from where, and which never do;
//! - `hooks`: what upstreams tell us by themselves; `run`: when all of this happens; `asked`: sooner; `together`: once, for a
//!   command;
//! - [`state`], [`progress`], [`settings`].
//!
//! Promises: a private name (by the policy, or pushed here), or one that could be taken for it, is
//! never taken from an upstream, whatever answers or does not; nothing is served from an upstream that was not asked for by its index, and
//! no file with another checksum than that, nor with another than the release was first seen with unless an
//! operator accepts it; everything that was taken is whole, and a mirror that is
//! killed goes on where it was.

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

/// What a mirror is made of.
#[derive(Debug)]
pub struct MirrorParts {
    /// The one that the gems are served from ([`crate::Gems::shared_store`]).
    pub store: Arc<GemStore>,
    pub files: Files,
    pub settings: MirrorSettings,
    pub policy: Policy,
    /// What a `.gem` file may have.
    pub package: PackageLimits,
    pub clock: Clock,
    pub metrics: MirrorMetrics,
}

/// What is wrong with a mirror's settings.
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
    /// In their order.
    upstreams: Vec<Upstream>,
    /// tokio: read while something is decided or applied, written while what an earlier policy let
    /// in is taken away.
    enforced: tokio::sync::RwLock<Enforced>,
    inbox: Inbox,
    flights: Flights,
    asked: Asked,
    started: Timestamp,
}

/// Whether what was mirrored under an earlier policy has been looked at.
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
    /// Puts a mirror together. It does nothing until it is asked, or [`Mirror::run`]. The policy may
    /// name upstreams that are not its own: their names come from none of its own.
    ///
    /// # Errors
    /// The settings contradict each other.
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

    /// How it is.
    ///
    /// # Errors
    /// The store fails.
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
                // Counting reads all names; each look that changes anything does.
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

    /// The same, for operators.
    ///
    /// # Errors
    /// The store fails.
    pub fn view(&self) -> BoxFuture<'_, Result<MirrorView, StoreError>> {
        Box::pin(async move { Ok(MirrorView::of(self.state().await?, self.clock.now())) })
    }

    /// From now on files may have this.
    pub fn set_package_limits(&self, limits: PackageLimits) {
        self.package.store(Arc::new(limits));
    }

    /// Has all upstreams looked at as soon as possible, by [`Mirror::run`]. The answer has come when
    /// [`MirrorState::rounds_done`] is this number.
    pub fn request_synchronization(&self, scope: Scope) -> u64 {
        self.asked.request_synchronization(scope)
    }

    /// Takes the file that an upstream has now of a release, which was kept out since it is another one
    /// than before. It comes with the next look, which begins as soon as possible; a file that is yet
    /// another one is kept out again. None: no such release is kept out.
    ///
    /// # Errors
    /// The store fails.
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

    /// Whether all that these upstreams list has been noted lately.
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
