//! Names that no longer have versions at their upstream. They are removed at the end of the
//! synchronization, if there are not suspiciously many.

use std::sync::Arc;

use super::Work;
use super::apply::Gathered;
use super::denied::Denials;
use super::fetch::Wanted;
use crate::mirror::error::Problem;
use crate::mirror::{Mirror, Upstream};
use crate::release::Release;
use crate::store::mirror::{MirroredGem, Noted};

/// Work that was done, and work that is left for the end of the synchronization.
#[derive(Default)]
pub(in crate::mirror) struct Worked {
    pub(in crate::mirror) work: Work,
    leaving: Leaving,
    pub(in crate::mirror) denials: Denials,
}

/// Names that would lose all their versions.
#[derive(Default)]
struct Leaving {
    /// At most one more than may be removed.
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

/// The policy is checked when the gem is applied, so the fields that depend on it are empty.
fn gem(noted: Noted, releases: Vec<Release>) -> MirroredGem {
    MirroredGem { noted, releases, is_invited: false, earlier: Arc::default() }
}

impl Mirror {
    /// Adds a fetched gem, or, if it would lose its last version, postpones it to the end of the
    /// synchronization.
    pub(super) fn gather(
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
            false => {
                let gem = gem(wanted.noted, releases);
                gathered.add(index, gem, bytes);
            }
        }
    }

    /// Removes names without versions at their upstream, unless there are suspiciously many.
    pub(in crate::mirror) async fn let_go(
        &self,
        upstream: &Upstream,
        worked: Worked,
    ) -> Result<Work, Problem> {
        let Worked { mut work, leaving: Leaving { names, total: gone }, .. } = worked;
        self.count_gone(upstream, gone).await?;
        for some in names.chunks(self.limits.batch_gems.max(1)) {
            let mut gathered = Gathered::default();
            for (index, noted) in some.iter().cloned().enumerate() {
                gathered.add(index, gem(noted, Vec::new()), 0);
            }
            self.apply(upstream, &mut gathered, &mut work).await?;
        }
        Ok(work)
    }
}
