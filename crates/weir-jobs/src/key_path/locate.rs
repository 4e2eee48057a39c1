//! Finds a value in JSON by its path, and skips everything else.

use std::borrow::Cow;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

/// Returns the value at `parts`; see [`super::KeyPath::find`].
pub(super) fn locate<'a>(parts: &[Box<str>], json: &'a [u8]) -> Option<Cow<'a, str>> {
    let mut found = None;
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    // It ends with an error as soon as the value is found.
    let _ = Locate { parts, found: &mut found }.deserialize(&mut deserializer);
    key_of(found?)
}

fn key_of(value: &RawValue) -> Option<Cow<'_, str>> {
    let text = value.get();
    match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(plain) if !plain.contains('\\') => Some(Cow::Borrowed(plain)),
        Some(_) => serde_json::from_str(text).ok().map(Cow::Owned),
        None if text == "null" => None,
        None => Some(Cow::Borrowed(text)),
    }
}

struct Locate<'p, 'f, 'de> {
    parts: &'p [Box<str>],
    found: &'f mut Option<&'de RawValue>,
}

impl<'de> DeserializeSeed<'de> for Locate<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.parts.is_empty() {
            *self.found = Some(<&RawValue>::deserialize(deserializer)?);
            return Err(D::Error::custom("found"));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Locate<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Some((name, parts)) = self.parts.split_first() else { return Ok(()) };
        while let Some(is_it) = members.next_key_seed(Named(name))? {
            if is_it {
                return members.next_value_seed(Locate { parts, found: self.found });
            }
            members.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let Some((index, parts)) = self.parts.split_first() else { return Ok(()) };
        let index = parse_index(index).ok_or_else(|| A::Error::custom("not an index"))?;
        for _ in 0..index {
            if elements.next_element::<IgnoredAny>()?.is_none() {
                return Ok(());
            }
        }
        elements.next_element_seed(Locate { parts, found: self.found }).map(|_| ())
    }
}

/// Parses an index as RFC 6901 writes it: without a sign or leading zeros.
fn parse_index(text: &str) -> Option<usize> {
    let is_canonical = !text.starts_with('+') && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_canonical)
}

/// Whether a member has this name.
struct Named<'p>(&'p str);

impl<'de> DeserializeSeed<'de> for Named<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Named<'_> {
    type Value = bool;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the name of a member")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}
