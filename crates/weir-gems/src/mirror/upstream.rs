//! The state of an upstream at run time.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, watch};
use weir_base::clock::Timestamp;
use weir_base::semaphore::Semaphore;

use super::client::Client;
use super::infos::Denied;
use super::settings::MirrorSettings;
use super::state::UpstreamState;
use super::upstream_name::UpstreamName;
use crate::metrics::{MirrorMetrics, UpstreamMetrics};

/// An upstream at run time.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) name: UpstreamName,
    /// Upstreams with higher precedence.
    pub(super) earlier: Arc<[UpstreamName]>,
    /// Upstreams with lower precedence.
    pub(super) later: Vec<UpstreamName>,
    pub(super) client: Arc<Client>,
    pub(super) metrics: UpstreamMetrics,
    /// Limits concurrent fetches of files that clients wait for. Each upstream has its own limit,
    /// so that a silent one does not block the others.
    pub(super) file_fetches: Semaphore,
    pub(super) denied: Denied,
    /// A tokio mutex, held during a synchronization.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// Notified after each synchronization.
    pub(super) looked: Notify,
    /// Changes when its `/versions` was read, which decisions about names of later upstreams may
    /// wait for.
    listed: watch::Sender<()>,
    /// A std mutex: it is locked only to copy the state or to change a field.
    state: Mutex<UpstreamState>,
}

pub(super) fn upstreams(settings: &MirrorSettings, metrics: &MirrorMetrics) -> Vec<Upstream> {
    let mut all: Vec<Upstream> = Vec::new();
    let names: Vec<_> = settings.upstreams.iter().map(|upstream| upstream.name.clone()).collect();
    for (place, upstream) in settings.upstreams.iter().enumerate() {
        let metrics = metrics.of(upstream.name.as_str());
        let client = Client::new(upstream, &settings.trust, &settings.limits, metrics.clone());
        let state = UpstreamState {
            name: upstream.name.to_string(),
            url: upstream.url.to_string(),
            ..UpstreamState::default()
        };
        all.push(Upstream {
            name: upstream.name.clone(),
            earlier: names.iter().take(place).cloned().collect(),
            later: names.iter().skip(place + 1).cloned().collect(),
            client: Arc::new(client),
            metrics,
            file_fetches: Semaphore::new(
                "files fetched from an upstream",
                "gems.mirror.limits.file_fetches_max",
                settings.limits.file_fetches_max,
            ),
            denied: Denied::default(),
            turn: tokio::sync::Mutex::default(),
            looked: Notify::new(),
            listed: watch::Sender::new(()),
            state: Mutex::new(state),
        });
    }
    all
}

impl Upstream {
    pub(super) fn state(&self) -> UpstreamState {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn change_state(&self, change: impl FnOnce(&mut UpstreamState)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Records why a name could not be updated.
    pub(super) fn missed(&self, reason: String) {
        self.change_state(|state| state.last_miss = Some(reason));
    }

    /// Records when `/versions` was read; None if it could not be read.
    pub(super) fn was_listed(&self, at: Option<Timestamp>) {
        self.change_state(|state| state.last_listed = at);
        if at.is_some() {
            self.listed.send_replace(());
        }
    }

    /// Returns a receiver that changes when `/versions` is read from now on.
    pub(super) fn listings(&self) -> watch::Receiver<()> {
        self.listed.subscribe()
    }

    /// Returns when all of `/versions` was last compared.
    pub(super) fn last_compared(&self) -> Option<Timestamp> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).last_compared
    }
}
