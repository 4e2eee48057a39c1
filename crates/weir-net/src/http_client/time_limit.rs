//! Time limits that know their setting, for errors.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use weir_settings::Setting;

use super::HttpError;

/// A time limit and the setting that defines it.
#[derive(Clone, Copy, Debug)]
pub struct TimeLimit {
    pub time: Duration,
    pub setting: &'static Setting,
}

/// The end of a time limit.
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

    /// Returns the deadline of a limit that starts now.
    #[must_use]
    pub fn from_now(self) -> Deadline {
        Deadline { at: Instant::now() + self.time, setting: self.setting }
    }
}

impl Deadline {
    /// Returns the earlier of two deadlines.
    pub(super) fn first(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        [one, other].into_iter().flatten().min_by_key(|deadline| deadline.at)
    }
}

/// Waits for `future` until `deadline`. The error is the setting of the deadline.
pub(super) async fn until<T>(
    deadline: Option<Deadline>,
    future: impl Future<Output = T>,
) -> Result<T, &'static Setting> {
    match deadline {
        None => Ok(future.await),
        Some(Deadline { at, setting }) => timeout_at(at, future).await.map_err(|_| setting),
    }
}

/// The time limits of a response.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseLimits {
    /// The deadline of the whole response.
    pub(super) deadline: Option<Deadline>,
    /// The limit of silence.
    pub(super) silence: Option<TimeLimit>,
}

impl ResponseLimits {
    /// Waits for the next part of a response. Fails if it exceeds a limit.
    pub(super) async fn wait<T>(&self, future: impl Future<Output = T>) -> Result<T, HttpError> {
        let silence = self.silence.map(TimeLimit::from_now);
        let first = Deadline::first(self.deadline, silence);
        until(first, future).await.map_err(|setting| match self.deadline {
            Some(whole) if first.is_some_and(|first| first.at == whole.at) => {
                HttpError::TimedOut(setting)
            }
            _ => HttpError::Silent(setting),
        })
    }
}
