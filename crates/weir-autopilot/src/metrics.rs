//! The metrics of the autopilot.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::journal::{EntryKind, EntryOutcome};
use crate::lease::LeaseState;
use crate::mode::Mode;
use crate::view::AutopilotStatus;

type FloatGauge = Gauge<f64, AtomicU64>;

/// The age of data that were never fresh, for an alert.
const NEVER_SECONDS: f64 = 1e9;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModeLabel {
    mode: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DirectionLabel {
    direction: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

/// The metrics. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct AutopilotMetrics {
    mode: Family<ModeLabel, Gauge>,
    lease: Family<StateLabel, Gauge>,
    data_age: FloatGauge,
    limits: Gauge,
    workers: Gauge,
    sessions: FloatGauge,
    lock_waits: FloatGauge,
    slowdown: FloatGauge,
    confidence: FloatGauge,
    left_out: Gauge,
    entries: Family<KindLabel, Counter>,
    outcomes: Family<OutcomeLabel, Counter>,
    journal_errors: Counter,
    moved_jobs: Family<DirectionLabel, Counter>,
}

/// Where jobs of a limited job type of Sidekiq are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// To the queue of the job type.
    Out,
    /// Back to the queue that they came from.
    Back,
}

impl AutopilotMetrics {
    /// Creates and registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let of = registry.sub_registry_with_prefix("weir_autopilot");
        of.register("mode", "1 for the mode in force", metrics.mode.clone());
        of.register(
            "lease",
            "1 for who may act while the mode is on: held (this autopilot), waiting, other, unknown",
            metrics.lease.clone(),
        );
        of.register(
            "data_age_seconds",
            "Age of the data that decisions are based on; 0 while it is off",
            metrics.data_age.clone(),
        );
        of.register("limits", "Limits in force", metrics.limits.clone());
        of.register(
            "workers",
            "Workers that run jobs or wait for one: the most of five minutes",
            metrics.workers.clone(),
        );
        of.register("database_sessions", "Busy database sessions", metrics.sessions.clone());
        of.register(
            "database_lock_waits",
            "Database sessions that wait for a lock",
            metrics.lock_waits.clone(),
        );
        of.register(
            "database_slowdown",
            "Database time of jobs, in normal times",
            metrics.slowdown.clone(),
        );
        of.register(
            "attribution_confidence",
            "How certain it is which job type a database session belongs to, 0 to 1",
            metrics.confidence.clone(),
        );
        of.register(
            "left_out",
            "Queues and job types beyond autopilot.limits.advanced.queues_max and classes_max",
            metrics.left_out.clone(),
        );
        of.register("journal_entries", "Entries of the journal by kind", metrics.entries.clone());
        of.register("outcomes", "Outcomes of decisions", metrics.outcomes.clone());
        of.register(
            "journal_errors",
            "Entries that could not be written to the journal",
            metrics.journal_errors.clone(),
        );
        of.register(
            "moved_jobs",
            "Jobs of a limited job type of Sidekiq that were moved to its own queue (out) and back",
            metrics.moved_jobs.clone(),
        );
        metrics
    }

    pub(crate) fn show(&self, status: &AutopilotStatus) {
        for mode in [Mode::Off, Mode::Advise, Mode::On] {
            let label = ModeLabel { mode: weir_settings::Choice::word(mode) };
            self.mode.get_or_create(&label).set(i64::from(mode == status.mode));
        }
        let state = status.lease.as_ref().map(|lease| lease.state);
        for of in LeaseState::ALL {
            let label = StateLabel { state: of.name() };
            self.lease.get_or_create(&label).set(i64::from(state == Some(of)));
        }
        let age = status.data_age_seconds.unwrap_or(NEVER_SECONDS);
        self.data_age.set(if status.mode == Mode::Off { 0.0 } else { age });
        self.limits.set(i64::try_from(status.limits.len()).unwrap_or(i64::MAX));
        self.workers.set(i64::from(status.workers));
        let database = status.database.clone().unwrap_or_default();
        self.sessions.set(database.sessions);
        self.lock_waits.set(database.lock_waits);
        self.slowdown.set(database.slowdown);
        self.confidence.set(database.confidence);
        self.left_out.set(i64::try_from(status.left_out).unwrap_or(i64::MAX));
    }

    /// Counts jobs that were moved because of a limit.
    pub fn count_moved(&self, moved: Moved, jobs: u64) {
        let direction = match moved {
            Moved::Out => "out",
            Moved::Back => "back",
        };
        self.moved_jobs.get_or_create(&DirectionLabel { direction }).inc_by(jobs);
    }

    pub(crate) fn count(&self, kind: EntryKind, outcome: Option<EntryOutcome>) {
        self.entries.get_or_create(&KindLabel { kind: kind.name() }).inc();
        let outcome = match outcome {
            Some(EntryOutcome::Helped) => "helped",
            Some(EntryOutcome::DidNotHelp) => "did-not-help",
            Some(EntryOutcome::Unclear) => "unclear",
            None => return,
        };
        self.outcomes.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    pub(crate) fn journal_error(&self) {
        self.journal_errors.inc();
    }

    pub(crate) fn journal_errors(&self) -> u64 {
        self.journal_errors.get()
    }
}
