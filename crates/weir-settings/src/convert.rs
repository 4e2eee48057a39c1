//! A TOML value as a Rust value, or what is wrong with it.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use toml::Spanned;
use toml::de::DeValue;
use weir_base::hint;
use weir_base::listen_address::{AddressError, ListenAddress};

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

/// Converts a number from 0 to 1.
pub(crate) fn to_fraction(value: &DeValue<'_>) -> Result<f64, String> {
    let text = match value {
        DeValue::Float(float) => float.as_str(),
        DeValue::Integer(integer) => integer.as_str(),
        other => return Err(expected("a number like 0.01", other)),
    };
    let fraction = text.parse().ok().filter(|fraction: &f64| (0.0..=1.0).contains(fraction));
    fraction.ok_or_else(|| "must be from 0 to 1".to_owned())
}

/// Converts a value to JSON. Dates become texts.
pub(crate) fn to_json(value: &DeValue<'_>) -> Result<String, String> {
    let joined = |parts: Result<Vec<String>, String>| parts.map(|parts| parts.join(","));
    Ok(match value {
        DeValue::String(text) => json_text(text),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(time) => json_text(&time.to_string()),
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
            .map_err(|_| format!("{} is over 64 bits", integer.as_str()))?
            .to_string(),
        DeValue::Float(float) => {
            let text = float.as_str();
            let is_finite = text.parse().is_ok_and(f64::is_finite);
            if !is_finite {
                return Err(format!("{text} is no number in JSON"));
            }
            text.trim_start_matches('+').to_owned()
        }
        DeValue::Array(values) => {
            let parts = values.iter().map(|value| to_json(value.get_ref())).collect();
            format!("[{}]", joined(parts)?)
        }
        DeValue::Table(table) => {
            let part = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
                let key: &std::borrow::Cow<'_, str> = key.get_ref();
                Ok(format!("{}:{}", json_text(key), to_json(value.get_ref())?))
            };
            format!("{{{}}}", joined(table.iter().map(part).collect())?)
        }
    })
}

fn json_text(text: &str) -> String {
    let mut json = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            control if control.is_control() && control.is_ascii() => {
                json.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => json.push(other),
        }
    }
    json.push('"');
    json
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
    let address = text.parse::<ListenAddress>().map_err(|error| match error {
        AddressError::NoPort(_) | AddressError::NotAnAddress(_) => {
            format!("{error}; write for example {example:?}")
        }
        AddressError::Port(_) | AddressError::NoPath => error.to_string(),
    });
    match address? {
        ListenAddress::Tcp(address) => Ok(address),
        ListenAddress::Unix(_) => {
            Err(format!("a unix socket is not supported here; write for example {example:?}"))
        }
    }
}

#[cfg(test)]
mod json_tests {
    use super::*;

    #[test]
    fn values_become_json() {
        for (toml, expected) in [
            (r#"[1, "a\"\n", true, 0x10, -7, 1_000]"#, r#"[1,"a\"\u000a",true,16,-7,1000]"#),
            ("{ a = { b = [] }, c = 1.5 }", r#"{"a":{"b":[]},"c":1.5}"#),
            ("[2026-11-28]", r#"["2026-11-28"]"#),
        ] {
            let value = DeValue::parse(toml).expect("valid");
            assert_eq!(to_json(value.get_ref()).as_deref(), Ok(expected), "{toml}");
        }
        for toml in ["[nan]", "[inf]", "[99999999999999999999]"] {
            let value = DeValue::parse(toml).expect("valid");
            assert!(to_json(value.get_ref()).is_err(), "{toml}");
        }
    }
}
