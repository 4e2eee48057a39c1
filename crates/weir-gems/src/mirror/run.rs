//! When upstreams are looked at: at the start, every `interval`, sooner after a failure, and at once
//! when a webhook has come.

use std::time::Duration;

use weir_base::clock::Timestamp;
use weir_base::shutdown::Shutdown;

use super::backoff::{Backoff, jittered};
use super::progress::Progress;
use super::settings::FilesWhen;
use super::versions::Look;
use super::{Mirror, Upstream};
use crate::store::mirror::MirrorStore;

/// How long after a failure of the store itself it is tried again.
const STORE_WAIT: Duration = Duration::from_secs(5);

/// When the next look is due.
struct Due {
    next: Timestamp,
    backoff: Backoff,
    /// When all of it is first compared after a start; at random, so that mirrors that were started
    /// together don't do it together.
    first_comparison: Timestamp,
}

impl<S: MirrorStore> Mirror<S> {
    /// Keeps everything up to date until it is time to end. What is in hand then is left as it is:
    /// the next start goes on from there.
    pub async fn run(&self, shutdown: &Shutdown) {
        let work = async {
            tokio::join!(self.run_index(), self.run_files());
        };
        tokio::select! {
            () = shutdown.requested() => {}
            () = work => {}
        }
    }

    async fn run_index(&self) {
        let now = self.clock.now();
        let mut due = Due {
            next: now,
            backoff: Backoff::new(self.limits.backoff_min, self.limits.backoff_max),
            first_comparison: now + jittered(self.settings.reconcile_interval),
        };
        loop {
            let wait = self.wait(&due).await;
            tokio::select! {
                () = self.inbox.arrived.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
            if let Err(error) = self.work_off_hooks().await {
                tracing::error!(%error, "webhooks were not worked off");
                tokio::time::sleep(STORE_WAIT).await;
            }
            if self.clock.now() >= due.next {
                self.look_at_all(&mut due).await;
            }
        }
    }

    async fn wait(&self, due: &Due) -> Duration {
        let now = self.clock.now();
        let look = due.next.since(now);
        match self.store.next_hook().await {
            Ok(Some(hook)) => look.min(hook.since(now)),
            Ok(None) => look,
            Err(_) => look.max(STORE_WAIT),
        }
    }

    async fn look_at_all(&self, due: &mut Due) {
        let mut has_failed = false;
        for upstream in &self.upstreams {
            let look = self.kind_of_look(upstream, due.first_comparison);
            let looked = self.look(upstream, look, Progress::NONE).await;
            has_failed |= !looked.is_ok_and(|looked| looked.is_complete());
        }
        let wait = match has_failed {
            true => due.backoff.next().min(self.settings.interval),
            false => {
                due.backoff.reset();
                self.settings.interval
            }
        };
        due.next = self.clock.now() + wait;
        self.looked.notify_one();
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

    /// Files are fetched beside the index: there may be hours of them.
    async fn run_files(&self) {
        loop {
            self.looked.notified().await;
            if self.settings.files == FilesWhen::OnDemand {
                continue;
            }
            for upstream in &self.upstreams {
                if let Err(error) = self.fetch_missing(upstream, Progress::NONE).await {
                    let upstream = upstream.name.as_str();
                    tracing::warn!(upstream, %error, "not all files were fetched");
                }
            }
        }
    }
}
