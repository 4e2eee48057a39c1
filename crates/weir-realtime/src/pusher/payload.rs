//! An event's data.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::json::Plain;

/// An event's data as the text that subscribers get in the string `data`: the content of the
/// string that was sent, or the bytes of whatever other JSON was sent, as they stood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload<'a>(Cow<'a, str>);

/// Why the data was refused.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// Larger than the limit.
    #[error("the event's data has {bytes} bytes; at most {max} are allowed")]
    TooLarge { bytes: usize, max: usize },
    /// A string that is no text: half a surrogate pair.
    #[error("the event's data is not a valid string: {}", Plain(.0))]
    Invalid(serde_json::Error),
}

impl<'a> Payload<'a> {
    /// Takes `data` as it was sent.
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

    /// The text that subscribers get.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a JSON string says; nothing if it is other JSON.
pub(super) fn string_content(json: &RawValue) -> Option<serde_json::Result<Cow<'_, str>>> {
    let text = json.get();
    text.starts_with('"')
        .then(|| serde_json::from_str::<super::json::JsonText<'_>>(text).map(|text| text.0))
}
