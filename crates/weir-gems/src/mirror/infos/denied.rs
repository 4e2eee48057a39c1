//! Names whose `/info` an upstream does not give out (401, 403) though it lists them. They stay to be
//! done, and are told; but they are not asked for with each look, since one that gives out what is on
//! a list of its own denies nearly all that there is. After a `reconcile_interval` they are again, as
//! everything is compared again, or sooner if an operator says so; and what has changed of one is at once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashbrown::HashSet;
use weir_base::clock::Timestamp;

use super::Worked;
use super::fetch::Wanted;
use crate::mirror::error::Problem;
use crate::mirror::state::DENIED_NAMES_MAX;
use crate::mirror::{Mirror, Upstream};
use crate::name::GemName;

/// Batches of names that are asked for in one look though each is denied and nothing comes: then the
/// credentials are wrong rather than the names. The next look goes on behind them.
const BATCHES_IN_VAIN_MAX: usize = 10;

/// What one upstream has denied.
#[derive(Debug, Default)]
pub(in crate::mirror) struct Denied(
    /// std: held to look one up or to add it.
    Mutex<Remembered>,
);

#[derive(Debug, Default)]
struct Remembered {
    since: Option<Timestamp>,
    /// Places in the order of what was noted.
    sequences: HashSet<u64>,
}

/// What one look was denied.
#[derive(Debug, Default)]
pub(in crate::mirror) struct Denials {
    /// The first of them.
    pub(in crate::mirror) names: Vec<GemName>,
    /// Names that were asked for and denied.
    asked: usize,
    /// Whether anything was given out.
    pub(super) has_given: bool,
}

impl Denied {
    /// From now on all are asked for again.
    pub(in crate::mirror) fn forget(&self) {
        *self.remembered() = Remembered::default();
    }

    /// The same, if the first was denied so long ago.
    pub(super) fn forget_after(&self, interval: Duration, now: Timestamp) {
        let is_old = |since: Timestamp| now.since(since) >= interval;
        if self.remembered().since.is_some_and(is_old) {
            self.forget();
        }
    }

    fn has(&self, sequence: u64) -> bool {
        self.remembered().sequences.contains(&sequence)
    }

    fn add(&self, sequence: u64, now: Timestamp) {
        let mut remembered = self.remembered();
        remembered.since.get_or_insert(now);
        remembered.sequences.insert(sequence);
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Worked {
    fn denied(&mut self, name: &GemName) {
        self.work.denied += 1;
        if self.denials.names.len() < DENIED_NAMES_MAX {
            self.denials.names.push(name.clone());
        }
    }
}

impl Mirror {
    /// Those that were not denied a while ago.
    pub(super) fn not_denied(
        &self,
        upstream: &Upstream,
        wanted: Vec<Wanted>,
        worked: &mut Worked,
    ) -> Vec<Wanted> {
        let is_denied = |wanted: &Wanted| upstream.denied.has(wanted.sequence);
        let (denied, asked): (Vec<_>, Vec<_>) = wanted.into_iter().partition(is_denied);
        denied.iter().for_each(|wanted| worked.denied(&wanted.noted.name));
        asked
    }

    /// The name is not given out; an error if nothing is.
    pub(super) fn deny(
        &self,
        upstream: &Upstream,
        wanted: &Wanted,
        problem: Problem,
        worked: &mut Worked,
    ) -> Result<(), Problem> {
        upstream.denied.add(wanted.sequence, self.clock.now());
        upstream.missed(problem.to_string());
        worked.denied(&wanted.noted.name);
        worked.denials.asked += 1;
        let is_in_vain = worked.denials.asked > BATCHES_IN_VAIN_MAX * self.limits.batch_gems;
        match is_in_vain && !worked.denials.has_given {
            true => Err(problem),
            false => Ok(()),
        }
    }
}
