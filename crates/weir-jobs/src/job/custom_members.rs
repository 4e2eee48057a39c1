//! Reads the members of `custom` that the server obeys.

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use weir_base::clock::Timestamp;

use super::error::JobError;
use crate::custom::{BatchId, CustomMembers, UniqueKey, UniqueRule, UniqueUntil};
use crate::stamp::parse_rfc3339;

/// The names below, as they occur in almost every job that has one of them. Other jobs are not
/// parsed a second time.
const NAMES: [&str; 4] = ["unique_for", "expires_at", "track", "bid"];

/// Longer locks are cut to this: ten years.
const UNIQUE_FOR_SECONDS_MAX: f64 = 315_360_000.0;

#[derive(Deserialize)]
struct CustomText<'a> {
    #[serde(borrow)]
    unique_for: Option<&'a RawValue>,
    #[serde(borrow)]
    unique_until: Option<&'a RawValue>,
    #[serde(borrow)]
    expires_at: Option<&'a RawValue>,
    #[serde(borrow)]
    track: Option<&'a RawValue>,
    #[serde(borrow)]
    bid: Option<&'a RawValue>,
}

/// Reads `custom`, an object. `key` returns the job's unique key.
///
/// # Errors
/// Returns an error if a member that the server obeys has a value that it can't obey.
pub fn read(custom: &str, key: impl FnOnce() -> UniqueKey) -> Result<CustomMembers, JobError> {
    // A name can also be written with escapes.
    if !NAMES.iter().any(|name| custom.contains(name)) && !custom.contains("\\u") {
        return Ok(CustomMembers::default());
    }
    let text: CustomText<'_> = serde_json::from_str(custom)
        .map_err(|error| JobError::malformed(format_args!("custom: {error}")))?;
    Ok(CustomMembers {
        expires_at: text.expires_at.map(expires_at).transpose()?,
        unique: unique_rule(text.unique_for, text.unique_until, key)?,
        tracked: asks_for_track(text.track),
        batch: text.bid.filter(|raw| raw.get() != "\"\"").map(batch),
    })
}

/// Returns whether a job with this `custom`, a JSON object, asks to be tracked.
#[must_use]
pub fn is_tracked(custom: &str) -> bool {
    if !custom.contains("track") && !custom.contains("\\u") {
        return false;
    }
    serde_json::from_str(custom).is_ok_and(|text: CustomText<'_>| asks_for_track(text.track))
}

fn asks_for_track(track: Option<&RawValue>) -> bool {
    track.is_some_and(|raw| !matches!(raw.get(), "0" | "false" | "\"\""))
}

fn expires_at(raw: &RawValue) -> Result<Timestamp, JobError> {
    let text: Option<Cow<'_, str>> = serde_json::from_str(raw.get()).ok();
    let time = text.and_then(|text| parse_rfc3339(&text).ok());
    time.ok_or_else(|| JobError::malformed("custom.expires_at must be an RFC 3339 time"))
}

fn batch(raw: &RawValue) -> BatchId {
    let text: Option<Cow<'_, str>> = serde_json::from_str(raw.get()).ok();
    text.and_then(|text| BatchId::parse(&text)).unwrap_or(BatchId::NONE)
}

fn unique_rule(
    unique_for: Option<&RawValue>,
    unique_until: Option<&RawValue>,
    key: impl FnOnce() -> UniqueKey,
) -> Result<Option<UniqueRule>, JobError> {
    let Some(unique_for) = unique_for else { return Ok(None) };
    let seconds = unique_for.get().parse().ok().filter(|seconds: &f64| *seconds > 0.0);
    let seconds = seconds.ok_or_else(|| {
        JobError::malformed("custom.unique_for must be a number of seconds above 0")
    })?;
    let until = match unique_until.map(RawValue::get) {
        None | Some("\"success\"") => UniqueUntil::Success,
        Some("\"start\"") => UniqueUntil::Start,
        Some(_) => {
            return Err(JobError::malformed("custom.unique_until must be success or start"));
        }
    };
    let lasts = Duration::from_secs_f64(seconds.min(UNIQUE_FOR_SECONDS_MAX));
    Ok(Some(UniqueRule { key: key(), lasts, until }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: UniqueKey = UniqueKey(7);

    fn unique(seconds: f64, until: UniqueUntil) -> CustomMembers {
        let lasts = Duration::from_secs_f64(seconds);
        let unique = Some(UniqueRule { key: KEY, lasts, until });
        CustomMembers { unique, ..CustomMembers::default() }
    }

    #[test]
    fn members_are_read() {
        let check = |custom: &str, expected: CustomMembers| {
            assert_eq!(read(custom, || KEY), Ok(expected), "{custom}");
        };
        let none = CustomMembers::default();
        check("{}", none);
        check(r#"{"unique_for":null,"expires_at":null,"unique_until":"start"}"#, none);
        check(r#"{"x":{"unique_for":60},"y":"expires_at","unique_until":7}"#, none);
        check(r#"{"unique_for":60}"#, unique(60.0, UniqueUntil::Success));
        check(r#"{"unique_f\u006fr":60}"#, unique(60.0, UniqueUntil::Success));
        check(r#"{"unique_for":0.5, "unique_until":"start"}"#, unique(0.5, UniqueUntil::Start));
        check(r#"{"unique_for":1e300}"#, unique(UNIQUE_FOR_SECONDS_MAX, UniqueUntil::Success));
        let tracked = CustomMembers { tracked: true, ..none };
        check(r#"{"track":1}"#, tracked);
        check(r#"{"track":true}"#, tracked);
        check(r#"{"track":0}"#, none);
        check(r#"{"tracks":1,"track":false}"#, none);
        let of_batch = |id| CustomMembers { batch: Some(id), ..none };
        check(r#"{"bid":"b-00000000000000ff"}"#, of_batch(BatchId(255)));
        check(r#"{"bid":"nosuchbatch"}"#, of_batch(BatchId::NONE));
        check(r#"{"bid":7}"#, of_batch(BatchId::NONE));
        check(r#"{"bid":"","_bid":"b-00000000000000ff"}"#, none);
        let expires_at = Some(Timestamp::from_millis(1_500));
        check(
            r#"{"expires_at":"1970-01-01T01:00:01.5000009+01:00"}"#,
            CustomMembers { expires_at, ..none },
        );
    }

    #[test]
    fn values_that_cannot_be_obeyed_are_rejected() {
        for custom in [
            r#"{"unique_for":"60"}"#,
            r#"{"unique_for":0}"#,
            r#"{"unique_for":-1}"#,
            r#"{"unique_for":[60]}"#,
            r#"{"unique_for":60,"unique_until":"never"}"#,
            r#"{"unique_for":60,"unique_for":70}"#,
            r#"{"expires_at":1700000000}"#,
            r#"{"expires_at":"tomorrow"}"#,
            r#"{"expires_at":""}"#,
        ] {
            assert!(matches!(read(custom, || KEY), Err(JobError::Malformed(_))), "{custom}");
        }
    }

    proptest! {
        #[test]
        fn no_custom_panics(name in "unique_for|unique_until|expires_at|track|bid", value in ".{0,12}") {
            let _ = read(&format!("{{\"unique_for\":1,\"{name}\":{value}}}"), || KEY);
        }
    }
}
