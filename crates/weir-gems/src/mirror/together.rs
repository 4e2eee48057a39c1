//! Synchronizes all upstreams once, in parallel, for a command. Gems of one upstream don't wait for
//! those of another, but each name is decided only after the earlier upstreams' lists were read, or
//! could not be.

use futures_util::future::BoxFuture;
use futures_util::future::join_all;
use tokio::sync::watch;

use super::error::MirrorError;
use super::look::{Looked, Scope};
use super::progress::Progress;
use super::settings::FilesWhen;
use super::versions::Look;
use super::{Mirror, Upstream};

/// Delays decisions about names until the lists of earlier upstreams were read.
#[derive(Debug)]
pub(super) struct Gate {
    own: watch::Sender<bool>,
    earlier: Vec<watch::Receiver<bool>>,
}

impl Gate {
    /// Returns one gate for each of `upstreams` upstreams, in order.
    fn each(upstreams: usize) -> Vec<Self> {
        let mut heard = Vec::new();
        let gates = (0..upstreams).map(|_| {
            let own = watch::Sender::new(false);
            let earlier = heard.clone();
            heard.push(own.subscribe());
            Self { own, earlier }
        });
        gates.collect()
    }

    /// Reports that this upstream's list was read. Resolves when all earlier upstreams have
    /// reported, or their synchronizations have ended.
    pub(super) async fn pass(&mut self) {
        self.own.send_replace(true);
        for earlier in &mut self.earlier {
            // An error means that the synchronization has ended and dropped its gate.
            let _ = earlier.wait_for(|is_heard| *is_heard).await;
        }
    }
}

impl Mirror {
    /// Synchronizes each upstream once.
    ///
    /// # Errors
    /// Returns an error per upstream: one that is unavailable does not affect the others.
    pub fn sync_once<'a>(
        &'a self,
        scope: Scope,
        progress: Progress<'a>,
    ) -> BoxFuture<'a, Vec<Result<Looked, MirrorError>>> {
        Box::pin(async move {
            let look = match scope {
                Scope::Changes => Look::Tail,
                Scope::Everything => Look::Whole,
            };
            let gated = self.upstreams.iter().zip(Gate::each(self.upstreams.len()));
            let looks = gated.map(async |(upstream, gate)| {
                upstream.denied.forget();
                let looked = self.synchronize_gated(upstream, look, progress, Some(gate)).await?;
                match self.settings.files {
                    FilesWhen::Eagerly => self.with_files(upstream, looked, progress).await,
                    FilesWhen::OnDemand => Ok(looked),
                }
            });
            let looked = join_all(looks).await;
            // An earlier upstream may have taken names over from a later one whose synchronization
            // had already ended.
            if let Err(error) = self.decide_refused().await {
                tracing::warn!(%error, "names that are refused are not decided yet");
            }
            looked
        })
    }

    async fn with_files(
        &self,
        upstream: &Upstream,
        looked: Looked,
        progress: Progress<'_>,
    ) -> Result<Looked, MirrorError> {
        let (before, start) = (upstream.metrics.traffic(), self.clock.now());
        let files = self.fetch_missing(upstream, progress).await;
        let files = files.map_err(|problem| problem.of(&upstream.name))?;
        let after = upstream.metrics.traffic();
        let looked = Looked {
            files,
            requests: looked.requests + after.0 - before.0,
            received_bytes: looked.received_bytes + after.1 - before.1,
            took: looked.took + self.clock.now().since(start),
            ..looked
        };
        upstream.change_state(|state| state.last_result = Some(looked));
        Ok(looked)
    }
}
