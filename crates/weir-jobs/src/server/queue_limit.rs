//! Limits on the jobs that wait in a queue: a push of one more is rejected, with the time after which the next one may
//! succeed.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use super::JobService;
use super::rates::{Rate, SAMPLE_INTERVAL, WINDOW};
use crate::model::{NewJob, QueueName};
use crate::settings::{JobServerSettings, QueueSettings};
use crate::store::{Store, StoreError};

/// Clients are asked to wait until this part of a full queue (a tenth) has been processed, so that producers do not
/// return for one job each.
const FREED_PART: u64 = 10;
/// The shortest time that a client is asked to wait.
const RETRY_AFTER_MIN: Duration = Duration::from_secs(1);
/// The longest time that a client is asked to wait, also if nothing was processed for a minute.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// Why a job was not stored: too many jobs wait in its queue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "retry-after={} queue {queue} is full: {waiting} of {max} jobs wait (jobs.queues.{queue}.jobs_max); {}",
    .retry_after.as_secs(), Forecast { drains_in: *.drains_in, measured: *.measured }
)]
pub(crate) struct QueueFull {
    queue: String,
    waiting: u64,
    max: u64,
    /// `None`: it does not shrink.
    drains_in: Option<Duration>,
    /// The time span of the rate: less than a minute after a start.
    measured: Duration,
    retry_after: Duration,
}

/// Writes when a queue will be empty.
struct Forecast {
    drains_in: Option<Duration>,
    measured: Duration,
}

impl fmt::Display for Forecast {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.drains_in {
            _ if self.measured < SAMPLE_INTERVAL => {
                formatter.write_str("Weir has just started, and its rate is not known yet")
            }
            Some(time) => write!(
                formatter,
                "at the rate of the last minute it is empty in {} s",
                time.as_secs()
            ),
            None if self.measured < WINDOW => {
                formatter.write_str("it did not shrink since Weir started")
            }
            None => formatter.write_str("it did not shrink in the last minute"),
        }
    }
}

impl QueueFull {
    fn new(queue: &str, waiting: u64, max: u64, rate: Rate, measured: Duration) -> Self {
        Self {
            queue: queue.to_owned(),
            waiting,
            max,
            drains_in: rate.drain_seconds(waiting).map(Duration::from_secs_f64),
            measured,
            retry_after: retry_after(rate, measured, max),
        }
    }
}

/// Why a job was not stored.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum PushError {
    #[error(transparent)]
    QueueFull(#[from] QueueFull),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Stores a job, unless its queue is full.
pub(crate) async fn push_one<S: Store>(
    service: &JobService<S>,
    settings: &JobServerSettings,
    job: NewJob<'_>,
) -> Result<(), PushError> {
    let mut admitted = Admitted::new(service, settings);
    if let Err(full) = admitted.admit(&job)
        && !adds_none(service, &[job]).await[0]
    {
        return Err(admitted.reject(&job, full));
    }
    Ok(service.store.push(&[job]).await?)
}

/// Stores each job whose queue has room. Returns the outcomes in order.
pub(crate) async fn push_each<S: Store>(
    service: &JobService<S>,
    settings: &JobServerSettings,
    jobs: &[NewJob<'_>],
) -> Vec<Result<(), PushError>> {
    let mut admitted = Admitted::new(service, settings);
    let mut rejections: Vec<Option<QueueFull>> =
        jobs.iter().map(|job| admitted.admit(job).err()).collect();
    if rejections.iter().any(Option::is_some) {
        admit_those_that_add_none(service, jobs, &mut rejections).await;
    }
    let with_room = jobs.iter().zip(&rejections).filter(|(_, rejection)| rejection.is_none());
    let with_room: Vec<NewJob<'_>> = with_room.map(|(job, _)| *job).collect();
    let mut stored = service.store.push_each(&with_room).await.into_iter();
    let outcome = |(job, rejection): (&NewJob<'_>, _)| match rejection {
        Some(full) => Err(admitted.reject(job, full)),
        None => Ok(stored.next().unwrap_or(Ok(()))?),
    };
    jobs.iter().zip(rejections).map(outcome).collect()
}

/// Removes the rejections of jobs that a full queue need not reject.
async fn admit_those_that_add_none<S: Store>(
    service: &JobService<S>,
    jobs: &[NewJob<'_>],
    rejections: &mut [Option<QueueFull>],
) {
    let rejected = jobs.iter().zip(&*rejections).filter(|(_, rejection)| rejection.is_some());
    let rejected: Vec<NewJob<'_>> = rejected.map(|(job, _)| *job).collect();
    let add_none = adds_none(service, &rejected).await;
    let rejections = rejections.iter_mut().filter(|rejection| rejection.is_some());
    for (rejection, _) in rejections.zip(add_none).filter(|(_, adds_none)| *adds_none) {
        *rejection = None;
    }
}

/// Returns for each job whether the store would not add it. It is pushed then, and the store says why.
async fn adds_none<S: Store>(service: &JobService<S>, jobs: &[NewJob<'_>]) -> Vec<bool> {
    service.store.are_redundant(jobs).await
}

/// The jobs of one push that were admitted and are not yet in the store, by queue.
#[derive(Debug)]
struct Admitted<'a, S> {
    service: &'a JobService<S>,
    settings: &'a JobServerSettings,
    jobs: HashMap<&'a QueueName, u64>,
}

impl<'a, S: Store> Admitted<'a, S> {
    fn new(service: &'a JobService<S>, settings: &'a JobServerSettings) -> Self {
        Self { service, settings, jobs: HashMap::new() }
    }

    /// Returns an error if a job must not be pushed because its queue is full. Jobs that are due later do not wait yet,
    /// and nothing rejects them once they are due.
    fn admit(&mut self, job: &NewJob<'_>) -> Result<(), QueueFull> {
        let Some((queue, QueueSettings { jobs_max: Some(max), .. })) =
            self.settings.queues.get_key_value(job.queue).filter(|_| job.at.is_none())
        else {
            return Ok(());
        };
        let service = self.service;
        let waiting = self.waiting(queue);
        if waiting >= *max {
            let rates = service.rates.borrow();
            let (rate, measured) = (rates.last_minute(job.queue), rates.measured());
            return Err(QueueFull::new(job.queue, waiting, *max, rate, measured));
        }
        *self.jobs.entry(queue).or_default() += 1;
        service.sampled_depths.begin_push(queue);
        Ok(())
    }

    /// Returns how many jobs wait in a queue, those of this push included.
    fn waiting(&self, queue: &QueueName) -> u64 {
        let store = &self.service.store;
        match store.depth(queue.as_str()) {
            Some(depth) => depth + self.jobs.get(queue).copied().unwrap_or_default(),
            // With those of all pushes in progress.
            None => self.service.sampled_depths.get(queue.as_str(), store.traffic(queue.as_str())),
        }
    }

    /// Counts a rejection.
    fn reject(&self, job: &NewJob<'_>, full: QueueFull) -> PushError {
        self.service.metrics.queue_full(job.queue);
        full.into()
    }
}

impl<S> Drop for Admitted<'_, S> {
    fn drop(&mut self) {
        for (queue, jobs) in self.jobs.drain() {
            self.service.sampled_depths.end_pushes(queue, jobs);
        }
    }
}

/// Returns the time until a part of the limit has been processed at the rate of the last minute, in whole seconds. A
/// rate that was measured for a shorter time says nothing of a longer one.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn retry_after(rate: Rate, measured: Duration, max: u64) -> Duration {
    let freed = (max / FREED_PART).max(1) as f64;
    let seconds = (freed / rate.processed).ceil();
    let most = match measured < WINDOW {
        true => Duration::from_secs(measured.max(SAMPLE_INTERVAL).as_secs()),
        false => RETRY_AFTER_MAX,
    };
    // Infinite if nothing is processed.
    let time = Duration::try_from_secs_f64(seconds).unwrap_or(most);
    time.clamp(RETRY_AFTER_MIN, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(processed: f64) -> Rate {
        Rate { processed, pushed: 0.0 }
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn clients_return_when_a_tenth_of_the_queue_is_free() {
        let seconds = |processed, max| retry_after(rate(processed), MINUTE, max).as_secs();
        assert_eq!(seconds(10.0, 1_000), 10);
        assert_eq!(seconds(30.0, 1_000), 4, "rounded up");
        assert_eq!(seconds(10_000.0, 1_000), 1, "at least a second");
        assert_eq!(seconds(1.0, 1), 1);
        assert_eq!(seconds(0.001, 1_000), 300);
        assert_eq!(seconds(0.0, 1_000), 300, "without progress");
    }

    #[test]
    fn a_rate_of_less_than_a_minute_is_not_trusted_for_longer() {
        let seconds = |processed, measured| {
            retry_after(rate(processed), Duration::from_millis(measured), 1_000).as_secs()
        };
        assert_eq!(seconds(0.0, 0), 5);
        assert_eq!(seconds(0.0, 20_500), 20);
        assert_eq!(seconds(0.0, 59_999), 59);
        assert_eq!(seconds(10.0, 20_000), 10);
    }

    #[test]
    fn the_error_has_the_limit_the_jobs_and_the_forecast() {
        let full_after = |waiting, processed, measured| {
            QueueFull::new("mail", waiting, 100, rate(processed), measured).to_string()
        };
        let full = |waiting, processed| full_after(waiting, processed, MINUTE);
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
        let text = full_after(100, 0.0, Duration::from_secs(30));
        assert!(
            text.starts_with("retry-after=30 ") && text.ends_with("since Weir started"),
            "{text}"
        );
        let text = full_after(100, 9.0, Duration::from_secs(1));
        assert!(text.ends_with("its rate is not known yet"), "{text}");
    }
}
