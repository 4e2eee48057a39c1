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

mod backoff;
mod claims;
mod client;
mod decide;
mod door;
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
mod versions;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tokio::sync::Notify;
use weir_base::clock::{Clock, Timestamp};

use self::client::Client;
pub use self::door::{Fetched, HookAnswer, HookRoute, MirrorDoor};
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
pub use self::versions::Read;
use crate::files::Files;
use crate::metrics::{MirrorMetrics, UpstreamMetrics};
use crate::package::PackageLimits;
use crate::store::StoreError;
use crate::store::mirror::{MirrorStore, Origins};

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
    /// tokio: held while upstreams are asked. Whoever changes what is mirrored takes turns.
    turn: tokio::sync::Mutex<Turn>,
    inbox: Inbox,
    flights: Flights,
    /// Rung after each look at all upstreams.
    looked: Notify,
}

/// Known only to who has the turn.
#[derive(Debug, Default)]
struct Turn {
    /// Whether what was mirrored under an earlier policy has been looked at.
    is_policy_enforced: bool,
}

/// An upstream at run time.
#[derive(Debug)]
struct Upstream {
    name: UpstreamName,
    /// Upstreams that come before it.
    earlier: Vec<UpstreamName>,
    client: Arc<Client>,
    metrics: UpstreamMetrics,
    /// std: held to copy it or to change a field.
    state: Mutex<UpstreamState>,
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
            turn: tokio::sync::Mutex::default(),
            store,
            files,
            package,
            settings,
            clock,
            metrics,
            upstreams,
        }))
    }

    /// From now on another policy. What it makes private is taken away before this returns.
    ///
    /// # Errors
    /// The policy names an upstream that there is not (the old one stays), or the store fails (the
    /// new one holds, and what it makes private is taken away with the next look).
    pub async fn set_policy(&self, policy: Policy) -> Result<(), PolicyChangeError> {
        let names: Vec<_> = self.upstreams.iter().map(|upstream| upstream.name.clone()).collect();
        policy.check(&names)?;
        self.policy.store(Arc::new(policy));
        let mut turn = self.turn.lock().await;
        turn.is_policy_enforced = false;
        self.enforce_policy(&mut turn).await?;
        Ok(())
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

    /// Takes away what is private and came from an upstream, and has everything decided anew that
    /// was refused.
    async fn enforce_policy(&self, turn: &mut Turn) -> Result<(), StoreError> {
        if turn.is_policy_enforced {
            return Ok(());
        }
        let policy = self.policy.load_full();
        let mut next = Some(0);
        while let Some(from) = next {
            let Origins { names, next: further } = self.store.origins(from, ORIGINS_PAGE).await?;
            let private: Vec<_> = names
                .into_iter()
                .filter_map(|(name, _)| policy.is_private(name.as_str()).then_some(name))
                .collect();
            if !private.is_empty() {
                tracing::warn!(names = private.len(), "mirrored gems became private and are gone");
                self.store.disown(private, self.clock.now()).await?;
            }
            next = further;
        }
        self.store.reconsider().await?;
        turn.is_policy_enforced = true;
        Ok(())
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

/// Why another policy does not hold, or not yet whole.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum PolicyChangeError {
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Names that are compared with a policy at once.
const ORIGINS_PAGE: usize = 5_000;

fn upstreams(
    settings: &MirrorSettings,
    metrics: &MirrorMetrics,
) -> Result<Vec<Upstream>, MirrorSetupError> {
    if !(1..=UPSTREAMS_MAX).contains(&settings.upstreams.len()) {
        return Err(MirrorSetupError::Upstreams(settings.upstreams.len()));
    }
    let mut all: Vec<Upstream> = Vec::new();
    for upstream in &settings.upstreams {
        let earlier: Vec<_> = all.iter().map(|upstream| upstream.name.clone()).collect();
        if earlier.contains(&upstream.name) {
            return Err(MirrorSetupError::Twice(upstream.name.clone()));
        }
        let metrics = metrics.of(upstream.name.as_str());
        let client = Client::new(upstream, &settings.trust, &settings.limits, metrics.clone());
        let state = UpstreamState {
            name: upstream.name.to_string(),
            url: upstream.url.to_string(),
            ..UpstreamState::default()
        };
        all.push(Upstream {
            name: upstream.name.clone(),
            earlier,
            client: Arc::new(client),
            metrics,
            state: Mutex::new(state),
        });
    }
    Ok(all)
}

impl Upstream {
    fn state(&self) -> UpstreamState {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change_state(&self, change: impl FnOnce(&mut UpstreamState)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// When all of `/versions` was compared.
    fn last_compared(&self) -> Option<Timestamp> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).last_compared
    }
}
