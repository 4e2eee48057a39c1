//! Headers that the operator adds to an endpoint's requests.

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::pusher::webhook::{KEY_HEADER, SIGNATURE_HEADER};

/// The most headers of one endpoint. More would hardly pass the limits of common servers.
pub const EXTRA_HEADERS_MAX: usize = 32;

/// Validated headers. Their values are often passwords and never appear in logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtraHeaders(HeaderMap);

/// Why a header can't be added. Never contains its value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExtraHeaderError {
    /// The name is not valid for a header.
    #[error("{0:?} can't be a header's name; write letters, digits and -")]
    Name(String),
    /// The value has control characters or other invalid ones.
    #[error(
        "the value of the header {0} has characters that no header can hold, such as a line break"
    )]
    Value(String),
    /// The header is one that Weir sets.
    #[error("the header {0} is set by Weir; leave it out")]
    Reserved(String),
    /// There are more than [`EXTRA_HEADERS_MAX`].
    #[error("{0} headers are too many; an endpoint may have {EXTRA_HEADERS_MAX}")]
    TooMany(usize),
}

const RESERVED: [HeaderName; 9] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
    header::EXPECT,
];

impl ExtraHeaders {
    /// Validates names and values.
    ///
    /// # Errors
    /// Returns the error of the first header that can't be sent.
    pub fn new<'a>(
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ExtraHeaderError> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let (name, value) = parse(name, value)?;
            if map.len() == EXTRA_HEADERS_MAX {
                return Err(ExtraHeaderError::TooMany(map.len() + 1));
            }
            map.append(name, value);
        }
        Ok(Self(map))
    }

    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        for name in self.0.keys() {
            headers.remove(name);
        }
        headers.extend(self.0.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
}

fn parse(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), ExtraHeaderError> {
    let parsed: HeaderName = name.parse().map_err(|_| ExtraHeaderError::Name(name.to_owned()))?;
    let is_signature = [KEY_HEADER, SIGNATURE_HEADER]
        .iter()
        .any(|reserved| reserved.eq_ignore_ascii_case(parsed.as_str()));
    if is_signature || RESERVED.contains(&parsed) {
        return Err(ExtraHeaderError::Reserved(name.to_owned()));
    }
    let mut value =
        HeaderValue::from_str(value).map_err(|_| ExtraHeaderError::Value(name.to_owned()))?;
    value.set_sensitive(true);
    Ok((parsed, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_and_invalid_extra_headers_are_rejected() {
        let refused = |name, value| ExtraHeaders::new([(name, value)]).unwrap_err();
        assert_eq!(refused("a b", ""), ExtraHeaderError::Name("a b".into()));
        assert_eq!(refused("A", "x\r\ny"), ExtraHeaderError::Value("A".into()));
        for name in ["X-Pusher-Key", "x-pusher-signature", "Host", "content-length"] {
            assert_eq!(refused(name, ""), ExtraHeaderError::Reserved(name.into()));
        }
        let many = vec![("A", "b"); EXTRA_HEADERS_MAX + 1];
        assert_eq!(ExtraHeaders::new(many).unwrap_err(), ExtraHeaderError::TooMany(33));
    }

    #[test]
    fn extra_header_values_are_hidden_and_replace_earlier_ones() {
        let given = [("Authorization", "hunter2"), ("User-Agent", "a"), ("User-Agent", "b")];
        let extra = ExtraHeaders::new(given).unwrap();
        assert!(!format!("{extra:?}").contains("hunter2"));
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_static("weir"));
        extra.add_to(&mut headers);
        let agents: Vec<_> = headers.get_all(header::USER_AGENT).iter().collect();
        assert_eq!(agents, ["a", "b"]);
        assert_eq!(headers[header::AUTHORIZATION], "hunter2");
    }
}
