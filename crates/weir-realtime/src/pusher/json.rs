//! JSON helpers that `serde_json` lacks.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::excerpt::Excerpt;

/// Appends `value` to `out`.
pub(super) fn write(out: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(out, value)
        .expect("a Vec takes everything, and no shape here has keys other than strings");
}

/// A string, borrowed from the input if it has no escapes. A newtype, because serde borrows a `Cow`
/// only as a direct field, not inside an `Option` or a `Vec`.
#[derive(Debug, Deserialize)]
pub(super) struct JsonText<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// A JSON object. By itself, serde also accepts an array of the fields in their order.
#[derive(Debug)]
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Object<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(Fields(PhantomData))
    }
}

/// Parses an object.
pub(super) fn object<'a, T: Deserialize<'a>>(text: &'a str) -> serde_json::Result<T> {
    serde_json::from_str(text).map(|Object(value)| value)
}

/// Displays an error in terms of JSON instead of serde's terms of Rust ("a sequence", "usize").
pub(super) struct Plain<'a>(pub(super) &'a serde_json::Error);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        // Use the last occurrence: the value before it may contain the same words.
        let Some((found, expected)) = text.rsplit_once(", expected ") else {
            return write!(formatter, "{}", Excerpt(&text));
        };
        let position = expected.rfind(" at line ").unwrap_or(expected.len());
        let (expected, position) = expected.split_at(position);
        let (found, expected) = (plain_found(found), plain_expected(expected));
        write!(formatter, "{}", Excerpt(&format!("{found}, expected {expected}{position}")))
    }
}

fn plain_found(found: &str) -> Cow<'_, str> {
    const WORDS: [(&str, &str); 7] = [
        ("invalid type: floating point", "number"),
        ("invalid type: integer", "number"),
        ("invalid value: integer", "number"),
        ("invalid type: sequence", "an array"),
        ("invalid type: map", "an object"),
        ("invalid type: ", ""),
        ("invalid value: ", ""),
    ];
    let plain = WORDS.iter().find_map(|(serde, plain)| {
        let rest = found.strip_prefix(serde)?;
        Some(format!("found {plain}{rest}"))
    });
    plain.map_or(Cow::Borrowed(found), Cow::Owned)
}

fn plain_expected(expected: &str) -> &str {
    match expected {
        "u64" | "usize" => "a whole number, not negative",
        "a sequence" => "an array",
        "a map" => "an object",
        other => other,
    }
}

/// Deserializes a field's JSON unchanged. `null` is a value too; with `default`, an absent field is
/// `None`.
pub(super) fn present<'de, D>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error>
where
    D: Deserializer<'de>,
{
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Serializes a value as JSON inside a JSON string, as the protocol requires for `data`.
pub(super) struct AsText<T>(pub(super) T);

impl<T: Serialize> Serialize for AsText<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Displayed(&self.0))
    }
}

struct Displayed<'a, T>(&'a T);

impl<T: Serialize> fmt::Display for Displayed<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        serde_json::to_writer(IntoFormatter(formatter), self.0).map_err(|_| fmt::Error)
    }
}

/// Lets `serde_json` write to a formatter. It writes whole characters only.
struct IntoFormatter<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl io::Write for IntoFormatter<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = str::from_utf8(bytes).map_err(io::Error::other)?;
        self.0.write_str(text).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Serializes the items of an iterator as an array.
#[derive(Debug)]
pub(super) struct List<I>(pub(super) I);

impl<I: Iterator<Item: Serialize> + Clone> Serialize for List<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone())
    }
}

/// Serializes the pairs of an iterator as an object.
#[derive(Debug)]
pub(super) struct Map<I>(pub(super) I);

impl<K: Serialize, V: Serialize, I: Iterator<Item = (K, V)> + Clone> Serialize for Map<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.clone())
    }
}

/// Returns whether arrays and objects in `text` are nested deeper than `max`. (`serde_json` limits
/// the depth of what it parses, but not of raw values.) The result is meaningless for text that is
/// not JSON, which parsing rejects later.
pub(super) fn is_deeper_than(text: &str, max: usize) -> bool {
    let mut depth = 0_usize;
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > max {
            return true;
        }
    }
    false
}

fn skip_string(bytes: &mut impl Iterator<Item = u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_errors_contain_no_rust_types() {
        #[derive(Debug, Deserialize)]
        struct Shape {
            #[expect(dead_code, reason = "read by nobody")]
            count: usize,
            #[expect(dead_code, reason = "the same")]
            list: Option<Vec<String>>,
        }
        for (text, message) in [
            ("[1]", "found an array, expected an object at line 1 column 0"),
            ("1.5", "found number `1.5`, expected an object at line 1 column 3"),
            (
                r#"{"count":"x, expected usize"}"#,
                r#"found string "x, expected usize", expected a whole number, not negative at line 1 column 28"#,
            ),
            (
                r#"{"count":-1}"#,
                "found number `-1`, expected a whole number, not negative at line 1 column 11",
            ),
            (r#"{"count":1,"list":{}}"#, "found an object, expected an array at line 1 column 18"),
            ("{}", "missing field `count` at line 1 column 2"),
        ] {
            let error = object::<Shape>(text).unwrap_err();
            assert_eq!(Plain(&error).to_string(), message, "{text}");
        }
    }

    #[test]
    fn json_depth_counts_brackets_outside_strings() {
        for (text, depth) in [
            ("1", 0),
            ("[]", 1),
            (r#"{"a":[1,{"b":2}]}"#, 3),
            (r#"["[[[[\"[[\\"]"#, 1),
            ("[[],[],[]]", 2),
        ] {
            assert!(!is_deeper_than(text, depth), "{text}");
            assert!(depth == 0 || is_deeper_than(text, depth - 1), "{text}");
        }
    }
}
