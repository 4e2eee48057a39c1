//! How long something may take, with the setting that says so.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use weir_settings::Setting;

use super::HttpError;

/// A duration from a setting.
#[derive(Clone, Copy, Debug)]
pub struct TimeLimit {
    pub time: Duration,
    pub setting: &'static Setting,
}

/// When a time limit is reached.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    at: Instant,
    setting: &'static Setting,
}

impl TimeLimit {
    #[must_use]
    pub const fn new(time: Duration, setting: &'static Setting) -> Self {
        Self { time, setting }
    }

    /// A limit that begins now.
    #[must_use]
    pub fn from_now(self) -> Deadline {
        Deadline { at: Instant::now() + self.time, setting: self.setting }
    }
}

impl Deadline {
    /// The earlier of two.
    pub(super) fn first(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        [one, other].into_iter().flatten().min_by_key(|deadline| deadline.at)
    }
}

/// Waits for `future`, at most until `deadline`; the error names the setting.
pub(super) async fn until<T>(
    deadline: Option<Deadline>,
    future: impl Future<Output = T>,
) -> Result<T, &'static Setting> {
    match deadline {
        None => Ok(future.await),
        Some(Deadline { at, setting }) => timeout_at(at, future).await.map_err(|_| setting),
    }
}

/// The limits of a response.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseLimits {
    /// For all of it.
    pub(super) deadline: Option<Deadline>,
    /// Without a byte of it.
    pub(super) silence: Option<TimeLimit>,
}

impl ResponseLimits {
    /// Waits for the next part of a response.
    pub(super) async fn wait<T>(&self, future: impl Future<Output = T>) -> Result<T, HttpError> {
        let silence = self.silence.map(TimeLimit::from_now);
        let is_deadline_first = match (silence, self.deadline) {
            (Some(silence), Some(deadline)) => deadline.at <= silence.at,
            (None, _) => true,
            (_, None) => false,
        };
        until(Deadline::first(self.deadline, silence), future).await.map_err(|setting| {
            match is_deadline_first {
                true => HttpError::TimedOut(setting),
                false => HttpError::Silent(setting),
            }
        })
    }
}
