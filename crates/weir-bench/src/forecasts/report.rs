//! The figures of a run.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

use super::flags::ForecastsFlags;
use super::record::{ForecastRecord, PointTally, Tally, as_f64};
use crate::clock::{monotonic, own_cpu_time};
use crate::envelope::Envelope;
use crate::process_usage;

/// By the actual time to drain, in seconds.
const HORIZONS: [(f64, f64, &str); 4] = [
    (0.0, 15.0, "under 15 s"),
    (15.0, 45.0, "15 to 45 s"),
    (45.0, 90.0, "45 to 90 s"),
    (90.0, f64::INFINITY, "over 90 s"),
];

#[derive(Debug)]
pub(super) struct Report {
    pub(super) records: Vec<ForecastRecord>,
    /// Of the requests that read the queues.
    pub(super) latencies: Vec<Duration>,
    pub(super) began: Duration,
}

impl Report {
    /// Returns the envelope. Its operations are the reads of all queues with their forecasts.
    pub(super) fn envelope(&self, flags: &ForecastsFlags, weir: u32) -> Envelope {
        let seconds = (monotonic() - self.began).as_secs_f64();
        let all = Tally::of(self.records.iter());
        let usage = process_usage::read(&[weir]).ok();
        let server_cpu = usage.map(|usage| usage.cpu.as_secs_f64());
        let reads = as_f64(self.latencies.len());
        let mut extra = figures(&all);
        extra["state_without_range"] = self.without_range();
        extra["by_scenario"] = self.groups().map(|(name, tally)| named(name, &tally)).collect();
        extra["by_horizon"] = self.horizons().map(|(name, tally)| named(name, &tally)).collect();
        let misses_target = all.within_share() < flags.within_min;
        let has_too_few = (all.ranges as u64) < flags.ranges_min;
        Envelope {
            bench: "forecasts",
            scenario: "drains",
            settings: serde_json::to_value(flags).unwrap_or_default(),
            seconds,
            operations_per_second: reads / seconds,
            p50_us: self.latency_us(0.5),
            p95_us: self.latency_us(0.95),
            p99_us: self.latency_us(0.99),
            errors: u64::from(misses_target) + u64::from(has_too_few),
            client_cpu_seconds: own_cpu_time().as_secs_f64(),
            server_cpu_seconds: server_cpu,
            server_cpu_us_per_operation: server_cpu.map(|cpu| cpu * 1e6 / reads.max(1.0)),
            server_rss_bytes: usage.map(|usage| usage.rss_bytes),
            extra: extra.as_object().cloned().unwrap_or_default(),
        }
    }

    /// Returns a table by scenario and by horizon, in Markdown.
    pub(super) fn table(&self) -> String {
        let mut text = "\n| queues | forecasts | not enough data | never | with a range | within it | shorter, longer | end / start (median) | width / actual (median) | right to a quarter: expected time | by the rates of the last minute |\n\
            | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
            .to_owned();
        let all = ("all", Tally::of(self.records.iter()));
        for (name, tally) in self.groups().chain(self.horizons()).chain([all]) {
            let longer = tally.ranges - tally.within - tally.shorter;
            let point = |it: PointTally| format!("{} of {}", it.near, it.given);
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "| {name} | {} | {} | {} | {} | {} ({:.0} %) | {}, {longer} | {:.2} | {:.2} | {} | {} |",
                tally.forecasts,
                tally.withheld,
                tally.never,
                tally.ranges,
                tally.within,
                tally.within_share() * 100.0,
                tally.shorter,
                tally.median_ratio,
                tally.median_width,
                point(tally.expected),
                point(tally.by_last_minute),
            );
        }
        text
    }

    fn groups(&self) -> impl Iterator<Item = (&'static str, Tally)> {
        let mut names: Vec<&'static str> = Vec::new();
        for record in &self.records {
            if !names.contains(&record.scenario) {
                names.push(record.scenario);
            }
        }
        names.into_iter().map(move |name| {
            (name, Tally::of(self.records.iter().filter(|record| record.scenario == name)))
        })
    }

    fn horizons(&self) -> impl Iterator<Item = (&'static str, Tally)> {
        HORIZONS.into_iter().map(move |(from, to, name)| {
            let is_in = |record: &&ForecastRecord| (from..to).contains(&record.actual);
            (name, Tally::of(self.records.iter().filter(is_in)))
        })
    }

    /// Counts the states of the forecasts without a range.
    fn without_range(&self) -> Value {
        let mut states = std::collections::BTreeMap::<&str, usize>::new();
        for record in self.records.iter().filter(|record| record.forecast.range.is_none()) {
            *states.entry(record.forecast.state.as_str()).or_default() += 1;
        }
        json!(states)
    }

    fn latency_us(&self, quantile: f64) -> f64 {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an index of a list, from 0 on"
        )]
        let place = (as_f64(last) * quantile).ceil() as usize;
        sorted.get(place).copied().unwrap_or_default().as_secs_f64() * 1e6
    }
}

fn figures(tally: &Tally) -> Value {
    json!({
        "forecasts": tally.forecasts,
        "not_enough_data": tally.withheld,
        "never": tally.never,
        "ranges": tally.ranges,
        "within": tally.within,
        "within_share": tally.within_share(),
        "median_end_per_start": tally.median_ratio,
        "median_width_per_actual": tally.median_width,
        "expected": point(tally.expected),
        "by_last_minute": point(tally.by_last_minute),
    })
}

fn point(tally: PointTally) -> Value {
    json!({ "given": tally.given, "within_quarter": tally.near })
}

fn named(name: &str, tally: &Tally) -> Value {
    let mut figures = figures(tally);
    figures["name"] = name.into();
    figures
}
