//! The figures of a run.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;

use super::flags::TenantsFlags;
use super::load::Load;
use super::worker::Served;
use crate::clock::own_cpu_time;
use crate::envelope::Envelope;
use crate::process_usage;

/// Returns the envelope. Its latencies are the waits of the quiet tenants' jobs since the hog came.
pub(super) fn envelope(served: &[Served], flags: &TenantsFlags, weir: u32) -> Envelope {
    let load = Load::new(flags);
    let usage = process_usage::read(&[weir]).ok();
    let server_cpu = usage.map(|usage| usage.cpu.as_secs_f64());
    let waits = quiet_waits(served, &load, Duration::from_secs_f64(flags.seconds));
    let wait = |quantile| quantile_of(&waits, quantile).as_secs_f64();
    let jobs = to_f64(served.len());
    let numbers: HashSet<u64> = served.iter().map(|job| job.number).collect();
    let facts = json!({
        "quiet_wait_p99_ms": wait(0.99) * 1e3,
        "quiet_wait_max_ms": wait(1.0) * 1e3,
        "hog_share": hog_share(served, &load, flags),
        "quiet_jobs": waits.len(),
    });
    Envelope {
        bench: "tenants",
        scenario: flags.policy.name(),
        settings: serde_json::to_value(flags).unwrap_or_default(),
        seconds: flags.seconds,
        operations_per_second: jobs / flags.seconds,
        p50_us: wait(0.5) * 1e6,
        p95_us: wait(0.95) * 1e6,
        p99_us: wait(0.99) * 1e6,
        errors: (served.len() - numbers.len()) as u64,
        client_cpu_seconds: own_cpu_time().as_secs_f64(),
        server_cpu_seconds: server_cpu,
        server_cpu_us_per_operation: server_cpu.map(|cpu| cpu * 1e6 / jobs),
        server_rss_bytes: usage.map(|usage| usage.rss_bytes),
        extra: facts.as_object().cloned().unwrap_or_default(),
    }
}

/// Returns the waits of jobs that arrived after the hog, sorted. One that was not fetched counts with its age.
fn quiet_waits(served: &[Served], load: &Load, length: Duration) -> Vec<Duration> {
    let counts = |at: Duration| at >= load.hog_at;
    let fetched: HashSet<u64> = served.iter().map(|job| job.number).collect();
    let of_quiet = served
        .iter()
        .filter(|job| load.quiet_job(job.number).is_some_and(|quiet| counts(quiet.at)));
    let numbered =
        (0..).zip(&load.quiet).filter(|(number, job)| counts(job.at) && !fetched.contains(number));
    let ages = numbered.map(|(_, job)| length.saturating_sub(job.at));
    let mut waits: Vec<Duration> = of_quiet.map(|job| job.wait).chain(ages).collect();
    waits.sort_unstable();
    waits
}

/// Returns the hog's part of the slots' time that the quiet tenants left since it came.
fn hog_share(served: &[Served], load: &Load, flags: &TenantsFlags) -> f64 {
    let (mut quiet, mut hog) = (0.0, 0.0);
    for job in served {
        let spent = job.ended.saturating_sub(job.began.max(load.hog_at)).as_secs_f64();
        match load.quiet_job(job.number) {
            Some(_) => quiet += spent,
            None => hog += spent,
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "at most 1,000 slots")]
    let slots = flags.slots as f64;
    hog / (slots * (flags.seconds - flags.hog_at) - quiet).max(f64::MIN_POSITIVE)
}

fn quantile_of(sorted: &[Duration], quantile: f64) -> Duration {
    let last = sorted.len().saturating_sub(1);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index of a list, from 0 on"
    )]
    let place = (to_f64(last) * quantile).ceil() as usize;
    sorted.get(place.min(last)).copied().unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "fewer than 2^53 jobs")]
fn to_f64(count: usize) -> f64 {
    count as f64
}
