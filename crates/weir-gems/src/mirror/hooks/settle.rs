//! Processes due webhooks: verifies them, and removes them from the inbox or postpones them.

use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::future::join_all;

use crate::index::digest::Digests;
use crate::metrics::Outcome;
use crate::mirror::client::Ask;
use crate::mirror::decide::{Decision, decide};
use crate::mirror::infos::info_path;
use crate::mirror::progress::Progress;
use crate::mirror::read::read_info;
use crate::mirror::versions::Look;
use crate::mirror::{Mirror, MirrorError, Problem, Upstream};
use crate::store::StoreError;
use crate::store::mirror::{Hook, HookKind, Noted, Presence};

/// Number of webhooks that are processed together.
const HOOK_BATCH: usize = 500;

/// Outcome of processing webhooks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HooksDone {
    /// Number of webhooks whose change is now here, or was rejected.
    pub done: u64,
    /// Number of postponed webhooks.
    pub put_off: u64,
    /// Number of webhooks that reached the maximum number of attempts.
    pub given_up: u64,
}

impl HooksDone {
    const fn add(&mut self, other: Self) {
        self.done += other.done;
        self.put_off += other.put_off;
        self.given_up += other.given_up;
    }
}

impl Mirror {
    /// Processes due webhooks: those of one upstream in order, all upstreams in parallel.
    ///
    /// # Errors
    /// Returns the store's error. Webhooks of an unavailable upstream are postponed instead.
    pub fn work_off_hooks(&self) -> BoxFuture<'_, Result<HooksDone, StoreError>> {
        Box::pin(async move {
            let given_up = self.give_up_former_hooks().await?;
            let mut done = HooksDone { given_up, ..HooksDone::default() };
            let all = self.upstreams.iter().map(|upstream| self.work_off_hooks_of(upstream));
            for of_one in join_all(all).await {
                done.add(of_one?);
            }
            Ok(done)
        })
    }

    pub(in crate::mirror) async fn work_off_hooks_of(
        &self,
        upstream: &Upstream,
    ) -> Result<HooksDone, StoreError> {
        let mut done = HooksDone::default();
        loop {
            let (name, now) = (upstream.name.as_str(), self.clock.now());
            let due = self.store.due_hooks(name, now, HOOK_BATCH).await?;
            if due.is_empty() {
                self.metrics.hooks_waiting(self.store.waiting_hooks().await?);
                return Ok(done);
            }
            self.settle(upstream, due, &mut done).await?;
        }
    }

    /// Removes webhooks of upstreams that are no longer in the settings. Returns their number.
    pub(in crate::mirror) async fn give_up_former_hooks(&self) -> Result<u64, StoreError> {
        let names = self.upstreams.iter().map(|upstream| upstream.name.to_string());
        let hooks = self.store.drop_hooks_of_others(names.collect()).await?;
        if hooks > 0 {
            tracing::warn!(hooks, "webhooks of former upstreams are given up");
        }
        Ok(hooks)
    }

    async fn settle(
        &self,
        upstream: &Upstream,
        hooks: Vec<Hook>,
        done: &mut HooksDone,
    ) -> Result<(), StoreError> {
        let left = self.unsettled(upstream, hooks, done).await?;
        if left.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.look(upstream, Look::FreshTail, Progress::NONE).await {
            return self.put_off(left, &error.to_string(), done).await;
        }
        let left = self.unsettled(upstream, left, done).await?;
        if left.is_empty() {
            return Ok(());
        }
        // Their /versions may be behind: some servers rebuild it rarely, and caches keep it.
        if let Err(error) = self.fetch_infos_of_hooks(upstream, &left).await {
            return self.put_off(left, &error.to_string(), done).await;
        }
        let left = self.unsettled(upstream, left, done).await?;
        self.put_off(left, "the upstream itself does not have it", done).await
    }

    /// Removes webhooks from the inbox whose change is already here. Returns the others.
    async fn unsettled(
        &self,
        upstream: &Upstream,
        hooks: Vec<Hook>,
        done: &mut HooksDone,
    ) -> Result<Vec<Hook>, StoreError> {
        let (mut settled, mut left) = (Vec::new(), Vec::new());
        for hook in hooks {
            match self.is_settled(upstream, &hook).await? {
                true => settled.push(hook),
                false => left.push(hook),
            }
        }
        let now = self.clock.now();
        if !settled.is_empty() {
            self.store.settle_hooks(ids(&settled), Vec::new()).await?;
        }
        for hook in &settled {
            self.metrics.hook_done(now.since(hook.hook.received_at));
        }
        done.done += settled.len() as u64;
        Ok(left)
    }

    async fn is_settled(&self, upstream: &Upstream, hook: &Hook) -> Result<bool, StoreError> {
        let hook = &hook.hook;
        let standing = self.store.standing(upstream.name.as_str(), &hook.name).await?;
        let policy = self.policy.load_full();
        // Names that are rejected are not requested from the upstream, which would reveal that they
        // exist here.
        if let Decision::Refuse(_) = decide(&policy, self.rank(upstream), &hook.name, &standing) {
            return Ok(true);
        }
        Ok(match self.store.presence(&hook.name, &hook.identity).await? {
            Presence::Served => hook.kind == HookKind::Added,
            Presence::Absent => hook.kind == HookKind::Removed,
            // A yank here overrides the upstream.
            Presence::Yanked => true,
        })
    }

    /// Fetches the `/info` of each name. If it confirms the webhooks, the name is recorded as if
    /// `/versions` had listed it, and then processed as usual.
    async fn fetch_infos_of_hooks(
        &self,
        upstream: &Upstream,
        hooks: &[Hook],
    ) -> Result<(), MirrorError> {
        let turn = upstream.turn.lock().await;
        let looked = self.note_infos(upstream, hooks).await;
        drop(turn);
        looked.map_err(|problem| problem.of(&upstream.name))?;
        self.look(upstream, Look::FreshTail, Progress::NONE).await.map(drop)
    }

    async fn note_infos(&self, upstream: &Upstream, hooks: &[Hook]) -> Result<(), Problem> {
        let mut names: Vec<_> = hooks.iter().map(|hook| &hook.hook.name).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let path = info_path(name.as_str());
            let ask = Ask { is_fresh: true, ..Ask::all(&path, self.limits.info_limit()) };
            let text = upstream.client.text(&ask, self.limits.info_bytes_max).await;
            let (status, text) = text.map_err(|error| Problem::of_request(&path, &error))?;
            let Ok(info) = read_info(&text) else { continue };
            let of_name = hooks.iter().map(|hook| &hook.hook).filter(|hook| hook.name == *name);
            let mut says = of_name.map(|hook| {
                let has = info.releases.iter().any(|it| it.identity == hook.identity);
                has == (hook.kind == HookKind::Added)
            });
            if status.as_u16() == 200 && says.any(|says| says) {
                let noted = Noted { name: name.clone(), md5: Some(Digests::of(&text).md5) };
                self.store.note(upstream.name.as_str(), vec![noted], None).await?;
            }
        }
        Ok(())
    }

    async fn put_off(
        &self,
        hooks: Vec<Hook>,
        reason: &str,
        done: &mut HooksDone,
    ) -> Result<(), StoreError> {
        let now = self.clock.now();
        let mut backoff = self.limits.backoff();
        let (mut given_up, mut later) = (Vec::new(), Vec::new());
        for hook in hooks {
            if hook.attempts + 1 >= self.limits.hook_attempts_max {
                let gem = format!("{}-{}", hook.hook.name, hook.hook.identity);
                tracing::warn!(gem, reason, "a webhook is given up; the next comparison tells");
                self.metrics.hook(Outcome::GivenUp);
                given_up.push(hook.id);
            } else {
                // The delay is never zero: otherwise processing what is due would not end.
                let wait = backoff.after(hook.attempts + 1).max(LEAST_WAIT);
                later.push((hook.id, now + wait));
            }
        }
        done.given_up += given_up.len() as u64;
        done.put_off += later.len() as u64;
        self.store.settle_hooks(given_up, later).await
    }
}

const LEAST_WAIT: Duration = Duration::from_millis(10);

fn ids(hooks: &[Hook]) -> Vec<u64> {
    hooks.iter().map(|hook| hook.id).collect()
}
