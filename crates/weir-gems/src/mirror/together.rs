//! One look at all upstreams, side by side, for a command: none waits for another's gems, and each is
//! decided when those before it have said what they list, or could not.

use futures_util::future::BoxFuture;
use futures_util::future::join_all;
use tokio::sync::watch;

use super::error::MirrorError;
use super::look::{Looked, Scope};
use super::progress::Progress;
use super::settings::FilesWhen;
use super::versions::Look;
use super::{Mirror, Upstream};

/// What keeps a name from being decided before upstreams that come earlier have been heard.
#[derive(Debug)]
pub(super) struct Gate {
    own: watch::Sender<bool>,
    earlier: Vec<watch::Receiver<bool>>,
}

impl Gate {
    /// One for each of so many upstreams, in their order.
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

    /// This one's list was read. Resolves when all earlier ones' were, or their looks have ended.
    pub(super) async fn pass(&mut self) {
        self.own.send_replace(true);
        for earlier in &mut self.earlier {
            // An error: that look has ended, and its gate with it.
            let _ = earlier.wait_for(|is_heard| *is_heard).await;
        }
    }
}

impl Mirror {
    /// Looks at each upstream once.
    ///
    /// # Errors
    /// For each upstream by itself: one that is away does not keep the others from being read.
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
            // What an earlier one has taken over is not a later one's any more, whose look may have been over.
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
