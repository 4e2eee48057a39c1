//! Converts the figures into the plain data of [`crate::view`], one type at a time.

use std::time::Duration;

use weir_base::clock::Timestamp;

use super::figures::{FailedJob, TypeFigures, TypeTotal};
use super::groups::EventGroup;
use super::histogram::{DurationHistogram, as_f64, as_seconds};
use super::slices::{
    RunCounts, SLICE, SLICES, TypeSlice, WINDOW_MINUTES_MAX, slice_at, slice_start,
};
use super::statistics::JobTypes;
use super::table::{JobType, OTHER_TYPES, TypeTable};
use crate::view::{
    DurationsView, ErrorGroupView, JobTypeDetails, JobTypeView, JobTypesView, LastFailureView,
    TypeCounts, TypeFiguresSource, TypeQueueView, TypeSliceView,
};

/// The figures of a type for a scrape.
#[derive(Clone, Debug)]
pub struct TypeTotals {
    pub jobtype: String,
    pub running: u64,
    pub total: TypeCounts,
    pub wait: Option<DurationsView>,
    pub run: Option<DurationsView>,
}

/// The time that is read.
#[derive(Clone, Copy, Debug)]
struct ReadWindow {
    now: Timestamp,
    slices: usize,
}

impl ReadWindow {
    /// Returns the last `minutes`, and what else is in the slice of their beginning, as far as slices are kept. The present
    /// slice may have begun just now.
    fn of(table: &TypeTable, minutes: u32) -> Self {
        let slice_minutes = SLICE.as_secs() / 60;
        let slices = (u64::from(minutes).div_ceil(slice_minutes) + 1).min(SLICES as u64);
        let slices = usize::try_from(slices).unwrap_or(SLICES);
        Self { now: table.now(), slices }
    }

    /// Returns its length, which ends with the start of the statistics.
    fn length(self, since: Timestamp) -> Duration {
        let first = (slice_at(self.now) + 1).saturating_sub(self.slices as u64);
        self.now.since(slice_start(first).max(since))
    }
}

impl JobTypes {
    /// Returns all types that had a job, and those beyond the limit as one, over the last `minutes`. With a queue, those
    /// that had a job from it, or may have had one. Their order is not specified.
    #[must_use]
    pub fn read(&self, minutes: u32, queue: Option<&str>) -> JobTypesView {
        let (source, window) = self.source(minutes);
        let is_wanted = |figures: &TypeFigures| {
            figures.has_jobs() && queue.is_none_or(|queue| figures.may_be_from(queue))
        };
        let mut run_seconds = 0.0;
        let read = |it: &JobType| {
            run_seconds += it.figures.recent_run_seconds(window.now, window.slices);
            is_wanted(&it.figures).then(|| type_view(it, window))
        };
        let mut types: Vec<_> = self.each(read).collect();
        let other = types.iter().position(|it| it.jobtype == OTHER_TYPES);
        let other = other.map(|at| types.remove(at));
        JobTypesView { source, types, other, types_max: self.types_max() as u64, run_seconds }
    }

    /// Returns one type, if it had a job.
    #[must_use]
    pub fn read_one(&self, name: &str, minutes: u32) -> Option<JobTypeDetails> {
        let (source, window) = self.source(minutes);
        let found = {
            let table = self.lock();
            let found = table.named(name).filter(|it| it.figures.has_jobs())?;
            details(source, found, window)
        };
        Some(sorted(found))
    }

    /// Returns the figures of all types for a scrape.
    #[must_use]
    pub fn totals(&self) -> Vec<TypeTotals> {
        let (_, window) = self.source(WINDOW_MINUTES_MAX);
        let totals = |it: &JobType| {
            let recent = it.figures.recent(window.now, window.slices);
            it.figures.has_jobs().then(|| TypeTotals {
                jobtype: it.name.to_string(),
                running: it.figures.running,
                total: total_counts(&it.figures.total),
                wait: durations(&recent.wait),
                run: durations(&recent.run),
            })
        };
        self.each(totals).collect()
    }

    fn source(&self, minutes: u32) -> (TypeFiguresSource, ReadWindow) {
        // It is read from a file, for which no job may wait.
        let node = weir_base::node::hostname();
        let table = self.lock();
        let window = ReadWindow::of(&table, minutes);
        let source = TypeFiguresSource {
            node,
            now: table.now().as_secs_f64(),
            since: table.since().as_secs_f64(),
            window_seconds: window.length(table.since()).as_secs_f64(),
            is_shared: table.is_shared(),
        };
        (source, window)
    }

    /// Calls `read` for each type, and lets the jobs go on between two of them.
    fn each<T>(&self, mut read: impl FnMut(&JobType) -> Option<T>) -> impl Iterator<Item = T> {
        let mut place = 0;
        std::iter::from_fn(move || {
            loop {
                let table = self.lock();
                let value = read(table.at(place)?);
                drop(table);
                place += 1;
                if value.is_some() {
                    return value;
                }
            }
        })
    }
}

impl TypeFigures {
    fn has_jobs(&self) -> bool {
        self.total.counts != RunCounts::default() || self.running > 0
    }

    /// Queues beyond the limit of groups are not known by name.
    fn may_be_from(&self, queue: &str) -> bool {
        let is_known = self.queues.iter().any(|group| &*group.name == queue);
        is_known || self.queues.other().is_some()
    }
}

fn type_view(it: &JobType, window: ReadWindow) -> JobTypeView {
    let figures = &it.figures;
    let recent = figures.recent(window.now, window.slices);
    JobTypeView {
        jobtype: it.name.to_string(),
        running: figures.running,
        last_at: figures.last_at.as_secs_f64(),
        recent: recent_counts(&recent),
        total: total_counts(&figures.total),
        wait: durations(&recent.wait),
        run: durations(&recent.run),
        last_failure: figures.errors.last().map(last_failure),
    }
}

fn details(source: TypeFiguresSource, it: &JobType, window: ReadWindow) -> JobTypeDetails {
    let figures = &it.figures;
    let figures_of = type_view(it, window);
    let total = figures.total.counts.started;
    let queue = |group| queue(group, window, figures_of.recent.started, total);
    JobTypeDetails {
        errors: figures.errors.iter().map(|group| error(group, window)).collect(),
        other_errors: figures.errors.other().map(|group| error(group, window)),
        queues: figures.queues.iter().map(queue).collect(),
        other_queues: figures.queues.other().map(queue),
        slices: slices(figures, &source, window),
        source,
        figures: figures_of,
    }
}

/// Sorts errors and queues, the most frequent recent ones first.
fn sorted(mut details: JobTypeDetails) -> JobTypeDetails {
    details.errors.sort_by(|one, other| {
        let by_count = (other.recent, other.total).cmp(&(one.recent, one.total));
        by_count.then_with(|| other.last_at.total_cmp(&one.last_at))
    });
    details.queues.sort_by(|one, other| {
        (other.recent, other.total).cmp(&(one.recent, one.total)).then(one.queue.cmp(&other.queue))
    });
    details
}

/// Returns all slices of the window, also those without jobs.
fn slices(
    figures: &TypeFigures,
    source: &TypeFiguresSource,
    window: ReadWindow,
) -> Vec<TypeSliceView> {
    let present = slice_at(window.now);
    let first = (present + 1).saturating_sub(window.slices as u64);
    let begun =
        (first..=present).filter(|number| slice_start(number + 1).as_secs_f64() > source.since);
    let slice = |number| {
        let found = figures.slices.recent(window.now, window.slices).find(|it| it.number == number);
        let (none, at) = (TypeSlice::default(), slice_start(number).as_secs_f64());
        let slice = found.unwrap_or(&none);
        TypeSliceView {
            at: at.max(source.since),
            counts: recent_counts(slice),
            wait: durations(&slice.wait),
            run: durations(&slice.run),
        }
    };
    begun.map(slice).collect()
}

fn recent_counts(slice: &TypeSlice) -> TypeCounts {
    counts(slice.counts, slice.wait.sum_seconds(), slice.run.sum_seconds())
}

fn total_counts(total: &TypeTotal) -> TypeCounts {
    counts(total.counts, as_seconds(total.wait_micros), as_seconds(total.run_micros))
}

fn counts(counts: RunCounts, wait_seconds: f64, run_seconds: f64) -> TypeCounts {
    let RunCounts { started, succeeded, failed, returned } = counts;
    let ended = succeeded + failed;
    let failed_share = (ended > 0).then(|| as_f64(failed) / as_f64(ended));
    TypeCounts { started, ended, failed, returned, failed_share, wait_seconds, run_seconds }
}

fn durations(histogram: &DurationHistogram) -> Option<DurationsView> {
    Some(DurationsView {
        p50: histogram.quantile(0.5)?,
        p95: histogram.quantile(0.95)?,
        p99: histogram.quantile(0.99)?,
        max: histogram.max_seconds()?,
    })
}

fn last_failure(group: &EventGroup<FailedJob>) -> LastFailureView {
    LastFailureView {
        errtype: error_name(group),
        at: group.last_at.as_secs_f64(),
        since: group.since.as_secs_f64(),
    }
}

fn error(group: &EventGroup<FailedJob>, window: ReadWindow) -> ErrorGroupView {
    ErrorGroupView {
        errtype: error_name(group),
        recent: group.recent.recent(window.now, window.slices),
        total: group.total,
        first_at: group.first_at.as_secs_f64(),
        since: group.since.as_secs_f64(),
        last_at: group.last_at.as_secs_f64(),
        jid: group.example.jid.to_string(),
        message: group.example.message.to_string(),
    }
}

/// Returns the class of the errors. Those beyond the limit have none.
fn error_name(group: &EventGroup<FailedJob>) -> String {
    if group.name.is_empty() { "other".to_owned() } else { group.name.to_string() }
}

fn queue(
    group: &EventGroup<()>,
    window: ReadWindow,
    recent_of: u64,
    total_of: u64,
) -> TypeQueueView {
    let recent = group.recent.recent(window.now, window.slices);
    let share = |part, whole| if whole > 0 { as_f64(part) / as_f64(whole) } else { 0.0 };
    TypeQueueView {
        queue: if group.name.is_empty() { "other".to_owned() } else { group.name.to_string() },
        recent,
        recent_share: share(recent, recent_of),
        total: group.total,
        total_share: share(group.total, total_of),
    }
}
