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
use super::read::{InfoText, read_info};
use super::{Mirror, Upstream};
use crate::index::digest::Digests;
use crate::index::info::HEADER;
use crate::metrics::FetchFailure;
use crate::release::Release;
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

/// What was done, and what is left to be done at the end of a look.
#[derive(Default)]
pub(super) struct Worked {
    pub(super) work: Work,
    leaving: Leaving,
}

/// Names that would lose all of their versions.
#[derive(Default)]
struct Leaving {
    /// One more than may go at most.
    names: Vec<Noted>,
    total: usize,
}

impl Leaving {
    fn add(&mut self, noted: Noted, max: usize) {
        self.total += 1;
        if self.names.len() <= max {
            self.names.push(noted);
        }
    }
}

/// A name that is taken.
struct Wanted {
    noted: Noted,
    /// Whether clients see versions of it here.
    has_versions: bool,
}

/// What came of asking for an `/info`.
enum Fetched {
    Gem { wanted: Wanted, info: InfoText, bytes: usize },
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
    ) -> Result<Worked, Problem> {
        let name = upstream.name.as_str();
        let (mut worked, mut after, mut seen) = (Worked::default(), 0, 0);
        loop {
            // Some may be left from earlier.
            progress.report(upstream, Phase::Gems, seen, Some(changed.max(seen)));
            let page = self.store.pending(name, after, self.limits.batch_gems.max(1)).await?;
            let Some(last) = page.last() else { return Ok(worked) };
            after = last.sequence;
            seen += page.len() as u64;
            let taken = self.decided(upstream, page, &mut worked.work).await?;
            self.fetch_and_apply(upstream, taken, is_fresh, &mut worked).await?;
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
    ) -> Result<Vec<Wanted>, Problem> {
        let in_force = self.in_force().await?;
        let policy = self.policy.load_full();
        let rank = self.rank(upstream);
        let (mut taken, mut refused) = (Vec::new(), Vec::new());
        for pending in page {
            match decide(&policy, rank, &pending.noted.name, &pending.standing) {
                Decision::Take => {
                    let has_versions = pending.standing.has_versions;
                    taken.push(Wanted { noted: pending.noted, has_versions });
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

    /// Holds at most `batch_bytes` and one `/info` for each request.
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
                        let limits = (self.limits.info_bytes_max, self.limits.info_timeout);
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
            // A task that was given up has fetched nothing: the name stays to be done.
            let Ok((index, fetched)) = fetched else { continue };
            self.take(upstream, index, fetched, &mut gathered, worked)?;
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
                upstream.metrics.left_out(info.left_out);
                self.gather(index, wanted, info.releases, bytes, gathered, worked);
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

    /// What would take a name's last version away waits for the end of the look.
    fn gather(
        &self,
        index: usize,
        wanted: Wanted,
        releases: Vec<Release>,
        bytes: usize,
        gathered: &mut Gathered,
        worked: &mut Worked,
    ) {
        match releases.is_empty() && wanted.has_versions {
            true => worked.leaving.add(wanted.noted, self.limits.names_gone_max),
            false => gathered.add(index, MirroredGem { noted: wanted.noted, releases }, bytes),
        }
    }

    /// Takes away what has no version at its upstream any more, if that is not too much to be meant.
    pub(super) async fn let_go(
        &self,
        upstream: &Upstream,
        worked: Worked,
    ) -> Result<Work, Problem> {
        let Worked { mut work, leaving: Leaving { names, total: gone } } = worked;
        let max = self.limits.names_gone_max;
        if gone > max {
            return Err(Problem::Vanished { gone, limit: "names_gone_max", max });
        }
        for some in names.chunks(self.limits.batch_gems.max(1)) {
            let mut gathered = Gathered::default();
            for (index, noted) in some.iter().cloned().enumerate() {
                gathered.add(index, MirroredGem { noted, releases: Vec::new() }, 0);
            }
            self.apply(upstream, &mut gathered, &mut work).await?;
        }
        Ok(work)
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

/// The digest of an `/info` without releases: there is nothing to ask for.
pub(super) fn without_releases() -> [u8; 16] {
    Digests::of(HEADER.as_bytes()).md5
}

async fn fetch(
    client: &Client,
    wanted: Wanted,
    md5: [u8; 16],
    is_fresh: bool,
    (bytes_max, timeout): (usize, std::time::Duration),
) -> Fetched {
    let path = info_path(wanted.noted.name.as_str());
    let ask = Ask { is_fresh, ..Ask::all(&path, timeout) };
    let text = match client.text(&ask, bytes_max).await {
        Ok((status, text)) if status.as_u16() == 200 => text,
        // What has no release any more may be told so.
        Ok(_) => HEADER.as_bytes().to_vec(),
        Err(error) => return Fetched::Failed(error),
    };
    if Digests::of(&text).md5 != md5 {
        return Fetched::Mismatched;
    }
    match read_info(&text) {
        Ok(info) => Fetched::Gem { wanted, info, bytes: text.len() },
        Err(error) => {
            tracing::warn!(gem = %wanted.noted.name, %error, "an upstream's /info can't be read");
            Fetched::Unreadable
        }
    }
}
