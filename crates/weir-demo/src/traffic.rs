//! What the demo sends and how often, and the rules of a flood. Pure: no sockets, no clock.

use std::time::Duration;

use serde_json::{Value, json};
use weir_base::clock::Timestamp;

/// Realtime clients of a demo, unless stated otherwise.
pub const CLIENTS_DEFAULT: usize = 300;
/// The most realtime clients of a demo.
pub const CLIENTS_MAX: usize = 5_000;
/// Connections that fetch jobs, each for one job at a time.
pub(crate) const WORKERS: usize = 16;
/// Channels among which the clients are divided.
pub(crate) const CHANNELS: usize = 10;
/// Events published per second, without a flood.
pub(crate) const EVENTS_PER_SECOND: f64 = 4.0;
/// Requests sent to the front per second, without a flood.
pub(crate) const REQUESTS_PER_SECOND: f64 = 20.0;
/// The tenants of the queue `imports`. A flood of it comes from the first one.
pub(crate) const TENANTS: [&str; 4] = ["north", "east", "south", "west"];

/// One kind of jobs. The queues are those of the demo's settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobKind {
    pub(crate) queue: &'static str,
    pub(crate) jobtype: &'static str,
    pub(crate) per_second: f64,
    /// How long a job runs.
    pub(crate) run_time: Duration,
    /// How many of a thousand fail.
    pub(crate) failures_per_mille: u32,
}

/// All kinds of jobs, in the order in which workers name their queues.
pub(crate) const JOBS: [JobKind; 4] = [
    job("mail", "SendMail", 5.0, 5, 20),
    job("feed", "UpdateFeed", 20.0, 10, 0),
    job("imports", "ImportRows", 10.0, 30, 30),
    job("ingress", "ReceivePost", 5.0, 20, 10),
];

const fn job(
    queue: &'static str,
    jobtype: &'static str,
    per_second: f64,
    run_ms: u64,
    failures_per_mille: u32,
) -> JobKind {
    let run_time = Duration::from_millis(run_ms);
    JobKind { queue, jobtype, per_second, run_time, failures_per_mille }
}

/// A page of the app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    /// How many of ten requests are for it.
    tenths: usize,
    /// How long the app takes.
    pub(crate) run_time: Duration,
}

/// The pages that clients request.
pub(crate) const PAGES: [Page; 3] =
    [page("GET", "/", 7, 10), page("GET", "/slow", 1, 400), page("POST", "/inbox", 2, 5)];

const fn page(method: &'static str, path: &'static str, tenths: usize, run_ms: u64) -> Page {
    Page { method, path, tenths, run_time: Duration::from_millis(run_ms) }
}

/// Returns the page of the `number`th request.
pub(crate) fn page_of(number: usize) -> Page {
    let mut rest = number % 10;
    for page in PAGES {
        if rest < page.tenths {
            return page;
        }
        rest -= page.tenths;
    }
    PAGES[0]
}

/// Turns a rate into whole numbers to send, a tick at a time.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    owed: f64,
}

impl Pace {
    /// The most that one tick sends, so that a pause of the process is not followed by a burst.
    pub(crate) const DUE_MAX: f64 = 500.0;

    /// Returns how many are due after `elapsed`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and DUE_MAX"
    )]
    pub(crate) fn due(&mut self, per_second: f64, elapsed: Duration) -> usize {
        self.owed = (self.owed + per_second * elapsed.as_secs_f64()).clamp(0.0, Self::DUE_MAX);
        let due = self.owed.floor();
        self.owed -= due;
        due as usize
    }
}

/// The connection that waits for floods says so with this label.
pub const WORKER_LABEL: &str = "weir-demo";
/// The queue of floods.
pub(crate) const FLOOD_QUEUE: &str = "weir-demo";
/// The type of the job that starts one.
const FLOOD_JOBTYPE: &str = "WeirDemoFlood";

/// A flood that somebody asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloodRequest {
    /// How long it lasts.
    pub seconds: u64,
    /// The factor of all rates.
    pub times: u64,
}

/// A request outside of the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FloodRequestError {
    #[error("a flood lasts 1 to {max} seconds, not {0}", max = FloodRequest::SECONDS_MAX)]
    Seconds(u64),
    #[error(
        "a flood multiplies the traffic by {min} to {max}, not by {0}",
        min = FloodRequest::TIMES_MIN,
        max = FloodRequest::TIMES_MAX
    )]
    Times(u64),
}

impl Default for FloodRequest {
    /// 50 times the traffic for a minute.
    fn default() -> Self {
        Self { seconds: 60, times: 50 }
    }
}

impl FloodRequest {
    /// The longest flood.
    pub const SECONDS_MAX: u64 = 600;
    /// The lowest factor.
    pub const TIMES_MIN: u64 = 2;
    /// The highest factor.
    pub const TIMES_MAX: u64 = 200;

    /// Checks the limits.
    ///
    /// # Errors
    /// A number is outside of them.
    pub const fn new(seconds: u64, times: u64) -> Result<Self, FloodRequestError> {
        if seconds < 1 || seconds > Self::SECONDS_MAX {
            return Err(FloodRequestError::Seconds(seconds));
        }
        if times < Self::TIMES_MIN || times > Self::TIMES_MAX {
            return Err(FloodRequestError::Times(times));
        }
        Ok(Self { seconds, times })
    }

    /// Returns the job that asks a running demo for this flood. `expires_at` (RFC 3339): it is dropped if no demo takes it.
    #[must_use]
    pub fn to_job(self, jid: &str, expires_at: Option<&str>) -> Value {
        let mut custom = json!({ "track": 1 });
        if let Some(at) = expires_at {
            custom["expires_at"] = at.into();
        }
        json!({
            "jid": jid, "jobtype": FLOOD_JOBTYPE, "queue": FLOOD_QUEUE, "retry": 0, "custom": custom,
            "args": [{ "seconds": self.seconds, "times": self.times }],
        })
    }

    /// Returns the text of a job that asks for the usual flood.
    #[must_use]
    pub fn default_job() -> Vec<u8> {
        let jid = format!("demo-{:016x}", fastrand::u64(..));
        Self::default().to_job(&jid, None).to_string().into_bytes()
    }

    /// Reads such a job. None: it is another one, or outside of the limits.
    pub(crate) fn from_job(job: &Value) -> Option<Self> {
        let arguments = &job["args"][0];
        let number = |name: &str| arguments[name].as_u64();
        let is_flood = job["jobtype"] == FLOOD_JOBTYPE;
        is_flood.then(|| Self::new(number("seconds")?, number("times")?).ok()).flatten()
    }
}

/// A flood in progress, or the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flood {
    pub(crate) request: FloodRequest,
    pub(crate) began: Timestamp,
    pub(crate) until: Timestamp,
}

impl Flood {
    pub(crate) fn begin(request: FloodRequest, now: Timestamp) -> Self {
        Self { request, began: now, until: now + Duration::from_secs(request.seconds) }
    }

    /// Returns the factor of all rates, 1 after its end.
    #[expect(clippy::cast_precision_loss, reason = "at most TIMES_MAX")]
    pub(crate) fn factor(self, now: Timestamp) -> f64 {
        if now < self.until { self.request.times as f64 } else { 1.0 }
    }
}

/// Returns how many jobs of `imports` each tenant pushes per second. A flood is the first tenant's.
pub(crate) fn tenant_rates(per_second: f64, factor: f64) -> [f64; TENANTS.len()] {
    #[expect(clippy::cast_precision_loss, reason = "a handful")]
    let usual = per_second / TENANTS.len() as f64;
    let mut rates = [usual; TENANTS.len()];
    rates[0] += per_second * (factor - 1.0);
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_sends_the_rate_and_no_burst_after_a_pause() {
        let mut pace = Pace::default();
        let tick = Duration::from_millis(20);
        let sent: usize = (0..500).map(|_| pace.due(5.0, tick)).sum();
        assert!((49..=50).contains(&sent), "{sent} of 5 per second in 10 s");
        assert_eq!(pace.due(1e6, Duration::from_secs(60)), 500);
    }

    #[test]
    fn ten_requests_have_the_shares_of_their_pages() {
        let count = |path: &str| (20..30).filter(|number| page_of(*number).path == path).count();
        assert_eq!((count("/"), count("/slow"), count("/inbox")), (7, 1, 2));
    }

    #[test]
    fn floods_have_limits() {
        assert!(FloodRequest::new(1, 2).is_ok() && FloodRequest::new(600, 200).is_ok());
        let error = |seconds, times| FloodRequest::new(seconds, times).unwrap_err().to_string();
        for seconds in [0, 601] {
            let text = format!("a flood lasts 1 to 600 seconds, not {seconds}");
            assert_eq!(error(seconds, 2), text);
        }
        for times in [1, 201] {
            let text = format!("a flood multiplies the traffic by 2 to 200, not by {times}");
            assert_eq!(error(1, times), text);
        }
    }

    #[test]
    fn flood_travels_as_a_job() {
        let request = FloodRequest::new(30, 20).unwrap();
        let job = request.to_job("j1", Some("2026-01-01T00:00:00Z"));
        assert_eq!(FloodRequest::from_job(&job), Some(request));
        assert_eq!(job["custom"]["expires_at"], "2026-01-01T00:00:00Z");
        for (pointer, value) in [("/jobtype", json!("Other")), ("/args/0/times", json!(1e9))] {
            let mut other = job.clone();
            *other.pointer_mut(pointer).unwrap() = value;
            assert_eq!(FloodRequest::from_job(&other), None, "{pointer}");
        }
    }

    #[test]
    fn flood_ends() {
        let begin = Timestamp::from_millis(1_000);
        let flood = Flood::begin(FloodRequest { seconds: 2, times: 50 }, begin);
        let factor = |ms| flood.factor(Timestamp::from_millis(ms));
        assert_eq!([factor(1_000), factor(2_999), factor(3_000)], [50.0, 50.0, 1.0]);
    }

    #[test]
    fn one_tenant_floods() {
        assert_eq!(tenant_rates(10.0, 1.0), [2.5; 4]);
        assert_eq!(tenant_rates(10.0, 50.0), [492.5, 2.5, 2.5, 2.5]);
    }
}
