//! What a flood amounted to, and the demo as a whole: sums of what the reports have. Pure.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::time::Duration;

use serde::Serialize;

use crate::figures::Counts;
use crate::flood_jobs::FloodJobCounts;
use crate::report::{count, grouped, in_parentheses, milliseconds, rejection};
use crate::samples::Samples;

/// Sums over some time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    pub seconds: f64,
    /// Jobs that the server has acknowledged.
    pub jobs_pushed: u64,
    pub jobs_push_rejected: u64,
    /// Jobs that ended without an error, retries included.
    pub jobs_done: u64,
    /// Runs that failed; such jobs are retried.
    pub jobs_failed: u64,
    /// The most jobs that waited at a report.
    pub jobs_waiting_max: u64,
    /// The longest that a new job waited, by queue.
    pub wait_ms_max: BTreeMap<&'static str, f64>,
    pub requests_served: u64,
    /// Requests that the front rejected, by reason.
    pub requests_rejected: BTreeMap<&'static str, u64>,
    /// Requests with another error, or without a response.
    pub requests_failed: u64,
    pub requests_unsent: u64,
    pub response_ms_max: Option<f64>,
    pub events_published: u64,
    pub events_delivered: u64,
    pub delay_ms_max: Option<f64>,
    /// Connections of clients and workers that ended and were opened again.
    pub reconnects: u64,
}

/// What a flood amounted to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FloodSummary {
    pub times: u64,
    pub flood_seconds: u64,
    /// From the end of the flood until each of its jobs had started. None: some had not.
    pub drain_seconds: Option<f64>,
    /// Jobs of the flood that the server has acknowledged.
    pub flood_jobs: u64,
    /// Those of them that no worker has received.
    pub flood_jobs_waiting: u64,
    /// Those of them that no queue holds either. It should be 0.
    pub flood_jobs_lost: u64,
    /// Sums since the flood began, with the usual traffic.
    pub totals: Totals,
}

/// What the demo amounted to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DemoSummary {
    pub floods: u64,
    /// Jobs that still waited at the end. None: the admin API did not respond.
    pub jobs_waiting: Option<u64>,
    pub totals: Totals,
}

impl Totals {
    /// Adds an interval. `waiting`: jobs in queues at its end.
    pub(crate) fn add(&mut self, interval: Duration, counts: &Counts, waiting: Option<u64>) {
        self.seconds += interval.as_secs_f64();
        self.jobs_pushed += counts.pushed;
        self.jobs_push_rejected += counts.push_rejected;
        self.jobs_done += counts.done;
        self.jobs_failed += counts.failed;
        self.jobs_waiting_max = self.jobs_waiting_max.max(waiting.unwrap_or_default());
        for (queue, waits) in &counts.queue_waits {
            let longest = self.wait_ms_max.entry(queue).or_default();
            *longest = longest.max(waits.longest().unwrap_or_default());
        }
        self.requests_served += counts.served;
        for (reason, rejected) in &counts.rejected {
            *self.requests_rejected.entry(reason).or_default() += rejected;
        }
        self.requests_failed += counts.errors;
        self.requests_unsent += counts.unsent;
        keep_longest(&mut self.response_ms_max, &counts.response_times);
        self.events_published += counts.published;
        self.events_delivered += counts.delivered;
        keep_longest(&mut self.delay_ms_max, &counts.delays);
        self.reconnects += counts.reconnects;
    }

    fn jobs(&self) -> String {
        let (pushed, done) = (grouped(self.jobs_pushed), grouped(self.jobs_done));
        let failed = grouped(self.jobs_failed);
        let rejected = some(self.jobs_push_rejected, "rejected");
        let open = some(
            self.jobs_pushed.saturating_sub(self.jobs_done),
            "running or waiting, most for a retry",
        );
        format!("{pushed} pushed{rejected}, {done} done{open}; {failed} runs failed on purpose")
    }

    fn backlog(&self) -> String {
        let waits = self.wait_ms_max.iter();
        let waits = waits.map(|(queue, wait)| format!("{queue} {}", milliseconds(*wait)));
        let waits = waits.collect::<Vec<_>>().join(", ");
        format!("at most {} waited; longest waits: {waits}", grouped(self.jobs_waiting_max))
    }

    fn requests(&self) -> String {
        let (served, rejected) = (grouped(self.requests_served), self.requests_rejected.values());
        let reasons = self.requests_rejected.iter();
        let reasons =
            reasons.map(|(reason, number)| format!("{} {}", rejection(reason), grouped(*number)));
        let (failed, unsent) =
            (grouped(self.requests_failed), some(self.requests_unsent, "not sent"));
        let longest = self.response_ms_max.map(milliseconds);
        let longest = longest.map_or_else(String::new, |ms| format!("; slowest response {ms}"));
        format!(
            "{served} served, {} rejected{}, {failed} failed{unsent}{longest}",
            grouped(rejected.sum()),
            in_parentheses(reasons)
        )
    }

    fn events(&self) -> String {
        let (published, delivered) =
            (grouped(self.events_published), grouped(self.events_delivered));
        let slowest = self.delay_ms_max.map(milliseconds);
        let slowest = slowest.map_or_else(String::new, |ms| format!("; slowest delivery {ms}"));
        format!("{published} events published, {delivered} deliveries to clients{slowest}")
    }
}

/// `, 12 not sent`; nothing for 0.
fn some(number: u64, what: &str) -> String {
    if number == 0 { String::new() } else { format!(", {} {what}", grouped(number)) }
}

fn keep_longest(longest: &mut Option<f64>, samples: &Samples) {
    if let Some(value) = samples.longest() {
        *longest = Some(longest.map_or(value, |before| before.max(value)));
    }
}

impl FloodSummary {
    /// `is_lost`: no job waits in any queue, so those that have not started never will.
    pub(crate) fn with_jobs(mut self, jobs: FloodJobCounts, is_lost: bool) -> Self {
        self.flood_jobs = jobs.acknowledged;
        (self.flood_jobs_waiting, self.flood_jobs_lost) =
            if is_lost { (0, jobs.waiting) } else { (jobs.waiting, 0) };
        self
    }

    fn outcome(&self) -> String {
        let jobs = count(self.flood_jobs, "job");
        match (self.flood_jobs_waiting, self.flood_jobs_lost) {
            (0, 0) => format!("{jobs} in the flood, all have started, none was lost"),
            (0, lost) => format!("{jobs} in the flood, {} LOST", grouped(lost)),
            (waiting, _) => format!("{jobs} in the flood, {} still waiting", grouped(waiting)),
        }
    }
}

impl Display for FloodSummary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { times, flood_seconds, totals, .. } = self;
        let drained = match self.drain_seconds {
            Some(seconds) => format!("drained {} after its end", milliseconds(seconds * 1e3)),
            None => "not drained".to_owned(),
        };
        write!(
            formatter,
            "flood x{times} of {flood_seconds} s: {drained}\n  \
             flood: {}; {}\n  all jobs: {}\n  requests: {}\n  realtime: {}",
            self.outcome(),
            totals.backlog(),
            totals.jobs(),
            totals.requests(),
            totals.events()
        )
    }
}

impl Display for DemoSummary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { floods, jobs_waiting, totals } = self;
        let time = milliseconds(totals.seconds * 1e3);
        let floods = count(*floods, "flood");
        let waiting = jobs_waiting.map_or_else(|| "?".to_owned(), grouped);
        write!(
            formatter,
            "the demo: {time}, {floods}\n  \
             jobs: {}, {waiting} still in queues; {}\n  requests: {}\n  realtime: {}",
            totals.jobs(),
            totals.backlog(),
            totals.requests(),
            totals.events()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals() -> Totals {
        let mut counts = Counts { pushed: 1_200, done: 1_150, failed: 50, ..Counts::default() };
        counts.queue_waits.entry("feed").or_default().add(Duration::from_secs(12));
        (counts.served, counts.unsent) = (400, 3);
        counts.rejected = [("queue_max", 1_000), ("shed", 30)].into();
        counts.response_times.add(Duration::from_millis(800));
        (counts.published, counts.delivered) = (40, 1_200);
        counts.delays.add(Duration::from_millis(30));
        let mut totals = Totals::default();
        totals.add(Duration::from_secs(5), &Counts::default(), None);
        totals.add(Duration::from_secs(5), &counts, Some(9_000));
        totals.add(Duration::from_secs(5), &Counts::default(), Some(2));
        totals
    }

    fn flood() -> FloodSummary {
        FloodSummary {
            times: 50,
            flood_seconds: 10,
            drain_seconds: Some(4.0),
            flood_jobs: 0,
            flood_jobs_waiting: 0,
            flood_jobs_lost: 0,
            totals: totals(),
        }
    }

    const REST: &str = "\n  requests: 400 served, 1,030 rejected (queue full 1,000, shed 30), 0 failed, 3 not sent; \
         slowest response 800 ms\n  realtime: 40 events published, 1,200 deliveries to clients; slowest delivery 30 ms";

    #[test]
    fn flood_is_summarized_with_its_peak() {
        let jobs = FloodJobCounts { acknowledged: 1_100, waiting: 0 };
        let head = "flood x50 of 10 s: drained 4.0 s after its end\n  \
             flood: 1,100 jobs in the flood, all have started, none was lost; at most 9,000 waited; longest waits: feed 12 s\n  \
             all jobs: 1,200 pushed, 1,150 done, 50 running or waiting, most for a retry; 50 runs failed on purpose";
        assert_eq!(flood().with_jobs(jobs, false).to_string(), format!("{head}{REST}"));
    }

    #[test]
    fn waiting_jobs_are_not_lost_ones() {
        let jobs = FloodJobCounts { acknowledged: 1_100, waiting: 7 };
        let text = |is_lost| flood().with_jobs(jobs, is_lost).to_string();
        assert!(
            text(false).contains("1,100 jobs in the flood, 7 still waiting;"),
            "{}",
            text(false)
        );
        assert!(text(true).contains("1,100 jobs in the flood, 7 LOST;"), "{}", text(true));
    }

    #[test]
    fn demo_is_summarized() {
        let demo = DemoSummary { floods: 1, jobs_waiting: Some(2), totals: totals() };
        let head = "the demo: 15 s, 1 flood\n  jobs: 1,200 pushed, 1,150 done, 50 running or waiting, most for a retry; 50 runs failed on purpose, 2 still in queues; \
             at most 9,000 waited; longest waits: feed 12 s";
        assert_eq!(demo.to_string(), format!("{head}{REST}"));
    }
}
