//! Turns a run into the common envelope.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::LoadProfile;
use super::target::HttpRun;
use crate::envelope::Envelope;
use crate::process_usage::{Usage, cpu_resolution};

/// Figures that a bench adds to those of a run.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) bench: &'static str,
    pub(crate) scenario: &'static str,
    pub(crate) settings: Value,
    /// In addition to the client's errors.
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) extra: Map<String, Value>,
}

impl Figures {
    pub(crate) fn envelope(self, run: &HttpRun, profile: &LoadProfile) -> Envelope {
        let tally = &run.tally;
        let seconds = profile.duration.as_secs_f64();
        let spent = run.server.map(|(before, after)| Spent::between(before, after));
        let quantile = |quantile| rounded(tally.latencies.quantile_us(quantile));
        Envelope {
            bench: self.bench,
            scenario: self.scenario,
            seconds,
            operations_per_second: rounded(to_f64(tally.successful_in_time) / seconds),
            p50_us: quantile(0.50),
            p95_us: quantile(0.95),
            p99_us: quantile(0.99),
            errors: tally.faults.count + self.errors,
            client_cpu_seconds: run.client_cpu.as_secs_f64(),
            server_cpu_seconds: spent.map(|spent| spent.cpu.as_secs_f64()),
            server_cpu_us_per_operation: spent
                .map(|spent| us_per_operation(spent.cpu, tally.successful)),
            server_rss_bytes: run.server.map(|(_, after)| after.rss_bytes),
            extra: extra(run, self.extra, self.first_error),
            settings: self.settings,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Spent {
    cpu: Duration,
    system_cpu: Duration,
}

impl Spent {
    fn between(before: Usage, after: Usage) -> Self {
        Self {
            cpu: after.cpu.saturating_sub(before.cpu),
            system_cpu: after.system_cpu.saturating_sub(before.system_cpu),
        }
    }
}

fn extra(
    run: &HttpRun,
    own: Map<String, Value>,
    first_error: Option<String>,
) -> Map<String, Value> {
    let tally = &run.tally;
    let mut extra = Map::new();
    let mut add = |key: &str, value: Value| extra.insert(key.to_owned(), value);
    add("requests", tally.requests.into());
    add("timeouts", tally.timeouts.into());
    for (key, value) in own {
        add(&key, value);
    }
    add("max_us", rounded(tally.latencies.longest_us()).into());
    add("waited_for_connection", tally.waited_for_connection.into());
    add("reconnects", tally.reconnects.into());
    add("statuses", json!(tally.statuses));
    if let Some((before, after)) = run.server {
        let spent = Spent::between(before, after);
        let user = spent.cpu.saturating_sub(spent.system_cpu);
        add("server_user_cpu_us_per_operation", us_per_operation(user, tally.successful).into());
        add(
            "server_system_cpu_us_per_operation",
            us_per_operation(spent.system_cpu, tally.successful).into(),
        );
        add("server_processes", after.processes.into());
        add("server_cpu_resolution_seconds", cpu_resolution().as_secs_f64().into());
    }
    if let Some(text) = tally.faults.first.clone().or(first_error) {
        add("first_error", text.into());
    }
    extra
}

pub(crate) fn us_per_operation(spent: Duration, operations: u64) -> f64 {
    rounded(spent.as_secs_f64() * 1e6 / to_f64(operations.max(1)))
}

#[expect(clippy::cast_precision_loss, reason = "fewer than 2^53 operations")]
pub(crate) fn to_f64(count: u64) -> f64 {
    count as f64
}

/// Rounds to three decimals.
pub(crate) fn rounded(value: f64) -> f64 {
    round_to(value, 1e3)
}

pub(crate) fn round_to(value: f64, scale: f64) -> f64 {
    (value * scale).round() / scale
}
