//! Names that an upstream lists but whose `/info` it denies (401, 403). They stay pending and are
//! reported, but not requested at each synchronization, because an upstream with an allowlist
//! denies nearly all names. They are requested again after a `reconcile_interval`, as everything is
//! compared again; earlier if an operator requests it; and at once if the name has changed.

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

/// Maximum number of consecutive batches in one synchronization in which every name is denied.
/// Beyond that the credentials are probably wrong, rather than the names. The next synchronization
/// continues after them.
const BATCHES_IN_VAIN_MAX: usize = 10;

/// The names that one upstream has denied.
#[derive(Debug, Default)]
pub(in crate::mirror) struct Denied(
    /// A std mutex: it is locked only for one lookup or addition.
    Mutex<Remembered>,
);

#[derive(Debug, Default)]
struct Remembered {
    since: Option<Timestamp>,
    /// Positions of the recorded lines.
    sequences: HashSet<u64>,
}

/// Names that were denied in one synchronization.
#[derive(Debug, Default)]
pub(in crate::mirror) struct Denials {
    /// The first denied names.
    pub(in crate::mirror) names: Vec<GemName>,
    /// Number of denied requests.
    asked: usize,
    /// Whether any request was successful.
    pub(super) has_given: bool,
}

impl Denied {
    /// Forgets all denied names, so that they are requested again.
    pub(in crate::mirror) fn forget(&self) {
        *self.remembered() = Remembered::default();
    }

    /// Forgets all denied names if the first was denied at least `interval` ago.
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
    /// Returns the names that were not denied recently.
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

    /// Records that a name was denied. Returns an error if everything is denied.
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
