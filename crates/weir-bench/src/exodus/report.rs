//! The figures of a run, scaled back to the times of the surge.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::coordinator::Outcome;
use super::flags::ExodusFlags;
use super::load::QUEUES;
use crate::clock::own_cpu_time;
use crate::envelope::Envelope;
use crate::process_usage;

/// Returns the envelope. Its latencies are the waits of all jobs that arrived.
pub(super) fn envelope(outcome: &Outcome, flags: &ExodusFlags, weir: u32) -> Envelope {
    let usage = process_usage::read(&[weir]).ok();
    let seconds = outcome.seconds.as_secs_f64();
    let done = to_f64(outcome.done);
    let all = sorted(outcome.waits.concat());
    let quantile_us = |quantile| wait_at(&all, quantile, flags.time_scale) * 1e6;
    let server_cpu = usage.map(|usage| usage.cpu.as_secs_f64());
    Envelope {
        bench: "exodus",
        scenario: flags.policy.name(),
        settings: serde_json::to_value(flags).unwrap_or_default(),
        seconds,
        operations_per_second: done / seconds,
        p50_us: quantile_us(0.5),
        p95_us: quantile_us(0.95),
        p99_us: quantile_us(0.99),
        errors: outcome.repeated,
        client_cpu_seconds: own_cpu_time().as_secs_f64(),
        server_cpu_seconds: server_cpu,
        server_cpu_us_per_operation: server_cpu.map(|cpu| cpu * 1e6 / done),
        server_rss_bytes: usage.map(|usage| usage.rss_bytes),
        extra: extra(outcome, &all, flags.time_scale),
    }
}

fn extra(outcome: &Outcome, all: &[Duration], time_scale: f64) -> Map<String, Value> {
    let queues = QUEUES.iter().zip(&outcome.waits).map(|(queue, waits)| {
        let waits = sorted(waits.clone());
        let wait = |quantile| wait_at(&waits, quantile, time_scale);
        let figures = json!({
            "wait_p50_s": wait(0.5),
            "wait_p95_s": wait(0.95),
            "wait_p99_s": wait(0.99),
            "target_s": queue.target,
            "jobs": waits.len(),
        });
        (queue.name.to_owned(), figures)
    });
    let queues: Map<String, Value> = queues.collect();
    let facts = json!({
        "queues": queues,
        "wait_longest_s": wait_at(all, 1.0, time_scale),
        "unserved": outcome.unserved,
        "drained": outcome.is_drained,
        "drain_s": outcome.seconds.as_secs_f64() * time_scale,
        "slowdown": outcome.slowdown,
    });
    facts.as_object().cloned().unwrap_or_default()
}

fn sorted(mut waits: Vec<Duration>) -> Vec<Duration> {
    waits.sort_unstable();
    waits
}

/// Returns the wait at a quantile of sorted waits in seconds of the surge; 0 without any.
fn wait_at(sorted: &[Duration], quantile: f64, time_scale: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index of a list, from 0 on"
    )]
    let place = (to_f64(last as u64) * quantile).ceil() as usize;
    let wait = sorted.get(place.min(last)).copied().unwrap_or_default();
    wait.as_secs_f64() * time_scale
}

#[expect(clippy::cast_precision_loss, reason = "fewer than 2^53 jobs")]
fn to_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_scaled_back_and_the_last_is_the_longest() {
        let waits = sorted((1..=100).rev().map(Duration::from_millis).collect());
        assert!(
            (wait_at(&waits, 0.5, 100.0) - 5.1).abs() < 1e-9,
            "{}",
            wait_at(&waits, 0.5, 100.0)
        );
        assert!((wait_at(&waits, 1.0, 100.0) - 10.0).abs() < 1e-9);
        assert!(wait_at(&[], 0.95, 100.0).abs() < 1e-9);
    }
}
