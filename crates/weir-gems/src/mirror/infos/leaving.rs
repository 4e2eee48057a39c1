//! Names that have no version at their upstream any more: what that takes away waits for the end of a
//! look, and is taken away if it is not too much to be meant.

use std::sync::Arc;

use super::Work;
use super::apply::Gathered;
use super::denied::Denials;
use super::fetch::Wanted;
use crate::mirror::error::Problem;
use crate::mirror::{Mirror, Upstream};
use crate::release::Release;
use crate::store::mirror::{MirroredGem, Noted};

/// What was done, and what is left to be done at the end of a look.
#[derive(Default)]
pub(in crate::mirror) struct Worked {
    pub(in crate::mirror) work: Work,
    leaving: Leaving,
    pub(in crate::mirror) denials: Denials,
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

/// What the policy says of it is asked when it is applied.
fn gem(noted: Noted, releases: Vec<Release>) -> MirroredGem {
    MirroredGem { noted, releases, is_invited: false, earlier: Arc::default() }
}

impl Mirror {
    /// What would take a name's last version away waits for the end of the look.
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

    /// Takes away what has no version at its upstream any more, if that is not too much to be meant.
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
