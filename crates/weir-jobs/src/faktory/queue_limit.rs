//! Limits on the jobs that wait in a queue: a push of one more is rejected, with the time after which the next one may
//! succeed.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use crate::model::NewJob;
use crate::server::{JobService, Rate};
use crate::settings::{JobServerSettings, QueueSettings};
use crate::store::Store;

/// Clients are asked to wait until this part of a full queue (a tenth) has been processed, so that producers do not
/// return for one job each.
const FREED_PART: u64 = 10;
/// The shortest time that a client is asked to wait.
const RETRY_AFTER_MIN: Duration = Duration::from_secs(1);
/// The longest time that a client is asked to wait, also if nothing is processed.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// Why a job was not stored: too many jobs wait in its queue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "retry-after={} queue {queue} is full: {waiting} of {max} jobs wait (jobs.queues.{queue}.jobs_max); {}",
    .retry_after.as_secs(), Forecast(.drains_in)
)]
pub(crate) struct QueueFull {
    queue: String,
    waiting: u64,
    max: u64,
    /// `None`: it does not shrink.
    drains_in: Option<Duration>,
    retry_after: Duration,
}

/// Writes when a queue will be empty.
struct Forecast<'a>(&'a Option<Duration>);

impl fmt::Display for Forecast<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(time) => write!(
                formatter,
                "at the rate of the last minute it is empty in {} s",
                time.as_secs()
            ),
            None => formatter.write_str("it did not shrink in the last minute"),
        }
    }
}

impl QueueFull {
    fn new(queue: &str, waiting: u64, max: u64, rate: Rate) -> Self {
        Self {
            queue: queue.to_owned(),
            waiting,
            max,
            drains_in: rate.drain_seconds(waiting).map(Duration::from_secs_f64),
            retry_after: retry_after(rate, max),
        }
    }
}

/// The jobs of one push that were admitted and are not yet in the store, by queue.
#[derive(Debug, Default)]
pub(super) struct Admitted<'a>(HashMap<&'a str, u64>);

impl<'a> Admitted<'a> {
    /// Returns an error if a job must not be pushed because its queue is full. Jobs that are due later do not wait yet,
    /// and nothing rejects them once they are due.
    pub(super) fn admit<S: Store>(
        &mut self,
        job: &NewJob<'a>,
        service: &JobService<S>,
        settings: &JobServerSettings,
    ) -> Result<(), QueueFull> {
        let Some((queue, QueueSettings { jobs_max: Some(max), .. })) =
            settings.queues.get_key_value(job.queue).filter(|_| job.at.is_none())
        else {
            return Ok(());
        };
        let waiting = self.waiting(job.queue, service);
        if waiting >= *max {
            service.metrics.queue_full(job.queue);
            let rate = service.rates.borrow().last_minute(job.queue);
            return Err(QueueFull::new(job.queue, waiting, *max, rate));
        }
        *self.0.entry(job.queue).or_default() += 1;
        service.sampled_depths.add(queue);
        Ok(())
    }

    /// Returns how many jobs wait in a queue, those of this push included.
    fn waiting<S: Store>(&self, queue: &str, service: &JobService<S>) -> u64 {
        let admitted = || self.0.get(queue).copied().unwrap_or_default();
        match service.store.depth(queue) {
            Some(depth) => depth + admitted(),
            // With those of this push.
            None => service.sampled_depths.get(queue),
        }
    }
}

/// Returns the time until a part of the limit has been processed at the rate of the last minute, in whole seconds.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn retry_after(rate: Rate, max: u64) -> Duration {
    let freed = (max / FREED_PART).max(1) as f64;
    let seconds = (freed / rate.processed).ceil();
    // Infinite if nothing is processed.
    let time = Duration::try_from_secs_f64(seconds).unwrap_or(RETRY_AFTER_MAX);
    time.clamp(RETRY_AFTER_MIN, RETRY_AFTER_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(processed: f64) -> Rate {
        Rate { processed, pushed: 0.0 }
    }

    #[test]
    fn clients_return_when_a_tenth_of_the_queue_is_free() {
        let seconds = |processed, max| retry_after(rate(processed), max).as_secs();
        assert_eq!(seconds(10.0, 1_000), 10);
        assert_eq!(seconds(30.0, 1_000), 4, "rounded up");
        assert_eq!(seconds(10_000.0, 1_000), 1, "at least a second");
        assert_eq!(seconds(1.0, 1), 1);
        assert_eq!(seconds(0.001, 1_000), 300);
        assert_eq!(seconds(0.0, 1_000), 300, "without progress");
    }

    #[test]
    fn the_error_has_the_limit_the_jobs_and_the_forecast() {
        let full =
            |waiting, processed| QueueFull::new("mail", waiting, 100, rate(processed)).to_string();
        assert_eq!(
            full(100, 2.0),
            "retry-after=5 queue mail is full: 100 of 100 jobs wait (jobs.queues.mail.jobs_max); \
             at the rate of the last minute it is empty in 50 s"
        );
        assert_eq!(
            full(105, 0.0),
            "retry-after=300 queue mail is full: 105 of 100 jobs wait (jobs.queues.mail.jobs_max); \
             it did not shrink in the last minute"
        );
    }
}
