//! A TOML value as a Rust value, or what is wrong with it.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use toml::de::DeValue;
use weir_base::hint;
use weir_base::listen_address::ListenAddress;

use crate::units;

/// Returns `; did you mean "listen"?`, or an empty text.
pub fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    hint::closest(word, known).map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default()
}

pub(crate) fn quoted(text: &str) -> String {
    format!("{text:?}")
}

pub(crate) fn none() -> String {
    "none".to_owned()
}

pub(crate) fn expected(kind: &str, value: &DeValue<'_>) -> String {
    format!("expected {kind}, not {}", article(value.type_str()))
}

fn article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {kind}")
}

/// Converts a whole number within `range`.
pub(crate) fn to_number<T: TryFrom<u64>>(
    value: &DeValue<'_>,
    range: &RangeInclusive<u64>,
) -> Result<T, String> {
    if value.as_integer().is_none() {
        return Err(expected("a number", value));
    }
    let fitting = to_integer(value).and_then(|number| in_range(number, range));
    fitting.ok_or_else(|| format!("must be from {} to {}", range.start(), range.end()))
}

/// Converts an integer. None: it is none, is negative, or exceeds every setting's range.
fn to_integer(value: &DeValue<'_>) -> Option<u64> {
    let integer = value.as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

fn in_range<T: TryFrom<u64>>(number: u64, range: &RangeInclusive<u64>) -> Option<T> {
    range.contains(&number).then_some(number).and_then(|number| T::try_from(number).ok())
}

pub(crate) fn to_duration(
    value: &DeValue<'_>,
    range: &RangeInclusive<Duration>,
) -> Result<Duration, String> {
    let text = match value {
        DeValue::String(text) => text,
        other => return Err(expected("a duration like \"10s\"", other)),
    };
    let duration = units::parse_duration(text)?;
    if range.contains(&duration) {
        return Ok(duration);
    }
    let (low, high) =
        (units::format_duration(*range.start()), units::format_duration(*range.end()));
    Err(format!("must be from {low} to {high}"))
}

pub(crate) fn to_path(value: &DeValue<'_>) -> Result<PathBuf, String> {
    match value.as_str() {
        Some("") => Err("the path is empty".to_owned()),
        Some(path) => Ok(PathBuf::from(path)),
        None => Err(expected("a path", value)),
    }
}

pub(crate) fn to_size<T: TryFrom<u64>>(
    value: &DeValue<'_>,
    range: &RangeInclusive<u64>,
) -> Result<T, String> {
    let bytes = match value {
        DeValue::String(text) => Some(units::parse_size(text)?),
        DeValue::Integer(_) => to_integer(value),
        other => return Err(expected("a size like \"64MiB\"", other)),
    };
    bytes.and_then(|bytes| in_range(bytes, range)).ok_or_else(|| {
        let (low, high) = (units::format_size(*range.start()), units::format_size(*range.end()));
        format!("must be from {low} to {high}")
    })
}

/// Converts a share such as `"10%"`, within a range in percent.
pub(crate) fn to_thousandths(
    value: &DeValue<'_>,
    range: &RangeInclusive<u64>,
) -> Result<u32, String> {
    let text = value.as_str().ok_or_else(|| expected("a percentage like \"10%\"", value))?;
    let percent = text.strip_suffix('%').and_then(|number| number.parse().ok());
    let percent = percent.ok_or_else(|| {
        format!("{text:?} is not a percentage; write a whole number and %, for example \"10%\"")
    })?;
    in_range::<u32>(percent, range)
        .map(|percent| percent * 10)
        .ok_or_else(|| format!("must be from {}% to {}%", range.start(), range.end()))
}

/// The value that disables a listener.
pub(crate) const OFF: &str = "off";

/// `IP:port`; what Weir's TCP services listen on.
/// Converts an `IP:port`. `example`: a valid value, for the error.
pub(crate) fn to_tcp_address(value: &DeValue<'_>, example: &str) -> Result<SocketAddr, String> {
    let text = value.as_str().ok_or_else(|| expected("an address", value))?;
    match text.parse::<ListenAddress>().map_err(|error| error.to_string())? {
        ListenAddress::Tcp(address) => Ok(address),
        ListenAddress::Unix(_) => {
            Err(format!("a unix socket is not supported here; write for example {example:?}"))
        }
    }
}
