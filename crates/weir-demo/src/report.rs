//! What was measured in an interval: as JSON for programs, and as a line for people. Pure.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write as _};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::figures::Counts;
use crate::samples::Samples;

/// Fewer waiting jobs are no backlog: a forecast would jump.
const BACKLOG_MIN: u64 = 100;

/// The figures of an interval. Rates are per second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Seconds since the Unix epoch.
    pub at: f64,
    pub interval_seconds: f64,
    /// The flood in progress.
    pub flood: Option<FloodReport>,
    pub jobs: JobsReport,
    pub realtime: RealtimeReport,
    pub requests: RequestsReport,
    /// None: the demo runs without it.
    pub autopilot: Option<AutopilotReport>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FloodReport {
    pub times: u64,
    pub seconds_left: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobsReport {
    pub pushed_per_second: f64,
    pub done_per_second: f64,
    pub failed_per_second: f64,
    /// Jobs that the server did not accept.
    pub push_rejected: u64,
    /// Jobs in queues, as the admin API reports them. None: it did not respond.
    pub waiting: Option<u64>,
    /// Time until no job waits, if their number goes on to fall as in this interval. None: it does not fall.
    pub empty_in_seconds: Option<f64>,
    pub queues: Vec<QueueReading>,
    /// How long those jobs waited that started in the interval, without retries: medians by queue.
    pub queue_wait_ms_p50: BTreeMap<&'static str, f64>,
    /// The same by tenant of the queue `imports`.
    pub tenant_wait_ms_p50: BTreeMap<&'static str, f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RealtimeReport {
    pub clients: u64,
    pub published_per_second: f64,
    pub publish_failed: u64,
    pub delivered_per_second: f64,
    /// From the request that publishes an event until a client has it.
    pub delay_ms_p50: Option<f64>,
    pub delay_ms_p95: Option<f64>,
    /// Connections of clients and workers that ended and were opened again.
    pub reconnects: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestsReport {
    pub served_per_second: f64,
    /// Requests that the front rejected with 503.
    pub rejected_per_second: f64,
    /// The same by reason: a full queue (`queue_max`), a shed rule (`shed`) ..
    pub rejections_per_second: BTreeMap<&'static str, f64>,
    pub errors: u64,
    /// Requests that the demo did not send, because too many were in progress.
    pub unsent: u64,
    pub response_ms_p50: Option<f64>,
    pub response_ms_p95: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AutopilotReport {
    pub mode: String,
    /// Limits that it has set.
    pub limits: usize,
}

/// What the admin API reports about a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueReading {
    pub name: String,
    /// Waiting jobs.
    pub depth: u64,
    /// How long the next job has waited.
    pub latency_seconds: f64,
    /// Weir's forecast, from the rates of the last minute.
    pub drain_seconds: Option<f64>,
}

/// Everything a report is made of.
#[derive(Debug)]
pub(crate) struct ReportSources {
    pub(crate) at: f64,
    pub(crate) interval: Duration,
    pub(crate) counts: Counts,
    pub(crate) clients: u64,
    pub(crate) flood: Option<FloodReport>,
    /// None: the admin API did not respond.
    pub(crate) queues: Option<Vec<QueueReading>>,
    /// Jobs that waited at the last report.
    pub(crate) waiting_before: Option<u64>,
    pub(crate) autopilot: Option<AutopilotReport>,
}

impl ReportSources {
    pub(crate) fn into_report(self) -> Report {
        let per_second = |count: u64| rate(count, self.interval);
        let counts = &self.counts;
        let waiting =
            self.queues.as_ref().map(|queues| queues.iter().map(|queue| queue.depth).sum());
        let empty_in_seconds = waiting
            .zip(self.waiting_before)
            .and_then(|(now, before)| empty_in(before, now, self.interval));
        let rejections =
            counts.rejected.iter().map(|(reason, count)| (*reason, per_second(*count)));
        Report {
            at: self.at,
            interval_seconds: self.interval.as_secs_f64(),
            flood: self.flood,
            jobs: JobsReport {
                pushed_per_second: per_second(counts.pushed),
                done_per_second: per_second(counts.done),
                failed_per_second: per_second(counts.failed),
                push_rejected: counts.push_rejected,
                waiting,
                empty_in_seconds,
                queues: self.queues.unwrap_or_default(),
                queue_wait_ms_p50: medians(&counts.queue_waits),
                tenant_wait_ms_p50: medians(&counts.tenant_waits),
            },
            realtime: RealtimeReport {
                clients: self.clients,
                published_per_second: per_second(counts.published),
                publish_failed: counts.publish_failed,
                delivered_per_second: per_second(counts.delivered),
                delay_ms_p50: counts.delays.percentile(0.5),
                delay_ms_p95: counts.delays.percentile(0.95),
                reconnects: counts.reconnects,
            },
            requests: RequestsReport {
                served_per_second: per_second(counts.served),
                rejected_per_second: per_second(counts.rejected.values().sum()),
                rejections_per_second: rejections.collect(),
                errors: counts.errors,
                unsent: counts.unsent,
                response_ms_p50: counts.response_times.percentile(0.5),
                response_ms_p95: counts.response_times.percentile(0.95),
            },
            autopilot: self.autopilot,
        }
    }
}

fn medians(waits: &BTreeMap<&'static str, Samples>) -> BTreeMap<&'static str, f64> {
    waits.iter().filter_map(|(name, waits)| Some((*name, waits.percentile(0.5)?))).collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts of seconds")]
fn rate(count: u64, interval: Duration) -> f64 {
    if interval.is_zero() { 0.0 } else { count as f64 / interval.as_secs_f64() }
}

/// Returns the seconds until `now` jobs are done at the pace at which their number fell from `before`.
#[expect(clippy::cast_precision_loss, reason = "counts of jobs")]
fn empty_in(before: u64, now: u64, interval: Duration) -> Option<f64> {
    let fell = before.checked_sub(now).filter(|fell| *fell > 0)?;
    Some(now as f64 * interval.as_secs_f64() / fell as f64)
}

/// The line for people; a second one while jobs wait.
impl Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(FloodReport { times, seconds_left }) = self.flood {
            write!(formatter, "flood x{times}, {seconds_left:.0} s left; ")?;
        }
        let Self { jobs, realtime, requests, .. } = self;
        let finished = jobs.done_per_second + jobs.failed_per_second;
        write!(formatter, "jobs: {}, {}", per_second(finished), jobs.backlog())?;
        let delay =
            realtime.delay_ms_p50.map(|delay| format!("events after {}", milliseconds(delay)));
        let delay = delay.unwrap_or_else(|| "no events".to_owned());
        let clients = count(realtime.clients, "client");
        write!(formatter, "; realtime: {clients}, {delay}")?;
        let (served, rejected) = (requests.served_per_second, requests.rejected_per_second);
        write!(formatter, "; requests: {}, {} rejected", per_second(served), per_second(rejected))?;
        let reasons = requests.rejections_per_second.iter();
        let reasons =
            reasons.map(|(reason, rate)| format!("{} {}", rejection(reason), per_second(*rate)));
        write!(formatter, "{}", in_parentheses(reasons))?;
        for (number, what) in [(requests.errors, "failed"), (requests.unsent, "not sent")] {
            if number > 0 {
                write!(formatter, ", {} {what}", grouped(number))?;
            }
        }
        if let Some(AutopilotReport { mode, limits }) = &self.autopilot {
            write!(formatter, "; autopilot: {mode}, {}", count(*limits as u64, "limit"))?;
        }
        if jobs.has_backlog() {
            write!(formatter, "\n  median waits of jobs that started: {}", jobs.waits())?;
        }
        Ok(())
    }
}

impl JobsReport {
    fn has_backlog(&self) -> bool {
        self.waiting.is_some_and(|waiting| waiting >= BACKLOG_MIN)
    }

    fn backlog(&self) -> String {
        let Some(waiting) = self.waiting else { return "? waiting".to_owned() };
        let waiting = format!("{} waiting", grouped(waiting));
        match self.empty_in_seconds {
            _ if !self.has_backlog() => waiting,
            Some(left) => format!("{waiting}, empty in {}", milliseconds(left * 1e3)),
            None => format!("{waiting}, growing"),
        }
    }

    /// Returns the median waits by queue and by tenant.
    fn waits(&self) -> String {
        let list = |waits: &BTreeMap<&str, f64>| {
            let waits = waits.iter().map(|(name, wait)| format!("{name} {}", milliseconds(*wait)));
            waits.collect::<Vec<_>>().join(", ")
        };
        match (&self.queue_wait_ms_p50, &self.tenant_wait_ms_p50) {
            (queues, tenants) if tenants.is_empty() => list(queues),
            (queues, tenants) => format!("{}; tenants of imports: {}", list(queues), list(tenants)),
        }
    }
}

/// Returns why the front rejected requests, as the console says it.
pub(crate) fn rejection(reason: &str) -> &str {
    if reason == "queue_max" { "queue full" } else { reason }
}

/// Returns ` (a, b)`; nothing if there are none.
pub(crate) fn in_parentheses(texts: impl Iterator<Item = String>) -> String {
    let texts: Vec<String> = texts.collect();
    if texts.is_empty() { String::new() } else { format!(" ({})", texts.join(", ")) }
}

/// Formats a rate: `0/s`, `4.2/s`, `1,200/s`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate of this machine"
)]
fn per_second(rate: f64) -> String {
    match rate {
        0.0 => "0/s".to_owned(),
        ..9.95 => format!("{rate:.1}/s"),
        _ => format!("{}/s", grouped(rate.round() as u64)),
    }
}

/// Formats milliseconds: `<1 ms`, `12 ms`, `1.2 s`, `40 s`, `3 min`.
pub(crate) fn milliseconds(ms: f64) -> String {
    match ms {
        ..0.95 => "<1 ms".to_owned(),
        ..999.5 => format!("{ms:.0} ms"),
        ..9_950.0 => format!("{:.1} s", ms / 1e3),
        ..180_000.0 => format!("{:.0} s", ms / 1e3),
        _ => format!("{:.0} min", ms / 6e4),
    }
}

/// Formats a count with its noun: `1 client`, `5,000 clients`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", grouped(number))
}

/// Formats a count with separators: `3,400`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        // Writing to a String cannot fail.
        let _ = write!(text, "{digit}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources() -> ReportSources {
        let mut counts = Counts { done: 590, failed: 10, pushed: 700, ..Counts::default() };
        counts.served = 400;
        counts.rejected = [("queue_max", 50), ("shed", 10)].into();
        counts.delays.add(Duration::from_millis(2));
        counts.tenant_waits.entry("north").or_default().add(Duration::from_secs(12));
        counts.queue_waits.entry("feed").or_default().add(Duration::from_millis(80));
        let feed = QueueReading {
            name: "feed".to_owned(),
            depth: 3_400,
            latency_seconds: 9.0,
            drain_seconds: None,
        };
        ReportSources {
            at: 1.0,
            interval: Duration::from_secs(5),
            counts,
            clients: 300,
            flood: None,
            queues: Some(vec![feed]),
            waiting_before: Some(3_825),
            autopilot: None,
        }
    }

    #[test]
    fn report_reads_as_a_line() {
        assert_eq!(
            sources().into_report().to_string(),
            "jobs: 120/s, 3,400 waiting, empty in 40 s; realtime: 300 clients, events after 2 ms; requests: 80/s, 12/s rejected (queue full 10/s, shed 2.0/s)\
             \n  median waits of jobs that started: feed 80 ms; tenants of imports: north 12 s"
        );
    }

    #[test]
    fn flood_and_autopilot_are_named() {
        let flood = Some(FloodReport { times: 50, seconds_left: 41.3 });
        let autopilot = Some(AutopilotReport { mode: "on".to_owned(), limits: 1 });
        let report = ReportSources { flood, autopilot, waiting_before: Some(0), ..sources() };
        let text = report.into_report().to_string();
        assert!(
            text.starts_with("flood x50, 41 s left; jobs: 120/s, 3,400 waiting, growing;"),
            "{text}"
        );
        assert!(text.contains("; autopilot: on, 1 limit\n"), "{text}");
    }

    #[test]
    fn unknown_is_not_zero() {
        let text = ReportSources { queues: None, ..sources() }.into_report().to_string();
        assert!(text.starts_with("jobs: 120/s, ? waiting; realtime"), "{text}");
    }

    #[test]
    fn forecast_needs_a_falling_number() {
        let five = Duration::from_secs(5);
        assert_eq!(empty_in(200, 100, five), Some(5.0));
        assert_eq!((empty_in(100, 100, five), empty_in(100, 200, five)), (None, None));
    }

    #[test]
    fn figures_have_separators_and_units() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0.2, 12.4, 1_240.0, 40_000.0, 240_000.0].map(milliseconds),
            ["<1 ms", "12 ms", "1.2 s", "40 s", "4 min"]
        );
        assert_eq!([0.0, 4.24, 1_200.0].map(per_second), ["0/s", "4.2/s", "1,200/s"]);
    }
}
