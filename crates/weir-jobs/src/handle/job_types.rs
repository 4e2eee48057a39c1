//! Requests for statistics by type of job.

use std::cmp::Ordering;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job_types::WINDOW_MINUTES_MAX;
use crate::view::JobTypeView;

/// Which figures of all types to return. In a URL: `?sort=failed&minutes=15`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobTypesQuery {
    #[serde(default)]
    pub sort: TypeOrder,
    /// Covers at least this many recent minutes (1 to 60), in slices of five minutes. Default: 60.
    #[serde(default)]
    pub minutes: Option<u32>,
    /// Only types that had a job from this queue, or may have had one: they had jobs from more queues than
    /// `limits.job_type_groups_max`. Their figures are those of all queues.
    #[serde(default)]
    pub queue: Option<String>,
}

/// One type, and which of its figures to return. In a URL: `?name=Mailer&minutes=15`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobTypeQuery {
    pub name: String,
    /// As in [`JobTypesQuery`].
    #[serde(default)]
    pub minutes: Option<u32>,
}

/// The order of types. Those that are equal are in the order of their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TypeOrder {
    /// The longest recent run time of all jobs together first: what takes the workers' time.
    #[default]
    Run,
    /// The most recent failures first.
    Failed,
    /// The most recent starts first.
    Started,
    /// The longest recent wait (95th percentile) first.
    Wait,
    /// By name.
    Name,
}

impl TypeOrder {
    /// All orders, with the default first.
    pub const ALL: [Self; 5] = [Self::Run, Self::Failed, Self::Started, Self::Wait, Self::Name];

    /// Returns its name in a URL.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Failed => "failed",
            Self::Started => "started",
            Self::Wait => "wait",
            Self::Name => "name",
        }
    }

    /// Sorts types.
    pub fn sort(self, types: &mut [JobTypeView]) {
        let wait = |it: &JobTypeView| it.wait.map_or(0.0, |wait| wait.p95);
        types.sort_by(|one, other| {
            let by_figure = match self {
                Self::Run => other.recent.run_seconds.total_cmp(&one.recent.run_seconds),
                Self::Failed => other.recent.failed.cmp(&one.recent.failed),
                Self::Started => other.recent.started.cmp(&one.recent.started),
                Self::Wait => wait(other).total_cmp(&wait(one)),
                Self::Name => Ordering::Equal,
            };
            by_figure.then_with(|| one.jobtype.cmp(&other.jobtype))
        });
    }
}

impl JobTypesQuery {
    pub(super) fn window(&self) -> Result<u32, String> {
        checked(self.minutes)
    }
}

impl JobTypeQuery {
    pub(super) fn window(&self) -> Result<u32, String> {
        checked(self.minutes)
    }
}

fn checked(minutes: Option<u32>) -> Result<u32, String> {
    let minutes = minutes.unwrap_or(WINDOW_MINUTES_MAX);
    if (1..=WINDOW_MINUTES_MAX).contains(&minutes) {
        return Ok(minutes);
    }
    Err(format!("minutes: {minutes} is not between 1 and {WINDOW_MINUTES_MAX}"))
}
