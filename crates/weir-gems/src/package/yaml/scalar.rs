//! Types of scalars: Ruby reads some unquoted scalars as something else than text (`1.10` is the
//! number 1.1, `yes` is true). Tags can also change the type.
//!
//! The rules combine <https://yaml.org/type/> and Psych's `scalar_scanner.rb`, which RubyGems uses.
//! A scalar is a text only if it is one in both.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use saphyr_parser::{ScalarStyle, Tag};

use super::YamlError;
use super::tag::name_of;

/// A scalar with its type.
#[derive(Debug)]
pub(super) struct Scalar {
    /// The text as it is written.
    pub(super) text: String,
    pub(super) meaning: Meaning,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Null,
    Text,
    /// A number, time, symbol or similar.
    Other,
}

impl Scalar {
    pub(super) fn read(
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
    ) -> Result<Self, YamlError> {
        let name = tag.map(name_of);
        let meaning = match name.as_deref() {
            None if style == ScalarStyle::Plain => plain(text),
            None | Some("!" | "!str" | "tag:yaml.org,2002:str") => Meaning::Text,
            Some("!binary" | "tag:yaml.org,2002:binary") => {
                // Ruby writes texts this way if they are not UTF-8.
                return Ok(Self { text: unpacked(text)?, meaning: Meaning::Text });
            }
            Some("tag:yaml.org,2002:null") => Meaning::Null,
            Some(
                "tag:yaml.org,2002:bool"
                | "tag:yaml.org,2002:int"
                | "tag:yaml.org,2002:float"
                | "tag:yaml.org,2002:timestamp",
            ) => Meaning::Other,
            Some(other) => return Err(YamlError::Tag(other.to_owned())),
        };
        Ok(Self { text: text.to_owned(), meaning })
    }
}

fn unpacked(text: &str) -> Result<String, YamlError> {
    let packed: String = text.split_ascii_whitespace().collect();
    let bytes = BASE64_STANDARD.decode(packed).map_err(|_| YamlError::Binary)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn plain(text: &str) -> Meaning {
    let lower = text.to_ascii_lowercase();
    match &*lower {
        "" | "~" | "null" => Meaning::Null,
        "y" | "n" | "yes" | "no" | "true" | "false" | "on" | "off" => Meaning::Other,
        _ if is_symbol(text) || is_number(&lower) || is_date(text) => Meaning::Other,
        _ => Meaning::Text,
    }
}

/// Matches symbols such as `:runtime`.
fn is_symbol(text: &str) -> bool {
    text.len() > 1 && text.starts_with(':')
}

fn is_number(lower: &str) -> bool {
    let unsigned = lower.strip_prefix(['-', '+']).unwrap_or(lower);
    matches!(unsigned, ".inf" | ".nan")
        || is_whole(unsigned)
        || is_fraction(unsigned)
        || is_sexagesimal(unsigned)
}

/// Matches integers: `12`, `1_000`, `010`, `0x1f`, `0b11`.
fn is_whole(text: &str) -> bool {
    let digits = |text: &str, of: fn(&u8) -> bool| {
        !text.is_empty() && text.bytes().all(|byte| of(&byte) || matches!(byte, b'_' | b','))
    };
    let hexadecimal = text.strip_prefix("0x").map(|rest| digits(rest, u8::is_ascii_hexdigit));
    let binary = text.strip_prefix("0b").map(|rest| digits(rest, |it| matches!(it, b'0' | b'1')));
    hexadecimal.or(binary).unwrap_or_else(|| {
        text.starts_with(|first: char| first.is_ascii_digit()) && digits(text, u8::is_ascii_digit)
    })
}

/// Matches decimal numbers: `1.10`, `.5`, `1.`, `1.0e+3`.
fn is_fraction(text: &str) -> bool {
    let Some((whole, rest)) = text.split_once('.') else { return false };
    let (fraction, exponent) = rest.split_once('e').map_or((rest, None), |(it, e)| (it, Some(e)));
    let is_exponent = |text: &str| {
        let digits = text.strip_prefix(['-', '+']).unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    (whole.is_empty() || is_whole(whole))
        && fraction.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'_' | b','))
        && exponent.is_none_or(is_exponent)
        && text != "."
}

/// Matches sexagesimal numbers: `1:30`, `190:20:30.15`.
fn is_sexagesimal(text: &str) -> bool {
    text.contains(':')
        && text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'_' | b'.'))
}

/// Matches dates such as `2026-01-02`, with an optional time.
fn is_date(text: &str) -> bool {
    let mut parts = text.strip_prefix('-').unwrap_or(text).splitn(3, '-');
    let (Some(year), Some(month), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let day = rest.split(['T', 't', ' ', '\t']).next().unwrap_or_default();
    let is = |text: &str, lengths: std::ops::RangeInclusive<usize>| {
        lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    is(year, 4..=4) && is(month, 1..=2) && is(day, 1..=2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(text: &str) -> Meaning {
        Scalar::read(text, ScalarStyle::Plain, None).unwrap().meaning
    }

    #[test]
    fn what_ruby_reads_as_something_else_is_no_text() {
        for text in [
            "1.10",
            "1.0",
            "010",
            "10",
            "-3",
            "+.5",
            "1.",
            "1_000",
            "1,000",
            "0x1F",
            "0b11",
            "1.0e+3",
            "1.5E-2",
            ".inf",
            "-.INF",
            ".NaN",
            "yes",
            "No",
            "TRUE",
            "off",
            "y",
            ":sym",
            "1:30",
            "190:20:30.15",
            "2026-01-02",
            "2026-1-2 3:04:05",
            "2026-01-02T03:04:05Z",
        ] {
            assert_eq!(meaning(text), Meaning::Other, "{text}");
        }
        for text in ["", "~", "null", "NULL"] {
            assert_eq!(meaning(text), Meaning::Null, "{text}");
        }
        for text in [
            "1.2.3",
            "1.0.rc1",
            "0.8.7",
            "1.0.0e+3",
            "12e3",
            "1.0e3",
            "a",
            "rack",
            "yesno",
            "nan1",
            "0o17",
            ".",
            ":",
            "-",
            "1a",
            "x86_64-linux",
            "0xg",
            "2026-01-02-a",
            "1.x",
            "v:1",
        ] {
            assert_eq!(meaning(text), Meaning::Text, "{text}");
        }
    }

    #[test]
    fn what_is_quoted_is_a_text() {
        for style in [ScalarStyle::SingleQuoted, ScalarStyle::DoubleQuoted, ScalarStyle::Literal] {
            let scalar = Scalar::read("1.10", style, None).unwrap();
            assert_eq!((&*scalar.text, scalar.meaning), ("1.10", Meaning::Text));
        }
    }
}
