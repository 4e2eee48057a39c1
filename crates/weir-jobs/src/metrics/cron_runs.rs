//! Times of cron jobs that were handled, by result.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// What became of a time of a cron job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CronRunResult {
    Enqueued,
    /// Enqueued more than a minute after its time.
    Late,
    /// Left out, because it was more than a minute late (`missed = "skip"`).
    Missed,
    /// Left out, because the cron job is paused.
    Paused,
    /// The job could not be stored; counted for each attempt.
    Failed,
}

impl CronRunResult {
    const ALL: [Self; 5] = [Self::Enqueued, Self::Late, Self::Missed, Self::Paused, Self::Failed];

    const fn label(self) -> &'static str {
        match self {
            Self::Enqueued => "enqueued",
            Self::Late => "late",
            Self::Missed => "missed",
            Self::Paused => "paused",
            Self::Failed => "failed",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

/// The counters, by [`CronRunResult`].
pub(super) type CronRuns = [Counter; CronRunResult::ALL.len()];

pub(super) fn register(registry: &mut Registry) -> CronRuns {
    let family = Family::<ResultLabel, Counter>::default();
    registry.register(
        "cron_runs",
        "Times of cron jobs by result: enqueued; late (more than a minute); missed or paused (no job); failed (the job could not be stored: each attempt)",
        family.clone(),
    );
    CronRunResult::ALL
        .map(|result| family.get_or_create_owned(&ResultLabel { result: result.label() }))
}
