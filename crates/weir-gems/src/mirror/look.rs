//! Synchronizes an upstream: reads its `/versions`, and then the names that have changed.

use std::time::Duration;

use weir_base::clock::Timestamp;

use super::error::{MirrorError, Problem};
use super::files::EagerFiles;
use super::infos::Work;
use super::progress::{Progress, SyncProgress};
use super::together::Gate;
use super::versions::{Look, Read};
use super::{Mirror, Upstream};
use crate::store::StoreError;
use crate::store::mirror::LastLooks;

/// Maximum number of consecutive attempts while the upstream is changing.
const ROUNDS_MAX: u32 = 3;

/// Scope of a synchronization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Only changes since the last time.
    Changes,
    /// A comparison of everything.
    Everything,
}

/// Outcome of a synchronization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looked {
    /// Outcome of the first read of `/versions`.
    pub read: Read,
    pub work: Work,
    /// Number of unusable lines: of `/versions`, where all of it was read, and of infos.
    pub left_out: u64,
    /// Outcome of fetching files eagerly.
    pub files: EagerFiles,
    pub requests: u64,
    pub received_bytes: u64,
    pub took: Duration,
}

impl Looked {
    /// Returns whether everything that the upstream has, and the policy allows, is now here.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.work.mismatched + self.work.failed + self.work.denied + self.work.waiting == 0
    }
}

impl Mirror {
    pub(super) async fn look(
        &self,
        upstream: &Upstream,
        look: Look,
        progress: Progress<'_>,
    ) -> Result<Looked, MirrorError> {
        self.synchronize_gated(upstream, look, progress, None).await
    }

    /// Synchronizes an upstream. With a `gate`, names are decided only after the gate has opened.
    pub(super) async fn synchronize_gated(
        &self,
        upstream: &Upstream,
        look: Look,
        progress: Progress<'_>,
        gate: Option<Gate>,
    ) -> Result<Looked, MirrorError> {
        let _turn = upstream.turn.lock().await;
        let start = self.clock.now();
        let watching = |at: SyncProgress| {
            upstream.change_state(|state| state.progress = Some(at.clone()));
            (progress.0)(at);
        };
        let in_force = async {
            self.recall(upstream).await?;
            self.in_force().await
        };
        let looked = match in_force.await {
            Ok(in_force) => {
                drop(in_force);
                self.rounds(upstream, look, Progress(&watching), gate).await
            }
            Err(error) => Err(error.into()),
        };
        let took = self.clock.now().since(start);
        let looked = looked.map(|looked| Looked { took, ..looked });
        self.report(upstream, look, start, &looked).await;
        looked.map_err(|problem| problem.of(&upstream.name))
    }

    /// Loads the times of earlier processes' synchronizations. Times of this process take
    /// precedence.
    pub(super) async fn recall(&self, upstream: &Upstream) -> Result<(), StoreError> {
        if upstream.state().last_look.is_some() {
            return Ok(());
        }
        let LastLooks { complete, compared } =
            self.store.last_looks(upstream.name.as_str()).await?;
        upstream.change_state(|state| {
            state.last_success = state.last_success.or(complete);
            state.last_compared = state.last_compared.or(compared);
        });
        upstream.metrics.succeeded(upstream.state().last_success, self.clock.now());
        Ok(())
    }

    /// Saves the times of successful synchronizations for the next process.
    async fn keep(&self, upstream: &Upstream) {
        let state = upstream.state();
        let looks = LastLooks { complete: state.last_success, compared: state.last_compared };
        let name = upstream.name.as_str();
        if let Err(error) = self.store.keep_looks(name, looks).await {
            tracing::warn!(upstream = name, %error, "the time of a synchronization was not stored");
        }
    }

    async fn rounds(
        &self,
        upstream: &Upstream,
        look: Look,
        progress: Progress<'_>,
        gate: Option<Gate>,
    ) -> Result<Looked, Problem> {
        let (before, left_out) = (upstream.metrics.traffic(), upstream.metrics.lines_left_out());
        upstream.change_state(|state| state.last_miss = None);
        let read = self.read_list(upstream, look, progress).await?;
        if let Some(mut gate) = gate {
            gate.pass().await;
        }
        let is_fresh = look == Look::FreshTail;
        let mut worked = self.work_off(upstream, is_fresh, read.names(), progress).await?;
        let mut round = 1;
        // The upstream has changed since its /versions was read.
        while worked.work.mismatched > 0 && round < ROUNDS_MAX {
            round += 1;
            let read = self.read_list(upstream, Look::FreshTail, progress).await?;
            let mut again = self.work_off(upstream, true, read.names(), progress).await?;
            again.work.applied.add(&worked.work.applied);
            worked = again;
        }
        let denied = worked.denials.names.iter().map(ToString::to_string).collect();
        upstream.change_state(|state| state.denied_names = denied);
        let work = self.let_go(upstream, worked).await?;
        let after = upstream.metrics.traffic();
        let (requests, received_bytes) = (after.0 - before.0, after.1 - before.1);
        let left_out = upstream.metrics.lines_left_out() - left_out;
        let (files, took) = (EagerFiles::default(), Duration::ZERO);
        Ok(Looked { read, work, left_out, files, requests, received_bytes, took })
    }

    /// Reads `/versions`. From then on it determines the decisions about names of later upstreams.
    async fn read_list(
        &self,
        upstream: &Upstream,
        look: Look,
        progress: Progress<'_>,
    ) -> Result<Read, Problem> {
        let read = self.read_versions(upstream, look, progress).await;
        upstream.was_listed(read.is_ok().then(|| self.clock.now()));
        read
    }

    async fn report(
        &self,
        upstream: &Upstream,
        look: Look,
        start: Timestamp,
        looked: &Result<Looked, Problem>,
    ) {
        let now = self.clock.now();
        // Not logged for every synchronization without changes.
        let is_idle = upstream.state().last_look.is_some()
            && looked.as_ref().is_ok_and(|looked| looked.work == Work::default());
        if !is_idle {
            // If counting fails, the previous counts stay.
            drop(self.count(upstream).await);
        }
        upstream.change_state(|state| {
            state.progress = None;
            state.last_look = Some(now);
            state.last_error = looked.as_ref().err().map(ToString::to_string);
            if let Ok(looked) = looked {
                state.last_result = Some(*looked);
                if looked.is_complete() {
                    state.last_success = Some(start);
                }
                if look == Look::Whole || matches!(looked.read, Read::Whole(_)) {
                    state.last_compared = Some(start);
                }
            }
        });
        if looked.is_ok() {
            self.keep(upstream).await;
        }
        upstream.metrics.looked(now.since(start), upstream.state().last_success, now);
        let name = upstream.name.as_str();
        match looked {
            Ok(Looked { read: Read::Unchanged, .. }) => {}
            Ok(looked) => tracing::info!(
                upstream = name,
                added = looked.work.applied.added,
                yanked = looked.work.applied.yanked,
                failed = looked.work.failed,
                requests = looked.requests,
                received_bytes = looked.received_bytes,
                seconds = looked.took.as_secs_f64(),
                "an upstream was read"
            ),
            Err(error) => {
                if let Some(failure) = error.failure() {
                    upstream.metrics.failed(failure);
                }
                tracing::warn!(upstream = name, %error, "an upstream was not read");
            }
        }
    }
}
