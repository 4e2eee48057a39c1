//! The values of one job.

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use weir_base::clock::Timestamp;

use super::buckets;
use crate::job_class::job_class;
use crate::key_path::KeyPath;
use crate::model::{JobLocation, SetName};
use crate::stamp;
use crate::store::StoredJob;

/// What jobs are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupKind {
    Jobtype,
    Queue,
    Key,
    Error,
    Age,
    Due,
    Size,
}

impl GroupKind {
    pub(super) const ALL: [Self; 7] =
        [Self::Jobtype, Self::Queue, Self::Key, Self::Error, Self::Age, Self::Due, Self::Size];

    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Jobtype => "jobtype",
            Self::Queue => "queue",
            Self::Key => "key",
            Self::Error => "error",
            Self::Age => "age",
            Self::Due => "due",
            Self::Size => "size",
        }
    }

    /// Returns whether the values are ranges, which have an order of their own.
    pub(super) const fn has_ranges(self) -> bool {
        matches!(self, Self::Age | Self::Due | Self::Size)
    }

    /// Returns whether jobs in `place` are grouped by it.
    pub(super) fn applies(self, place: &JobLocation, by: Option<&KeyPath>) -> bool {
        match self {
            Self::Jobtype | Self::Error | Self::Age | Self::Size => true,
            Self::Queue => matches!(place, JobLocation::Set(_)),
            Self::Key => by.is_some(),
            Self::Due => is_due_later(place),
        }
    }

    /// Returns the value of a job. `None`: it has none.
    pub(super) fn value<'a>(
        self,
        job: &'a StoredJob,
        place: &JobLocation,
        by: Option<&KeyPath>,
        now: Timestamp,
    ) -> Option<Cow<'a, str>> {
        match self {
            Self::Jobtype => Some(job_class(&job.jobtype, &job.json)),
            Self::Queue => Some(Cow::Borrowed(job.queue.as_str())),
            Self::Key => key(job, by?),
            Self::Error => Some(Cow::Borrowed(&job.failure.as_ref()?.errtype)),
            Self::Age => Some(Cow::Borrowed(buckets::age(age(job, place, now)?))),
            Self::Due => Some(Cow::Borrowed(buckets::age(job.at.since(now)))),
            Self::Size => Some(Cow::Borrowed(buckets::size(job.json.len()))),
        }
    }
}

const fn is_due_later(place: &JobLocation) -> bool {
    matches!(place, JobLocation::Set(SetName::Scheduled | SetName::Retries))
}

#[derive(Deserialize)]
struct Created<'a> {
    #[serde(borrow)]
    created_at: Cow<'a, str>,
}

/// Returns how long a job has waited in its queue or has been dead; in the other sets, where its time
/// is when it is due, how old it is.
fn age(job: &StoredJob, place: &JobLocation, now: Timestamp) -> Option<Duration> {
    if !is_due_later(place) {
        return Some(now.since(job.at));
    }
    let created: Created<'_> = serde_json::from_slice(&job.json).ok()?;
    stamp::parse(&created.created_at).map(|created| now.since(created))
}

fn key(job: &StoredJob, by: &KeyPath) -> Option<Cow<'static, str>> {
    let parsed: Value = serde_json::from_slice(&job.json).ok()?;
    by.value(&parsed).map(|value| Cow::Owned(value.into_owned()))
}
