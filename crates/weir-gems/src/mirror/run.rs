//! When upstreams are looked at: at the start, every `interval`, sooner after a failure, and at once
//! when a webhook has come. Each at times of its own: one that is slow delays none of the others.

use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::future::{join_all, select_all};
use tokio::sync::watch;
use weir_base::clock::Timestamp;
use weir_base::shutdown::ShutdownToken;

use super::asked::Lane;
use super::look::Scope;
use super::progress::Progress;
use super::settings::FilesWhen;
use super::versions::Look;
use super::{Mirror, Upstream};

/// How long after a failure of the store itself it is tried again.
const STORE_WAIT: Duration = Duration::from_secs(5);

/// How long to wait for hooks when none is in the inbox; another process may have put one there.
const HOOKS_WAIT: Duration = Duration::from_secs(60);

/// What came of a look at one upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// All that it has is here, but what is not to be.
    Everything,
    /// New names wait for what an earlier upstream lists.
    Waiting,
    /// Something failed.
    Less,
}

impl Mirror {
    /// Keeps everything up to date until it is time to end. What is in hand then is left as it is:
    /// the next start goes on from there.
    pub fn run<'a>(&'a self, shutdown: &'a ShutdownToken) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let work = Box::pin(async {
                tokio::join!(self.run_looks(), self.run_hooks(), self.run_files());
            });
            tokio::select! {
                () = shutdown.requested() => {}
                () = work => {}
            }
        })
    }

    /// Hooks wait neither for looks nor for those of another upstream, which may be silent for long.
    async fn run_hooks(&self) {
        let lanes = join_all(self.upstreams.iter().map(|upstream| self.run_hooks_of(upstream)));
        tokio::join!(lanes, self.drop_former_hooks());
    }

    async fn run_hooks_of(&self, upstream: &Upstream) {
        let mut arrivals = self.inbox.arrivals();
        loop {
            let now = self.clock.now();
            let wait = match self.store.next_hook(upstream.name.as_str()).await {
                Ok(Some(due)) => due.since(now),
                Ok(None) => HOOKS_WAIT,
                Err(_) => STORE_WAIT,
            };
            tokio::select! {
                // An error: there is no inbox any more, nor this.
                _ = arrivals.changed() => {}
                () = tokio::time::sleep(wait) => {}
            }
            if let Err(error) = self.work_off_hooks_of(upstream).await {
                let upstream = upstream.name.as_str();
                tracing::error!(upstream, %error, "webhooks were not processed");
                tokio::time::sleep(STORE_WAIT).await;
            }
        }
    }

    /// Once: upstreams change with a restart alone.
    async fn drop_former_hooks(&self) {
        while let Err(error) = self.give_up_former_hooks().await {
            tracing::error!(%error, "webhooks of former upstreams stay in the inbox for now");
            tokio::time::sleep(STORE_WAIT).await;
        }
    }

    async fn run_looks(&self) {
        // Each look does it, too, but one of an upstream that is away does not come so far.
        if let Err(error) = self.decide_refused().await {
            tracing::warn!(%error, "names that are refused are not decided yet");
        }
        let lanes = self.upstreams.iter().zip(self.asked.lanes());
        join_all(lanes.map(|(upstream, lane)| self.run_looks_at(upstream, lane))).await;
    }

    async fn run_looks_at(&self, upstream: &Upstream, lane: Lane<'_>) {
        let mut backoff = self.limits.backoff();
        // At random, so that mirrors that were started together don't compare together.
        let first_comparison =
            self.clock.now() + backoff.jittered(self.settings.reconcile_interval);
        loop {
            // Before the look: what is listed in the middle of it may come too late for it.
            let earlier = self.those(&upstream.earlier).map(Upstream::listings).collect();
            let scope = lane.begin();
            let found = self.synchronize_once(upstream, first_comparison, scope).await;
            lane.end();
            let wait = match found {
                Found::Everything => {
                    backoff.reset();
                    self.settings.interval
                }
                Found::Waiting | Found::Less => backoff.next_delay().min(self.settings.interval),
            };
            let wait = wait.max(upstream.client.busy_for());
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = lane.rung() => {}
                () = any_listing(earlier), if found == Found::Waiting => {}
            }
        }
    }

    /// `scope`: what somebody asked for.
    async fn synchronize_once(
        &self,
        upstream: &Upstream,
        first_comparison: Timestamp,
        scope: Option<Scope>,
    ) -> Found {
        if scope.is_some() {
            upstream.denied.forget();
        }
        let look = match scope {
            Some(Scope::Everything) => Look::Whole,
            Some(Scope::Changes) | None => self.kind_of_look(upstream, first_comparison),
        };
        let looked = self.look(upstream, look, Progress::NONE).await;
        if let Ok(waiting) = self.store.waiting_hooks().await {
            self.metrics.hooks_waiting(waiting);
        }
        upstream.looked.notify_one();
        match looked {
            Ok(looked) if looked.is_complete() => Found::Everything,
            Ok(looked) if looked.work.waiting > 0 => Found::Waiting,
            _ => Found::Less,
        }
    }

    fn kind_of_look(&self, upstream: &Upstream, first_comparison: Timestamp) -> Look {
        let next = match upstream.last_compared() {
            Some(last) => last + self.settings.reconcile_interval,
            None => first_comparison,
        };
        match self.clock.now() >= next {
            true => Look::Whole,
            false => Look::Tail,
        }
    }

    async fn run_files(&self) {
        if self.settings.files == FilesWhen::Eagerly {
            join_all(self.upstreams.iter().map(|upstream| self.run_files_of(upstream))).await;
        }
    }

    /// Files are fetched beside the index: there may be hours of them.
    async fn run_files_of(&self, upstream: &Upstream) {
        loop {
            upstream.looked.notified().await;
            let watching = |at| upstream.change_state(|state| state.progress = Some(at));
            let fetched = self.fetch_missing(upstream, Progress(&watching)).await;
            upstream.change_state(|state| state.progress = None);
            if let Err(error) = fetched {
                let upstream = upstream.name.as_str();
                tracing::warn!(upstream, %error, "not all files were fetched");
            }
        }
    }
}

/// Resolves when one of some upstreams was read.
async fn any_listing(mut upstreams: Vec<watch::Receiver<()>>) {
    if upstreams.is_empty() {
        return std::future::pending().await;
    }
    let changes = upstreams.iter_mut().map(|upstream| Box::pin(upstream.changed()));
    // An error can't be: the sender lives as long as the mirror.
    drop(select_all(changes).await);
}
