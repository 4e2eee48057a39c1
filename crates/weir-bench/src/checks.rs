//! Checks of flags, and their form in the envelope.

use std::time::Duration;

use anyhow::{Result, ensure};

/// Rounds of a comparison.
pub(crate) const ROUNDS_MAX: usize = 100;

pub(crate) fn check_range(flag: &str, value: u64, least: u64, most: u64) -> Result<()> {
    ensure!((least..=most).contains(&value), "{flag} {value}: must be between {least} and {most}");
    Ok(())
}

pub(crate) fn check_range_f64(flag: &str, value: f64, least: f64, most: f64) -> Result<()> {
    ensure!((least..=most).contains(&value), "{flag} {value}: must be between {least} and {most}");
    Ok(())
}

pub(crate) fn as_seconds<S: serde::Serializer>(
    duration: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}
