//! The member of a job whose value is its key.

mod locate;

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

/// A JSON pointer into a job (RFC 6901), such as `/args/0/domain`. `custom.NAME` is a short form of
/// `/custom/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPath {
    pointer: String,
    /// Its parts, without escapes.
    parts: Vec<Box<str>>,
}

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
            return Ok(Self::new(text.to_owned()));
        }
        let name =
            text.strip_prefix("custom.").filter(|name| !name.is_empty()).ok_or_else(error)?;
        Ok(Self::new(format!("/custom/{}", name.replace('~', "~0").replace('/', "~1"))))
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.pointer)
    }
}

impl KeyPath {
    fn new(pointer: String) -> Self {
        let parts = pointer.split('/').skip(1);
        let parts = parts.map(|part| part.replace("~1", "/").replace("~0", "~").into()).collect();
        Self { pointer, parts }
    }

    /// Returns the key in the JSON of a job, without parsing more of it than necessary: a string without
    /// its escapes, any other value as written. `None`: it has none.
    #[must_use]
    pub fn find<'a>(&self, json: &'a [u8]) -> Option<Cow<'a, str>> {
        locate::locate(&self.parts, json)
    }

    /// Returns the key of a job: a string as it is, any other value as JSON. `None`: it has none.
    #[must_use]
    pub fn value<'a>(&self, job: &'a Value) -> Option<Cow<'a, str>> {
        match job.pointer(&self.pointer)? {
            Value::Null => None,
            Value::String(text) => Some(Cow::Borrowed(text)),
            value => Some(Cow::Owned(value.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key by both ways to find it.
    fn value(path: &str) -> Option<String> {
        let job = r#"{"args":[{"domain":"a.org"},[1,2]],"custom":{"tenant":7,"a/b~":true,"none":null,"ü":"\u00fc\n"}}"#;
        let path: KeyPath = path.parse().unwrap();
        let value = path.value(&serde_json::from_str(job).unwrap()).map(Cow::into_owned);
        assert_eq!(path.find(job.as_bytes()).map(Cow::into_owned), value, "{path}");
        assert_eq!(path.to_string().parse(), Ok(path));
        value
    }

    #[test]
    fn a_key_is_a_member_of_custom_or_a_pointer() {
        assert_eq!(value("/args/0/domain").as_deref(), Some("a.org"));
        assert_eq!(value("/args/1").as_deref(), Some("[1,2]"));
        assert_eq!(value("custom.tenant").as_deref(), Some("7"));
        assert_eq!(value("custom.a/b~").as_deref(), Some("true"));
        assert_eq!(value("custom.ü").as_deref(), Some("ü\n"));
        for none in ["/args/01", "/args/+1", "/args/x", "/args/0/domain/x", "/none", "/"] {
            assert_eq!(value(none), None, "{none}");
        }
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

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(json: Vec<u8>) {
            let path: KeyPath = "/args/0/domain".parse().unwrap();
            let _ = path.find(&json);
        }
    }

    #[test]
    fn a_job_that_is_cut_off_after_the_key_still_has_it() {
        let path: KeyPath = "custom.tenant".parse().unwrap();
        let found = path.find(br#"{"custom":{"tenant":"a","#);
        assert_eq!(found.as_deref(), Some("a"), "the rest is not parsed");
    }
}
