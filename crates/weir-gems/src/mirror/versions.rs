//! Reads an upstream's `/versions`: the tail after the known position, or all of it.
//!
//! Nothing is recorded before the whole text was checked. Names are recorded first and the position
//! with the last of them, so that the same part is read again after a crash.

mod compare;
mod reading;

use hyper::header;

use self::reading::{Listed, Reading};
use super::claims::{Claims, is_md5};
use super::client::{Answer, Ask, FetchError};
use super::error::Problem;
use super::progress::{Phase, Progress};
use super::{Mirror, Upstream};
use crate::index::digest::RunningDigest;
use crate::store::mirror::{Noted, Position};

const PATH: &str = "/versions";
/// Number of names to record in one transaction.
const BATCH: usize = 5_000;

/// How much to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// The part that was added since the last time.
    Tail,
    /// Like [`Look::Tail`], bypassing caches.
    FreshTail,
    /// Everything, compared with the recorded state.
    Whole,
}

/// Outcome of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Nothing has changed.
    Unchanged,
    /// The tail was read; the number of names that have changed.
    Tail(u64),
    /// All of it was read; the number of names that differed.
    Whole(u64),
}

impl Read {
    /// Returns the number of names that have changed.
    #[must_use]
    pub const fn names(self) -> u64 {
        match self {
            Self::Unchanged => 0,
            Self::Tail(names) | Self::Whole(names) => names,
        }
    }
}

/// Outcome of requesting a tail.
enum Tail {
    Unchanged,
    Read(Listed, Position),
    /// The upstream sends the whole text.
    Whole(Box<Answer>),
    /// The response does not continue the text that was read: the upstream has rewritten it.
    Other(&'static str),
}

impl Mirror {
    pub(super) async fn read_versions(
        &self,
        upstream: &Upstream,
        look: Look,
        progress: Progress<'_>,
    ) -> Result<Read, Problem> {
        progress.report(upstream, Phase::Versions, 0, None);
        let position = match look {
            Look::Whole => None,
            Look::Tail | Look::FreshTail => self.store.position(upstream.name.as_str()).await?,
        };
        if let Some(position) = position {
            let is_fresh = look == Look::FreshTail;
            match self.read_tail(upstream, &position, is_fresh).await? {
                Tail::Unchanged => return Ok(Read::Unchanged),
                Tail::Read(listed, position) => {
                    let names = self.note(upstream, listed.in_order(), position).await?;
                    return Ok(Read::Tail(names));
                }
                Tail::Whole(answer) => return self.read_whole(upstream, *answer, progress).await,
                Tail::Other(reason) => {
                    let upstream = upstream.name.as_str();
                    tracing::info!(upstream, reason, "/versions is read from its beginning");
                }
            }
        }
        let ask = Ask { is_fresh: true, ..Ask::all(PATH, self.limits.download_limit()) };
        let answer = upstream.client.get(&ask).await.map_err(unread)?;
        self.read_whole(upstream, answer, progress).await
    }

    async fn read_tail(
        &self,
        upstream: &Upstream,
        position: &Position,
        is_fresh: bool,
    ) -> Result<Tail, Problem> {
        let from = position.length - position.overlap.len() as u64;
        let ask = Ask {
            path: PATH,
            from: Some(from),
            known: position.etag.as_deref(),
            is_fresh,
            timeout: self.limits.download_limit(),
        };
        let mut answer = upstream.client.get(&ask).await.map_err(unread)?;
        match answer.status().as_u16() {
            304 => return Ok(Tail::Unchanged),
            200 => return Ok(Tail::Whole(Box::new(answer))),
            206 if is_range_from(answer.header(&header::CONTENT_RANGE), from) => {}
            206 => return Ok(Tail::Other("the upstream sends another range")),
            416 => return Ok(Tail::Other("it is shorter than it was")),
            status => return Err(Problem::NoVersions(status)),
        }
        let claims = Claims::of(&answer);
        let mut reading = Reading::go_on(position, &self.limits)?;
        let mut overlap = &position.overlap[..];
        while let Some(chunk) = answer.chunk().await.map_err(unread)? {
            let known = overlap.len().min(chunk.len());
            if overlap[..known] != chunk[..known] {
                return Ok(Tail::Other("it does not continue where it ended"));
            }
            overlap = &overlap[known..];
            if reading.feed(&chunk[known..]).is_err() {
                return Ok(Tail::Other("its tail can't be read"));
            }
        }
        if !overlap.is_empty() {
            return Ok(Tail::Other("it is shorter than it was"));
        }
        Ok(match reading.finish(claims, are_tags_md5(position)) {
            Ok((listed, position)) => Tail::Read(listed, position),
            Err(_) => Tail::Other("it has another digest than with its tail"),
        })
    }

    async fn read_whole(
        &self,
        upstream: &Upstream,
        mut answer: Answer,
        progress: Progress<'_>,
    ) -> Result<Read, Problem> {
        if answer.status().as_u16() != 200 {
            return Err(Problem::NoVersions(answer.status().as_u16()));
        }
        let claims = Claims::of(&answer);
        let total = answer.header(&header::CONTENT_LENGTH).and_then(|text| text.parse().ok());
        let mut reading = Reading::new(&self.limits);
        while let Some(chunk) = answer.chunk().await.map_err(unread)? {
            reading.feed(&chunk)?;
            progress.report(upstream, Phase::Versions, reading.length(), total);
        }
        upstream.metrics.left_out(reading.malformed());
        let (listed, position) = reading.finish(claims, false)?;
        let noted = self.compare(upstream, listed).await?;
        Ok(Read::Whole(self.note(upstream, noted, position).await?))
    }

    /// Records names and returns their number.
    async fn note(
        &self,
        upstream: &Upstream,
        noted: Vec<Noted>,
        position: Position,
    ) -> Result<u64, Problem> {
        let count = noted.len() as u64;
        let mut batches = noted.into_iter();
        loop {
            let batch: Vec<_> = batches.by_ref().take(BATCH).collect();
            let is_last = batches.len() == 0;
            let position = is_last.then(|| position.clone());
            self.store.note(upstream.name.as_str(), batch, position).await?;
            if is_last {
                return Ok(count);
            }
        }
    }
}

fn unread(error: FetchError) -> Problem {
    Problem::of_request(PATH, &error)
}

/// Returns whether a header such as `bytes 5-9/10` begins at `from`.
fn is_range_from(header: Option<&str>, from: u64) -> bool {
    let first = header.and_then(|text| text.strip_prefix("bytes ")?.split('-').next());
    first.and_then(|text| text.parse().ok()) == Some(from)
}

/// Returns whether the entity tag of the recorded text is its MD5. The next one is then assumed to
/// be, too.
fn are_tags_md5(position: &Position) -> bool {
    let digests = RunningDigest::restore(&position.digest_state).map(|digest| digest.digests());
    match (&position.etag, digests) {
        (Some(etag), Ok(digests)) => is_md5(etag, &digests),
        _ => false,
    }
}
