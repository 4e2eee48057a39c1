//! Parses the JSON that follows most verbs: an object, or an array of the elements of a batch.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer as _, IgnoredAny, SeqAccess, Visitor};

use super::error::FaktoryError;

/// Parses the object after `command`. Serde alone would also accept an array, with its elements in
/// the order of the fields.
pub(super) fn parse<'a, T: Deserialize<'a>>(
    command: &'static str,
    json: &'a [u8],
) -> Result<T, FaktoryError> {
    if !json.trim_ascii_start().starts_with(b"{") {
        return Err(FaktoryError::malformed(command, "a JSON object must follow"));
    }
    serde_json::from_slice(json).map_err(|error| FaktoryError::malformed(command, error))
}

/// Parses the array after `command`. Returns an error, without storing the elements, if it has more
/// than `max`.
pub(super) fn parse_array<'a, T: Deserialize<'a>>(
    command: &'static str,
    json: &'a [u8],
    max: usize,
) -> Result<Vec<T>, FaktoryError> {
    let malformed = |error| FaktoryError::malformed(command, error);
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let elements = deserializer.deserialize_seq(LimitedArray { max, element: PhantomData });
    let elements = elements.map_err(malformed)?;
    deserializer.end().map_err(malformed)?;
    elements.ok_or(FaktoryError::BatchJobs { command, max })
}

/// Collects the elements of an array, or `None` if there are more than `max`.
struct LimitedArray<T> {
    max: usize,
    element: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for LimitedArray<T> {
    type Value = Option<Vec<T>>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while elements.len() < self.max {
            match array.next_element()? {
                Some(element) => elements.push(element),
                None => return Ok(Some(elements)),
            }
        }
        let mut is_longer = false;
        while array.next_element::<IgnoredAny>()?.is_some() {
            is_longer = true;
        }
        Ok((!is_longer).then_some(elements))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arrays_are_parsed_up_to_the_limit(elements: Vec<String>, max in 0..5_usize) {
            let json = serde_json::to_vec(&elements).unwrap();
            let parsed = parse_array::<String>("ACKB", &json, max);
            if elements.len() <= max {
                prop_assert_eq!(parsed, Ok(elements));
            } else {
                prop_assert_eq!(parsed, Err(FaktoryError::BatchJobs { command: "ACKB", max }));
            }
            for cut in 0..json.len() {
                let is_malformed =
                    matches!(parse_array::<String>("ACKB", &json[..cut], max), Err(FaktoryError::Malformed { .. }));
                prop_assert!(is_malformed, "cut at {}", cut);
            }
        }
    }
}
