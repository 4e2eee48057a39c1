//! Why a push was rejected: a cap is reached. The text names it, and says when to try again.

use std::fmt;
use std::time::Duration;

use weir_base::drain::DrainForecast;

use super::rates::{Rate, SAMPLE_INTERVAL, WINDOW};

/// Clients are asked to wait until this part of a full queue (a tenth) has been processed, so that producers do not
/// return for one job each.
const FREED_PART: u64 = 10;
/// The shortest time that a client is asked to wait.
const RETRY_AFTER_MIN: Duration = Duration::from_secs(1);
/// The longest time that a client is asked to wait, also if nothing was processed for a minute.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// The cap that is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FullCap {
    /// Jobs of the queue.
    Jobs,
    /// Bytes of the jobs of the queue, with those of the job that was pushed.
    Bytes { job: u64 },
    /// Jobs of a tenant, of so many in the queue; whether the limit is its own.
    Tenant { name: Option<String>, is_own: bool, tenants: u64 },
    /// Bytes of the job store on the disk.
    Disk,
}

impl FullCap {
    pub(super) const BYTES_MAX: &str = "bytes_max";

    /// Returns its name, for metrics.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Jobs => "jobs_max",
            Self::Bytes { .. } => Self::BYTES_MAX,
            Self::Tenant { .. } => "tenant_jobs_max",
            Self::Disk => "disk_max",
        }
    }
}

/// Why a job was not stored: a cap is reached.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("retry-after={} {}; {}", .retry_after.as_secs(), self.state(), self.forecast())]
pub(crate) struct QueueFull {
    cap: FullCap,
    queue: String,
    used: u64,
    max: u64,
    /// Jobs of the queue, or of all queues.
    waiting: u64,
    /// When they are gone.
    drain: DrainForecast,
    retry_after: Duration,
}

impl QueueFull {
    /// Describes that `used` of `max` are in use while so many jobs wait in the queue (for the disk: in all queues), with
    /// their forecast, whose rate was measured so long.
    pub(super) fn new(
        cap: FullCap,
        queue: &str,
        (used, max): (u64, u64),
        (waiting, drain): (u64, DrainForecast),
        (rate, measured): (Rate, Duration),
    ) -> Box<Self> {
        // A tenant has its share of the workers.
        let share = match cap {
            FullCap::Tenant { tenants, .. } => tenants.max(1),
            _ => 1,
        };
        // In jobs: for caps of bytes, as many as have a tenth of them.
        let jobs_max = match cap {
            FullCap::Jobs | FullCap::Tenant { .. } => max,
            FullCap::Bytes { .. } | FullCap::Disk => waiting,
        };
        // What fills a disk while no job waits is not freed by workers.
        let is_stuck = cap == FullCap::Disk && waiting == 0;
        Box::new(Self {
            retry_after: match is_stuck {
                true => RETRY_AFTER_MAX,
                false => retry_after(rate, share, measured, jobs_max),
            },
            cap,
            queue: queue.to_owned(),
            used,
            max,
            drain,
            waiting,
        })
    }

    /// Returns the name of the cap, for metrics.
    pub(super) const fn cap_name(&self) -> &'static str {
        self.cap.name()
    }

    fn state(&self) -> String {
        let Self { queue, used, max, .. } = self;
        match &self.cap {
            FullCap::Jobs => format!(
                "queue {queue} is full: {used} of {max} jobs wait (jobs.queues.{queue}.jobs_max)"
            ),
            FullCap::Bytes { job } => format!(
                "queue {queue} is full: jobs of {used} of {max} bytes wait, and this one has {job} (jobs.queues.{queue}.bytes_max)"
            ),
            FullCap::Tenant { name, is_own, .. } => {
                let shown: String =
                    name.as_deref().unwrap_or("(none)").chars().take(NAME_CHARACTERS_MAX).collect();
                let setting = match is_own {
                    true => format!("tenants.{shown:?}.jobs_max"),
                    false => "tenant_jobs_max".to_owned(),
                };
                format!(
                    "tenant {shown:?} of queue {queue} is full: {used} of {max} jobs wait (jobs.queues.{queue}.{setting})"
                )
            }
            FullCap::Disk => format!(
                "the job store is full: {used} of {max} bytes on the disk are in use (jobs.limits.disk_max)"
            ),
        }
    }

    fn forecast(&self) -> Forecast {
        // Whose time it is, where the text before did not name the queue alone.
        let of = match self.cap {
            FullCap::Jobs | FullCap::Bytes { .. } => ("it", "is"),
            FullCap::Tenant { .. } => ("the queue", "is"),
            FullCap::Disk if self.waiting == 0 => ("", ""),
            FullCap::Disk => ("all queues", "are"),
        };
        Forecast { of, drain: self.drain }
    }
}

/// Characters of the name of a tenant that an error repeats.
const NAME_CHARACTERS_MAX: usize = 50;

/// Writes when a queue will be empty.
struct Forecast {
    /// Whose time it is, with its verb. Without a name: no job waits.
    of: (&'static str, &'static str),
    drain: DrainForecast,
}

impl fmt::Display for Forecast {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (of, is) = self.of;
        let seconds = |seconds: f64| format!("{seconds:.0} s");
        match self.drain {
            _ if of.is_empty() => formatter.write_str(
                "no job waits in a queue: delete scheduled, failed or dead jobs, or allow more",
            ),
            DrainForecast::Empty => write!(formatter, "{of} {is} empty"),
            DrainForecast::Drains(range) => {
                write!(
                    formatter,
                    "at the present rates {of} {is} empty in {}",
                    range.describe(seconds)
                )
            }
            DrainForecast::Grows => write!(formatter, "{of} {is} growing"),
            DrainForecast::Stalled => formatter.write_str("no job is completed"),
            DrainForecast::TooShort { .. } => {
                write!(formatter, "there is not enough data yet to tell when {of} {is} empty")
            }
            DrainForecast::TooVariable { shortest_seconds } => write!(
                formatter,
                "there is not enough data to tell when {of} {is} empty, at least {}",
                seconds(shortest_seconds)
            ),
        }
    }
}

/// Returns the time until a part of the limit has been processed at the rate of the last minute, in whole seconds. A
/// rate that was measured for a shorter time says nothing of a longer one. `share`: one of so many gets it.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn retry_after(rate: Rate, share: u64, measured: Duration, max: u64) -> Duration {
    let freed = (max / FREED_PART).max(1) as f64;
    let seconds = (freed * share as f64 / rate.processed).ceil();
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
    use weir_base::drain::DrainRange;

    use super::*;

    fn rate(processed: f64) -> Rate {
        Rate { processed, ..Rate::default() }
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn clients_return_when_a_tenth_of_the_queue_is_free() {
        let seconds = |processed, max| retry_after(rate(processed), 1, MINUTE, max).as_secs();
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
            retry_after(rate(processed), 1, Duration::from_millis(measured), 1_000).as_secs()
        };
        assert_eq!(seconds(0.0, 0), 5);
        assert_eq!(seconds(0.0, 20_500), 20);
        assert_eq!(seconds(0.0, 59_999), 59);
        assert_eq!(seconds(10.0, 20_000), 10);
    }

    /// At two jobs per second, give or take a fifth.
    fn drains(depth: f64) -> DrainForecast {
        DrainForecast::Drains(DrainRange {
            expected_seconds: depth / 2.0,
            shortest_seconds: depth * 0.4,
            longest_seconds: depth * 0.6,
        })
    }

    #[test]
    fn the_error_has_the_limit_the_jobs_and_the_forecast() {
        let full = |waiting, processed, drain| {
            let rate = (rate(processed), MINUTE);
            QueueFull::new(FullCap::Jobs, "mail", (waiting, 100), (waiting, drain), rate)
                .to_string()
        };
        assert_eq!(
            full(100, 2.0, drains(100.0)),
            "retry-after=5 queue mail is full: 100 of 100 jobs wait (jobs.queues.mail.jobs_max); \
             at the present rates it is empty in 50 s (40 s to 60 s)"
        );
        assert_eq!(
            full(105, 0.0, DrainForecast::Stalled),
            "retry-after=300 queue mail is full: 105 of 100 jobs wait (jobs.queues.mail.jobs_max); \
             no job is completed"
        );
        let text = full(100, 9.0, DrainForecast::default());
        assert!(
            text.ends_with("; there is not enough data yet to tell when it is empty"),
            "{text}"
        );
        let text = full(100, 9.0, DrainForecast::TooVariable { shortest_seconds: 30.0 });
        assert!(text.ends_with(" to tell when it is empty, at least 30 s"), "{text}");
    }

    #[test]
    fn each_cap_is_named_with_its_setting_and_its_value() {
        let full = |cap, used, max| {
            let rate = (rate(2.0), MINUTE);
            QueueFull::new(cap, "mail", (used, max), (50, drains(50.0)), rate).to_string()
        };
        assert_eq!(
            full(FullCap::Bytes { job: 300 }, 900, 1_000),
            "retry-after=3 queue mail is full: jobs of 900 of 1000 bytes wait, and this one has 300 \
             (jobs.queues.mail.bytes_max); at the present rates it is empty in 25 s (20 s to 30 s)"
        );
        let name = Some("big \"org\"".to_owned());
        assert_eq!(
            full(FullCap::Tenant { name: name.clone(), is_own: false, tenants: 4 }, 20, 20),
            "retry-after=4 tenant \"big \\\"org\\\"\" of queue mail is full: 20 of 20 jobs wait \
             (jobs.queues.mail.tenant_jobs_max); at the present rates the queue is empty in 25 s (20 s to 30 s)"
        );
        let own = full(FullCap::Tenant { name, is_own: true, tenants: 1 }, 20, 20);
        assert!(own.contains(r#"(jobs.queues.mail.tenants."big \"org\"".jobs_max)"#), "{own}");
        let disk = full(FullCap::Disk, 7, 6);
        assert!(
            disk.contains(
                "job store is full: 7 of 6 bytes on the disk are in use (jobs.limits.disk_max); "
            ) && disk.ends_with("all queues are empty in 25 s (20 s to 30 s)"),
            "{disk}"
        );
        let (empty, rate) = ((0, DrainForecast::Empty), (rate(2.0), MINUTE));
        let none = QueueFull::new(FullCap::Disk, "mail", (7, 6), empty, rate).to_string();
        assert!(
            none.starts_with("retry-after=300 ") && none.contains("; no job waits in a queue: "),
            "{none}"
        );
    }
}
