//! Schedules synchronizations: at the start, every `interval`, sooner after an error, and at once
//! after a webhook. Each upstream has its own schedule, so a slow one does not delay the others.

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

/// Delay before a retry after an error of the store.
const STORE_WAIT: Duration = Duration::from_secs(5);

/// How long to wait if the inbox has no webhooks; another process may add some.
const HOOKS_WAIT: Duration = Duration::from_secs(60);

/// Outcome of synchronizing one upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// Everything that the upstream has and the policy allows is here.
    Everything,
    /// New names wait for the list of an earlier upstream.
    Waiting,
    /// Something failed.
    Less,
}

impl Mirror {
    /// Keeps all upstreams up to date until shutdown. Work in progress is then abandoned; the next
    /// start resumes it.
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

    /// Processes webhooks. They wait neither for synchronizations nor for webhooks of other,
    /// possibly silent, upstreams.
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
                // An error means that the inbox is closed, and this task is about to end.
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

    /// Drops webhooks of upstreams that were removed. Done once, because upstreams only change with
    /// a restart.
    async fn drop_former_hooks(&self) {
        while let Err(error) = self.give_up_former_hooks().await {
            tracing::error!(%error, "webhooks of former upstreams stay in the inbox for now");
            tokio::time::sleep(STORE_WAIT).await;
        }
    }

    async fn run_looks(&self) {
        // Each synchronization does this, too, but one that fails because its upstream is
        // unavailable does not get that far.
        if let Err(error) = self.decide_refused().await {
            tracing::warn!(%error, "names that are refused are not decided yet");
        }
        let lanes = self.upstreams.iter().zip(self.asked.lanes());
        join_all(lanes.map(|(upstream, lane)| self.run_looks_at(upstream, lane))).await;
    }

    async fn run_looks_at(&self, upstream: &Upstream, lane: Lane<'_>) {
        let mut backoff = self.limits.backoff();
        // Randomized, so that mirrors that were started together don't compare at the same time.
        let first_comparison =
            self.clock.now() + backoff.jittered(self.settings.reconcile_interval);
        loop {
            // Subscribe before synchronizing, so that no list that is read meanwhile is missed.
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

    /// Synchronizes an upstream once. `scope` is the requested scope, if there is one.
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

    /// Fetches files in a separate task, because this may take hours.
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

/// Resolves when the `/versions` of one of these upstreams was read.
async fn any_listing(mut upstreams: Vec<watch::Receiver<()>>) {
    if upstreams.is_empty() {
        return std::future::pending().await;
    }
    let changes = upstreams.iter_mut().map(|upstream| Box::pin(upstream.changed()));
    // This can't fail: the senders live as long as the mirror.
    drop(select_all(changes).await);
}
