//! Names that have changed: decided, their `/info` fetched some at a time, checked and applied in
//! the order of their lines.

use std::collections::BTreeMap;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::task::JoinSet;

use super::client::{Ask, Client, FetchError};
use super::decide::{Decision, Rank, decide, forbidden};
use super::error::Problem;
use super::progress::{Phase, Progress};
use super::read::read_info;
use super::{Mirror, Upstream};
use crate::index::digest::Digests;
use crate::metrics::FetchFailure;
use crate::store::mirror::{Applied, MirrorStore, MirroredGem, Noted, Pending};

/// What stays as it is in a path.
pub(super) const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// What was done about the names that had changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    pub applied: Applied,
    /// Names that are not taken.
    pub refused: u64,
    /// Names that wait for an upstream that comes earlier and does not answer.
    pub waiting: u64,
    /// Names whose `/info` is not what `/versions` says; they stay to be done.
    pub mismatched: u64,
    /// Names whose `/info` could not be had, or read; they stay to be done.
    pub failed: u64,
}

/// What came of asking for an `/info`.
enum Fetched {
    Gem { gem: MirroredGem, bytes: usize, left_out: u64 },
    Mismatched,
    Unreadable,
    Failed(FetchError),
}

impl<S: MirrorStore> Mirror<S> {
    pub(super) async fn work_off(
        &self,
        upstream: &Upstream,
        is_fresh: bool,
        changed: u64,
        progress: Progress<'_>,
    ) -> Result<Work, Problem> {
        let name = upstream.name.as_str();
        let (mut work, mut after, mut seen) = (Work::default(), 0, 0);
        loop {
            // Some may be left from earlier.
            progress.report(upstream, Phase::Gems, seen, Some(changed.max(seen)));
            let page = self.store.pending(name, after, self.limits.batch_gems.max(1)).await?;
            let Some(last) = page.last() else { return Ok(work) };
            after = last.sequence;
            seen += page.len() as u64;
            let taken = self.decided(upstream, page, &mut work).await?;
            self.fetch_and_apply(upstream, taken, is_fresh, &mut work).await?;
        }
    }

    pub(super) fn rank<'a>(&self, upstream: &'a Upstream) -> Rank<'a> {
        Rank {
            upstream: &upstream.name,
            earlier: &upstream.earlier,
            later: &upstream.later,
            is_earlier_known: self.is_known(&upstream.earlier),
        }
    }

    /// Those that are taken. Nothing is asked about the others.
    async fn decided(
        &self,
        upstream: &Upstream,
        page: Vec<Pending>,
        work: &mut Work,
    ) -> Result<Vec<Noted>, Problem> {
        let in_force = self.in_force().await?;
        let policy = self.policy.load_full();
        let rank = self.rank(upstream);
        let (mut taken, mut refused) = (Vec::new(), Vec::new());
        for pending in page {
            match decide(&policy, rank, &pending.noted.name, &pending.standing) {
                Decision::Take => taken.push(pending.noted),
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

    /// Holds at most `batch_bytes` and one `/info` for each request.
    async fn fetch_and_apply(
        &self,
        upstream: &Upstream,
        names: Vec<Noted>,
        is_fresh: bool,
        work: &mut Work,
    ) -> Result<(), Problem> {
        let mut names = names.into_iter().enumerate();
        let mut fetching = JoinSet::new();
        let mut gathered = Gathered::default();
        loop {
            while fetching.len() < self.limits.requests_max.max(1)
                && gathered.bytes < self.limits.batch_bytes
                && let Some((index, noted)) = names.next()
            {
                match noted.md5 {
                    None => gathered.add(index, MirroredGem { noted, releases: Vec::new() }, 0),
                    Some(md5) => {
                        let client = Arc::clone(&upstream.client);
                        let limits = (self.limits.info_bytes_max, self.limits.info_timeout);
                        fetching.spawn(async move {
                            (index, fetch(&client, noted, md5, is_fresh, limits).await)
                        });
                    }
                }
            }
            let Some(fetched) = fetching.join_next().await else {
                self.apply(upstream, &mut gathered, work).await?;
                match names.len() {
                    0 => return Ok(()),
                    _ => continue,
                }
            };
            // A task that was given up has fetched nothing: the name stays to be done.
            let Ok((index, fetched)) = fetched else { continue };
            self.take(upstream, index, fetched, &mut gathered, work)?;
        }
    }

    fn take(
        &self,
        upstream: &Upstream,
        index: usize,
        fetched: Fetched,
        gathered: &mut Gathered,
        work: &mut Work,
    ) -> Result<(), Problem> {
        match fetched {
            Fetched::Gem { gem, bytes, left_out } => {
                gathered.failures = 0;
                upstream.metrics.left_out(left_out);
                gathered.add(index, gem, bytes);
            }
            Fetched::Mismatched => {
                work.mismatched += 1;
                upstream.metrics.failed(FetchFailure::Digest);
            }
            Fetched::Unreadable => {
                work.failed += 1;
                upstream.metrics.failed(FetchFailure::Content);
            }
            Fetched::Failed(error) => {
                work.failed += 1;
                gathered.failures += 1;
                let is_away = error.is_outage() && gathered.failures >= self.limits.failures_max;
                if is_away || matches!(error, FetchError::Denied(_)) {
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    async fn apply(
        &self,
        upstream: &Upstream,
        gathered: &mut Gathered,
        work: &mut Work,
    ) -> Result<(), Problem> {
        gathered.bytes = 0;
        let gems = std::mem::take(&mut gathered.gems).into_values();
        let in_force = self.in_force().await?;
        let policy = self.policy.load_full();
        // The policy may have changed since they were decided. What it forbids is decided anew.
        let is_allowed = |gem: &MirroredGem| {
            forbidden(&policy, gem.noted.name.as_str(), upstream.name.as_str()).is_none()
        };
        let (gems, late): (Vec<_>, Vec<_>) = gems.partition(is_allowed);
        work.waiting += late.len() as u64;
        if gems.is_empty() {
            return Ok(());
        }
        let applied = self.store.apply(upstream.name.as_str(), gems, self.clock.now()).await?;
        drop(in_force);
        upstream.metrics.applied(&applied);
        work.refused += applied.refused;
        work.applied.add(&applied);
        Ok(())
    }
}

/// Gems for one transaction.
#[derive(Default)]
struct Gathered {
    /// By their place.
    gems: BTreeMap<usize, MirroredGem>,
    bytes: usize,
    /// Requests that failed one after another.
    failures: u32,
}

impl Gathered {
    fn add(&mut self, index: usize, gem: MirroredGem, bytes: usize) {
        self.gems.insert(index, gem);
        self.bytes += bytes;
    }
}

pub(super) fn info_path(name: &str) -> String {
    format!("/info/{}", utf8_percent_encode(name, PATH))
}

async fn fetch(
    client: &Client,
    noted: Noted,
    md5: [u8; 16],
    is_fresh: bool,
    (bytes_max, timeout): (usize, std::time::Duration),
) -> Fetched {
    let path = info_path(noted.name.as_str());
    let ask = Ask { is_fresh, ..Ask::all(&path, timeout) };
    let text = match client.text(&ask, bytes_max).await {
        Ok((status, text)) if status.as_u16() == 200 => text,
        // What has no release any more may be told so.
        Ok(_) => crate::index::info::HEADER.as_bytes().to_vec(),
        Err(error) => return Fetched::Failed(error),
    };
    if Digests::of(&text).md5 != md5 {
        return Fetched::Mismatched;
    }
    match read_info(&text) {
        Ok(info) => Fetched::Gem {
            gem: MirroredGem { noted, releases: info.releases },
            bytes: text.len(),
            left_out: info.left_out,
        },
        Err(error) => {
            tracing::warn!(gem = %noted.name, %error, "an upstream's /info can't be read");
            Fetched::Unreadable
        }
    }
}
