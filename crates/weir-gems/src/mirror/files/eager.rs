//! Fetches all files of an upstream in advance.

use super::FileError;
use crate::mirror::decide::forbidden;
use crate::mirror::error::Problem;
use crate::mirror::progress::{Phase, Progress};
use crate::mirror::{Mirror, Upstream};
use crate::store::mirror::MirroredRelease;

/// Number of releases in one page.
const PAGE: usize = 1_000;

/// Outcome of fetching all files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EagerFiles {
    pub fetched: u64,
    /// Number of files that could not be fetched; they are tried again the next time.
    pub failed: u64,
}

impl Mirror {
    pub(in crate::mirror) async fn fetch_missing(
        &self,
        upstream: &Upstream,
        progress: Progress<'_>,
    ) -> Result<EagerFiles, Problem> {
        let (mut done, mut failures) = (EagerFiles::default(), 0);
        let mut next = Some(0);
        while let Some(from) = next {
            let page = self.store.missing_files(upstream.name.as_str(), from, PAGE).await?;
            for release in &page.releases {
                match self.fetch_missing_file(upstream, release).await {
                    Ok(()) => {
                        done.fetched += 1;
                        failures = 0;
                    }
                    Err(FileError::Store(error)) => return Err(Problem::Fetch(error.to_string())),
                    Err(error) => {
                        tracing::warn!(%error, "a file was not fetched");
                        done.failed += 1;
                        // Other errors don't count: the upstream responds, so it may have the other
                        // files.
                        failures = match error {
                            FileError::Away { .. } => failures + 1,
                            _ => 0,
                        };
                        if failures >= self.limits.failures_max {
                            return Err(Problem::Fetch(error.to_string()));
                        }
                    }
                }
                progress.report(upstream, Phase::Files, done.fetched, None);
            }
            next = page.next;
        }
        Ok(done)
    }

    /// Fetches one file at a time, to leave the upstream free for files that clients wait for.
    async fn fetch_missing_file(
        &self,
        upstream: &Upstream,
        release: &MirroredRelease,
    ) -> Result<(), FileError> {
        if forbidden(&self.policy.load(), release.name.as_str(), &release.upstream).is_some() {
            return Ok(());
        }
        self.fetch_release(upstream, release).await.map(drop)
    }
}
