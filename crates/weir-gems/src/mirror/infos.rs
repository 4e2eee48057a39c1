//! Processes names that have changed: decides about them, fetches their `/info` several at a time,
//! checks the texts and applies them in the order of `/versions`.

mod apply;
mod denied;
mod fetch;
mod leaving;

use std::sync::Arc;

use tokio::task::JoinSet;

use self::apply::Gathered;
pub(super) use self::denied::Denied;
use self::fetch::{Fetched, Wanted, fetch};
pub(super) use self::fetch::{PATH, info_path, without_releases};
pub(super) use self::leaving::Worked;
use super::decide::{Decision, Rank, decide};
use super::error::Problem;
use super::progress::{Phase, Progress};
use super::{Mirror, Upstream};
use crate::metrics::FetchFailure;
use crate::store::StoreError;
use crate::store::mirror::{Applied, Pending};

/// Outcome of processing changed names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    pub applied: Applied,
    /// Number of names that were rejected.
    pub refused: u64,
    /// Number of names that wait for an earlier upstream that is unavailable.
    pub waiting: u64,
    /// Number of names whose `/info` does not match `/versions`. They stay pending.
    pub mismatched: u64,
    /// Number of names whose `/info` could not be fetched or parsed. They stay pending.
    pub failed: u64,
    /// Number of names that the upstream lists but denies access to. They stay pending.
    pub denied: u64,
}

impl Mirror {
    pub(super) async fn work_off(
        &self,
        upstream: &Upstream,
        is_fresh: bool,
        changed: u64,
        progress: Progress<'_>,
    ) -> Result<Worked, Problem> {
        let name = upstream.name.as_str();
        let (mut worked, mut after, mut seen) = (Worked::default(), 0, 0);
        upstream.denied.forget_after(self.settings.reconcile_interval, self.clock.now());
        loop {
            // There may be more than `changed` if names are pending from earlier.
            progress.report(upstream, Phase::Gems, seen, Some(changed.max(seen)));
            let page = self.store.pending(name, after, self.limits.batch_gems.max(1)).await?;
            let Some(last) = page.last() else { return Ok(worked) };
            after = last.sequence;
            seen += page.len() as u64;
            let taken = self.decided(upstream, page, &mut worked.work).await?;
            let asked = self.not_denied(upstream, taken, &mut worked);
            self.fetch_and_apply(upstream, asked, is_fresh, &mut worked).await?;
        }
    }

    /// Rejects pending names whose decision does not depend on the upstream, so that they are
    /// reported even while it is unavailable.
    pub(super) async fn refuse_pending(&self, upstream: &Upstream) -> Result<(), StoreError> {
        let (mut after, mut work) = (0, Work::default());
        let name = upstream.name.as_str();
        loop {
            let page = self.store.pending(name, after, self.limits.batch_gems.max(1)).await?;
            let Some(last) = page.last() else { break };
            after = last.sequence;
            self.decided(upstream, page, &mut work).await?;
        }
        self.count(upstream).await
    }

    /// Counts names. This reads all of them, so it is only done after larger changes.
    pub(super) async fn count(&self, upstream: &Upstream) -> Result<(), StoreError> {
        let counts = self.store.counts(upstream.name.as_str()).await?;
        upstream.metrics.counted(&counts);
        upstream.change_state(|state| state.counts = counts);
        Ok(())
    }

    pub(super) fn rank<'a>(&self, upstream: &'a Upstream) -> Rank<'a> {
        Rank {
            upstream: &upstream.name,
            earlier: &upstream.earlier,
            later: &upstream.later,
            is_earlier_known: self.is_known(&upstream.earlier),
        }
    }

    /// Decides about names and returns those to take. No requests are sent for the others.
    async fn decided(
        &self,
        upstream: &Upstream,
        page: Vec<Pending>,
        work: &mut Work,
    ) -> Result<Vec<Wanted>, StoreError> {
        let in_force = self.in_force().await?;
        let policy = self.policy.load_full();
        let rank = self.rank(upstream);
        let (mut taken, mut refused) = (Vec::new(), Vec::new());
        for pending in page {
            match decide(&policy, rank, &pending.noted.name, &pending.standing) {
                Decision::Take => {
                    let has_versions = pending.standing.has_versions;
                    let Pending { sequence, noted, .. } = pending;
                    taken.push(Wanted { sequence, noted, has_versions });
                }
                Decision::Refuse(refusal) => refused.push((pending.noted.name, refusal)),
                Decision::Wait => work.waiting += 1,
            }
        }
        work.refused += refused.len() as u64;
        if !refused.is_empty() {
            self.store.refuse(upstream.name.as_str(), refused).await?;
        }
        drop(in_force);
        Ok(taken)
    }

    /// Fetches and applies names. Uses memory for at most `batch_bytes`, plus one `/info` per
    /// request in progress.
    async fn fetch_and_apply(
        &self,
        upstream: &Upstream,
        names: Vec<Wanted>,
        is_fresh: bool,
        worked: &mut Worked,
    ) -> Result<(), Problem> {
        let mut names = names.into_iter().enumerate();
        let mut fetching = JoinSet::new();
        let mut gathered = Gathered::default();
        loop {
            while fetching.len() < self.limits.requests_max.max(1)
                && gathered.bytes < self.limits.batch_bytes
                && let Some((index, wanted)) = names.next()
            {
                match wanted.noted.md5.filter(|md5| *md5 != without_releases()) {
                    None => self.gather(index, wanted, Vec::new(), 0, &mut gathered, worked),
                    Some(md5) => {
                        let client = Arc::clone(&upstream.client);
                        let limits = (self.limits.info_bytes_max, self.limits.info_limit());
                        fetching.spawn(async move {
                            (index, fetch(&client, wanted, md5, is_fresh, limits).await)
                        });
                    }
                }
            }
            let Some(fetched) = fetching.join_next().await else {
                self.apply(upstream, &mut gathered, &mut worked.work).await?;
                match names.len() {
                    0 => return Ok(()),
                    _ => continue,
                }
            };
            // A cancelled task has fetched nothing: the name stays pending.
            let Ok((index, fetched)) = fetched else { continue };
            if let Err(problem) = self.take(upstream, index, fetched, &mut gathered, worked) {
                // Apply what was fetched, so that names that fail every time don't block the
                // others.
                self.apply(upstream, &mut gathered, &mut worked.work).await?;
                return Err(problem);
            }
        }
    }

    fn take(
        &self,
        upstream: &Upstream,
        index: usize,
        fetched: Fetched,
        gathered: &mut Gathered,
        worked: &mut Worked,
    ) -> Result<(), Problem> {
        let work = &mut worked.work;
        match fetched {
            Fetched::Gem { wanted, info, bytes } => {
                gathered.failures = 0;
                worked.denials.has_given = true;
                upstream.metrics.left_out(info.left_out);
                self.gather(index, wanted, info.releases, bytes, gathered, worked);
            }
            Fetched::Mismatched { path } => {
                work.mismatched += 1;
                upstream.metrics.failed(FetchFailure::Digest);
                upstream.missed(format!("{path} is not what /versions says"));
            }
            Fetched::Unreadable { path, error } => {
                work.failed += 1;
                upstream.metrics.failed(FetchFailure::Content);
                tracing::warn!(upstream = %upstream.name, path, %error, "it can't be read");
                upstream.missed(format!("{path} can't be read: {error}"));
            }
            Fetched::Denied { wanted, path, error } => {
                // A denial is a response, so the upstream is available.
                gathered.failures = 0;
                let problem = Problem::of_request(&path, &error);
                return self.deny(upstream, &wanted, problem, worked);
            }
            Fetched::Failed { path, error } => {
                work.failed += 1;
                gathered.failures += 1;
                upstream.missed(error.told(&path));
                if error.is_outage() && gathered.failures >= self.limits.failures_max {
                    return Err(Problem::of_request(&path, &error));
                }
            }
        }
        Ok(())
    }
}
