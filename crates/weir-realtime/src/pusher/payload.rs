//! An event's data.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::json::Plain;

/// An event's data as the text of the string `data` that subscribers receive: the content of the
/// string that was sent, or other JSON unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload<'a>(Cow<'a, str>);

/// Why the data was rejected.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// The data is larger than the limit.
    #[error("the event's data has {bytes} bytes; at most {max} are allowed")]
    TooLarge { bytes: usize, max: usize },
    /// The data is a string with half a surrogate pair.
    #[error("the event's data is not a valid string: {}", Plain(.0))]
    Invalid(serde_json::Error),
}

impl<'a> Payload<'a> {
    /// Converts `data` from a message or a request.
    pub(crate) fn from_json(data: &'a RawValue, bytes_max: usize) -> Result<Self, PayloadError> {
        let text = match string_content(data) {
            Some(content) => content.map_err(PayloadError::Invalid)?,
            None => Cow::Borrowed(data.get()),
        };
        match text.len() {
            bytes if bytes > bytes_max => Err(PayloadError::TooLarge { bytes, max: bytes_max }),
            _ => Ok(Self(text)),
        }
    }

    /// Returns the text that subscribers receive.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns the content of a JSON string, or None for other JSON.
pub(super) fn string_content(json: &RawValue) -> Option<serde_json::Result<Cow<'_, str>>> {
    let text = json.get();
    text.starts_with('"')
        .then(|| serde_json::from_str::<super::json::JsonText<'_>>(text).map(|text| text.0))
}
