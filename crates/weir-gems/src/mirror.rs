//! Gems of other indexes: their index is copied and kept up to date, their files are fetched when
//! they are asked for, and both are served while they are away.
//!
//! - [`read`]: their texts, which anybody may have written; `client`: HTTP to them;
//! - `versions`, `infos`: the index, whole and then what has changed; `files`: `.gem` files;
//! - [`policy`], `decide`: which names come from where, and which never do;
//! - `hooks`: what upstreams tell us by themselves; `run`: when all of this happens;
//! - [`state`], [`progress`], [`settings`].
//!
//! Promises: a private name (by the policy, or pushed here) is never taken from an upstream, whatever
//! answers or does not; nothing is served from an upstream that was not asked for by its index, and
//! no file with another checksum than that; everything that was taken is whole, and a mirror that is
//! killed goes on where it was.

mod claims;
mod client;
mod decide;
mod door;
mod enforce;
mod error;
mod files;
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
mod upstream;
mod versions;

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::Notify;
use weir_base::clock::Clock;

pub use self::door::{Fetched, HookAnswer, HookRoute, MirrorDoor};
pub use self::enforce::PolicyChangeError;
pub use self::error::{MirrorError, Problem};
use self::files::Flights;
pub use self::files::{EagerFiles, FileError};
pub use self::hooks::HooksDone;
use self::hooks::Inbox;
pub use self::infos::Work;
pub use self::look::{Looked, Scope};
use self::policy::{Policy, PolicyError};
use self::settings::{MirrorLimits, MirrorSettings, UPSTREAMS_MAX, UpstreamName};
use self::state::{MirrorState, REFUSED_NAMES_MAX, UpstreamState};
use self::upstream::{Upstream, upstreams};
pub use self::versions::Read;
use crate::files::Files;
use crate::metrics::MirrorMetrics;
use crate::package::PackageLimits;
use crate::store::StoreError;
use crate::store::mirror::MirrorStore;

/// What a mirror is made of.
#[derive(Debug)]
pub struct MirrorParts<S> {
    /// The one that the gems are served from ([`crate::Gems::shared_store`]).
    pub store: Arc<S>,
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
pub struct Mirror<S> {
    store: Arc<S>,
    files: Files,
    package: PackageLimits,
    policy: ArcSwap<Policy>,
    settings: MirrorSettings,
    limits: MirrorLimits,
    clock: Clock,
    metrics: MirrorMetrics,
    /// In their order.
    upstreams: Vec<Upstream>,
    /// tokio: read while an upstream is looked at, written while what an earlier policy let in is
    /// taken away.
    enforced: tokio::sync::RwLock<Enforced>,
    inbox: Inbox,
    flights: Flights,
    /// Rung after each look at all upstreams.
    looked: Notify,
}

/// Whether what was mirrored under an earlier policy has been looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Enforced {
    No,
    Yes,
}

impl<S> fmt::Debug for Mirror<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Mirror").field("upstreams", &self.upstreams).finish_non_exhaustive()
    }
}

impl<S: MirrorStore> Mirror<S> {
    /// Puts a mirror together. It does nothing until it is asked, or [`Mirror::run`].
    ///
    /// # Errors
    /// The settings contradict each other, or the policy.
    pub fn new(parts: MirrorParts<S>) -> Result<Arc<Self>, MirrorSetupError> {
        let MirrorParts { store, files, settings, policy, package, clock, metrics } = parts;
        let upstreams = upstreams(&settings, &metrics)?;
        let names: Vec<_> = upstreams.iter().map(|upstream| upstream.name.clone()).collect();
        policy.check(&names)?;
        Ok(Arc::new(Self {
            flights: Flights::new(settings.limits.file_fetches_max),
            inbox: Inbox::default(),
            looked: Notify::new(),
            limits: settings.limits.clone(),
            policy: ArcSwap::from_pointee(policy),
            enforced: tokio::sync::RwLock::new(Enforced::No),
            store,
            files,
            package,
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
    pub async fn state(&self) -> Result<MirrorState, StoreError> {
        let mut state = MirrorState {
            hooks_waiting: self.store.waiting_hooks().await?,
            ..MirrorState::default()
        };
        for upstream in &self.upstreams {
            let name = upstream.name.as_str();
            let counts = self.store.counts(name).await?;
            let refused = self.store.refused(name, REFUSED_NAMES_MAX).await?;
            let (requests, received_bytes) = upstream.metrics.traffic();
            let known = upstream.state();
            state.upstreams.push(UpstreamState {
                counts,
                refused,
                requests,
                received_bytes,
                ..known
            });
        }
        Ok(state)
    }

    /// Whether all of these upstreams have answered lately.
    fn is_known(&self, names: &[UpstreamName]) -> bool {
        let now = self.clock.now();
        let upstreams = self.upstreams.iter().filter(|upstream| names.contains(&upstream.name));
        let mut states = upstreams.map(Upstream::state);
        states.all(|state| {
            let is_recent =
                state.last_look.is_some_and(|at| now.since(at) <= self.settings.interval * 2);
            is_recent && state.last_error.is_none()
        })
    }

    fn upstream(&self, name: &str) -> Option<&Upstream> {
        self.upstreams.iter().find(|upstream| upstream.name.as_str() == name)
    }
}
