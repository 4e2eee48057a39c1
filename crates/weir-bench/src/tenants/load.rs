//! The jobs: their arrivals, tenants and service times, all from the seed. Jobs of the quiet tenants have the first
//! numbers, in their order; those of the hog follow.

use std::time::Duration;

use anyhow::{Context, Result};
use fastrand::Rng;

use super::flags::TenantsFlags;
use crate::clock::SECONDS_PER_DAY;
use crate::draw::exponential;
use crate::jobs::payload::jid_of;

pub(super) const QUEUE: &str = "tenants";
const JID_PREFIX: &str = "tenants-";
/// Of `2026-11-20T19:28:22.123456Z`: the position of the hour.
const TIME_AT: usize = 11;

/// A job of a quiet tenant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct QuietJob {
    /// Since the start of the run.
    pub(super) at: Duration,
    tenant: u64,
}

#[derive(Debug)]
pub(super) struct Load {
    seed: u64,
    pub(super) quiet: Vec<QuietJob>,
    pub(super) hog_jobs: u64,
    pub(super) hog_at: Duration,
    quiet_service: f64,
    hog_service: f64,
}

impl Load {
    pub(super) fn new(flags: &TenantsFlags) -> Self {
        let mut rng = Rng::with_seed(flags.seed);
        let mut at = 0.0;
        let arrivals = std::iter::repeat_with(|| {
            at += exponential(&mut rng, 1.0 / flags.quiet_rate);
            let tenant = rng.u64(..flags.quiet_tenants);
            QuietJob { at: Duration::from_secs_f64(at), tenant }
        });
        let length = Duration::from_secs_f64(flags.seconds);
        Self {
            seed: flags.seed,
            quiet: arrivals.take_while(|job| job.at < length).collect(),
            hog_jobs: flags.hog_jobs,
            hog_at: Duration::from_secs_f64(flags.hog_at),
            quiet_service: flags.quiet_service,
            hog_service: flags.hog_service,
        }
    }

    /// Returns the job of a quiet tenant with this number, or `None` for one of the hog.
    pub(super) fn quiet_job(&self, number: u64) -> Option<QuietJob> {
        self.quiet.get(usize::try_from(number).ok()?).copied()
    }

    /// Returns how long a job runs.
    pub(super) fn service(&self, number: u64) -> Duration {
        let mut rng = Rng::with_seed(self.seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mean = self.quiet_job(number).map_or(self.hog_service, |_| self.quiet_service);
        Duration::from_secs_f64(exponential(&mut rng, mean))
    }

    /// Appends the JSON of a job.
    pub(super) fn append(&self, number: u64, out: &mut String) {
        let tenant = match self.quiet_job(number) {
            Some(job) => format!("quiet-{}", job.tenant),
            None => "hog".to_owned(),
        };
        let jid = format!("{JID_PREFIX}{number:012}");
        out.push_str(&format!(
            r#"{{"jid":"{jid}","jobtype":"BenchJob","queue":"{QUEUE}","args":[{{"tenant":"{tenant}"}}]}}"#
        ));
    }
}

/// Returns the number of a job that was fetched.
pub(super) fn number_of(job: &[u8]) -> Result<u64> {
    let jid = jid_of(job).context("a job without a jid")?;
    let digits =
        jid.strip_prefix(JID_PREFIX.as_bytes()).context("a job that is not of this run")?;
    decimal(digits).context("a job that is not of this run")
}

/// Returns when the server has enqueued a job, in microseconds of the day.
pub(super) fn enqueued_at(job: &[u8]) -> Result<u64> {
    const KEY: &[u8] = b"\"enqueued_at\":\"";
    let at = memchr::memmem::find(job, KEY).context("a job without enqueued_at")? + KEY.len();
    let time = job.get(at + TIME_AT..at + TIME_AT + 15).context("a short enqueued_at")?;
    let number =
        |range: std::ops::Range<usize>| decimal(&time[range]).context("enqueued_at is no time");
    let seconds = number(0..2)? * 3_600 + number(3..5)? * 60 + number(6..8)?;
    Ok(seconds * 1_000_000 + number(9..15)?)
}

fn decimal(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Returns the time between two times of day that are less than a day apart.
pub(super) fn between(earlier_us: u64, later_us: u64) -> Duration {
    const DAY_US: u64 = SECONDS_PER_DAY * 1_000_000;
    Duration::from_micros((later_us + DAY_US - earlier_us) % DAY_US)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_a_job_are_read() {
        let job = br#"{"jid":"tenants-000000000042","enqueued_at":"2026-11-20T23:59:59.123456Z"}"#;
        assert_eq!(number_of(job).expect("a number"), 42);
        let at = enqueued_at(job).expect("a time");
        assert_eq!(at, 86_399_123_456);
        assert_eq!(between(at, 1_000_000), Duration::from_micros(1_876_544));
        assert!(enqueued_at(br#"{"jid":"x"}"#).is_err());
    }
}
