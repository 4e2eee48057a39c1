//! All types with their figures, and the limit of their number.

use std::collections::HashMap;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use weir_base::clock::Timestamp;

use super::figures::{RunError, TypeFigures, cut};
use super::groups::Grouped;
use super::returned::ReturnedJobs;
use super::slices::{SLICE, WINDOW};

/// The name under which all types beyond the limit share their figures. A type of this name shares them too.
pub const OTHER_TYPES: &str = "other";

/// Bytes of a type's name, which is the default of `limits.id_bytes_max`.
const NAME_BYTES_MAX: usize = 255;
/// How often an idle type is searched whose place a new one could take.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TypeLimits {
    /// `limits.job_types_max`.
    pub(crate) types_max: usize,
    /// `limits.job_type_groups_max`.
    pub(crate) groups_max: usize,
}

/// Counts the hits of those limits.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypeLimitHits {
    pub(crate) types: Counter,
    pub(crate) groups: Counter,
}

/// A place in the table. It stays that of its type while a job of it is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TypeEntry(usize);

/// That of [`OTHER_TYPES`].
const OTHER: TypeEntry = TypeEntry(0);

/// One type.
#[derive(Debug)]
pub(super) struct JobType {
    pub(super) name: Box<str>,
    pub(super) figures: TypeFigures,
}

/// All types.
#[derive(Debug)]
pub(super) struct TypeTable {
    limits: TypeLimits,
    hits: TypeLimitHits,
    by_name: HashMap<Box<str>, TypeEntry>,
    types: Vec<JobType>,
    returned: ReturnedJobs,
    /// There is no idle type before.
    search_from: Timestamp,
    /// The first and the latest time that is known.
    since: Timestamp,
    now: Timestamp,
    is_shared: bool,
}

impl JobType {
    fn new(name: &str) -> Self {
        Self { name: name.into(), figures: TypeFigures::default() }
    }
}

impl TypeTable {
    pub(super) fn new(limits: TypeLimits, hits: TypeLimitHits) -> Self {
        Self {
            limits,
            hits,
            by_name: HashMap::from([(OTHER_TYPES.into(), OTHER)]),
            types: vec![JobType::new(OTHER_TYPES)],
            returned: ReturnedJobs::default(),
            search_from: Timestamp::default(),
            since: Timestamp::default(),
            now: Timestamp::default(),
            is_shared: false,
        }
    }

    pub(super) fn begin(&mut self, now: Timestamp, is_shared: bool) {
        self.since = now;
        self.is_shared = is_shared;
        self.note_time(now);
    }

    /// Notes the time. If the clock was set back by more than a slice, nothing stays in the future: until that time came,
    /// recent figures would be wrong.
    pub(super) fn note_time(&mut self, now: Timestamp) {
        if now + SLICE >= self.now {
            self.now = self.now.max(now);
            return;
        }
        (self.now, self.since, self.search_from) = (now, self.since.min(now), now);
        self.returned = ReturnedJobs::default();
        self.types.iter_mut().for_each(|it| it.figures.set_back(now));
    }

    pub(super) fn since(&self) -> Timestamp {
        self.since
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    pub(super) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Returns the type at a place: that of [`OTHER_TYPES`] is the first.
    pub(super) fn at(&self, place: usize) -> Option<&JobType> {
        self.types.get(place)
    }

    pub(super) fn named(&self, name: &str) -> Option<&JobType> {
        let entry = self.by_name.get(cut(name, NAME_BYTES_MAX))?;
        self.types.get(entry.0)
    }

    /// Returns the place of a type. A new one takes the place of one that had no job for an hour, if there is no room.
    pub(super) fn entry_for(&mut self, name: &str, now: Timestamp) -> TypeEntry {
        let name = cut(name, NAME_BYTES_MAX);
        if let Some(entry) = self.by_name.get(name) {
            return *entry;
        }
        let entry = if self.types.len() <= self.limits.types_max {
            self.types.push(JobType::new(name));
            TypeEntry(self.types.len() - 1)
        } else {
            let Some(idle) = self.idle_type(now) else { return OTHER };
            let replaced = std::mem::replace(&mut self.types[idle.0], JobType::new(name));
            self.by_name.remove(&replaced.name);
            idle
        };
        // Otherwise its place could be given away before its first job starts.
        self.types[entry.0].figures.last_at = now;
        self.by_name.insert(name.into(), entry);
        entry
    }

    fn idle_type(&mut self, now: Timestamp) -> Option<TypeEntry> {
        if now < self.search_from {
            return None;
        }
        let of_names = self.types.iter().enumerate().skip(1);
        let free = of_names.filter(|(_, it)| it.figures.running == 0);
        let idle =
            free.min_by_key(|(_, it)| it.figures.last_at).map(|(at, it)| (at, it.figures.last_at));
        let found = idle.filter(|(_, last_at)| now.since(*last_at) >= WINDOW);
        if found.is_none() {
            self.search_from = now + SEARCH_INTERVAL;
        }
        found.map(|(at, _)| TypeEntry(at))
    }

    /// Counts a job that starts. `ready_at` is when it was ready to run, if that is known.
    pub(super) fn start(
        &mut self,
        entry: TypeEntry,
        jid: &str,
        queue: &str,
        ready_at: Option<Timestamp>,
        now: Timestamp,
    ) {
        self.note_time(now);
        if entry == OTHER {
            self.hits.types.inc();
        }
        // A return counts until the job is ready anew: after a retry, or when an operator puts it back.
        let ready_at = self.returned.time_of(jid).max(ready_at);
        let waited = ready_at.map(|ready_at| now.since(ready_at));
        let groups_max = self.limits.groups_max;
        let grouped = self.figures(entry).start(queue, waited, groups_max, now);
        self.count_group(grouped);
    }

    pub(super) fn resume(&mut self, entry: TypeEntry, now: Timestamp) {
        self.figures(entry).resume(now);
    }

    pub(super) fn succeed(&mut self, entry: TypeEntry, ran: Duration, now: Timestamp) {
        self.note_time(now);
        self.figures(entry).succeed(ran, now);
    }

    pub(super) fn fail(
        &mut self,
        entry: TypeEntry,
        error: &RunError<'_>,
        ran: Duration,
        now: Timestamp,
    ) {
        self.note_time(now);
        let groups_max = self.limits.groups_max;
        let grouped = self.figures(entry).fail(error, ran, groups_max, now);
        self.count_group(grouped);
    }

    /// Counts a started job that did not end, at the latest time that is known.
    pub(super) fn give_back(&mut self, entry: TypeEntry) {
        let now = self.now;
        self.figures(entry).give_back(now);
    }

    /// Notes that a job waits again since `now`.
    pub(super) fn note_returned(&mut self, jid: &str, now: Timestamp) {
        self.note_time(now);
        self.returned.insert(jid, now);
    }

    fn figures(&mut self, entry: TypeEntry) -> &mut TypeFigures {
        &mut self.types[entry.0].figures
    }

    fn count_group(&self, grouped: Grouped) {
        if grouped == Grouped::AsOther {
            self.hits.groups.inc();
        }
    }
}
