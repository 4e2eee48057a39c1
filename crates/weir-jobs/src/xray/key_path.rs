//! The member of a job whose value is its key.

use std::borrow::Cow;

use serde_json::Value;

/// A JSON pointer into a job (RFC 6901), such as `/args/0/domain`. `custom.NAME` is a short form of
/// `/custom/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPath(String);

/// The text is no [`KeyPath`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no key: write custom.NAME or a JSON pointer such as /args/0/domain, of at most {KEY_PATH_BYTES_MAX} bytes"
)]
pub struct KeyPathError(String);

/// Longer than any pointer that a person writes.
const KEY_PATH_BYTES_MAX: usize = 256;

impl std::str::FromStr for KeyPath {
    type Err = KeyPathError;

    fn from_str(text: &str) -> Result<Self, KeyPathError> {
        let error = || KeyPathError(text.chars().take(KEY_PATH_BYTES_MAX).collect());
        if text.len() > KEY_PATH_BYTES_MAX {
            return Err(error());
        }
        if text.starts_with('/') {
            return Ok(Self(text.to_owned()));
        }
        let name =
            text.strip_prefix("custom.").filter(|name| !name.is_empty()).ok_or_else(error)?;
        Ok(Self(format!("/custom/{}", name.replace('~', "~0").replace('/', "~1"))))
    }
}

impl KeyPath {
    /// Returns the key of a job: a string as it is, any other value as JSON. `None`: it has none.
    #[must_use]
    pub fn value<'a>(&self, job: &'a Value) -> Option<Cow<'a, str>> {
        match job.pointer(&self.0)? {
            Value::Null => None,
            Value::String(text) => Some(Cow::Borrowed(text)),
            value => Some(Cow::Owned(value.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(path: &str) -> Option<String> {
        let job =
            r#"{"args":[{"domain":"a.org"},[1,2]],"custom":{"tenant":7,"a/b~":true,"none":null}}"#;
        let path: KeyPath = path.parse().unwrap();
        path.value(&serde_json::from_str(job).unwrap()).map(Cow::into_owned)
    }

    #[test]
    fn a_key_is_a_member_of_custom_or_a_pointer() {
        assert_eq!(value("/args/0/domain").as_deref(), Some("a.org"));
        assert_eq!(value("/args/1").as_deref(), Some("[1,2]"));
        assert_eq!(value("custom.tenant").as_deref(), Some("7"));
        assert_eq!(value("custom.a/b~").as_deref(), Some("true"));
        assert_eq!(
            (value("custom.none"), value("/args/9"), value("custom.x.y")),
            (None, None, None)
        );
    }

    #[test]
    fn other_texts_are_rejected() {
        let long = "/".repeat(KEY_PATH_BYTES_MAX + 1);
        for text in ["", "tenant", "custom.", "args.0", &long] {
            assert!(text.parse::<KeyPath>().is_err(), "{text}");
        }
    }
}
