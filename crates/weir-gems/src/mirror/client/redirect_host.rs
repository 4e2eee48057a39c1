//! A host that an upstream may redirect to, however local its address is.

use std::fmt;
use std::str::FromStr;

use rustls_pki_types::ServerName;

/// A host name, or an address without brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectHost(Box<str>);

/// Error for a text that is not a valid host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no host: write a name or an address alone, such as \"cdn.example\" or \"10.0.0.5\""
)]
pub struct RedirectHostError(pub String);

impl RedirectHost {
    pub(super) fn is(&self, host: &str) -> bool {
        self.0.eq_ignore_ascii_case(host)
    }
}

impl FromStr for RedirectHost {
    type Err = RedirectHostError;

    fn from_str(text: &str) -> Result<Self, RedirectHostError> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        match ServerName::try_from(bare) {
            Ok(_) => Ok(Self(bare.into())),
            Err(_) => Err(RedirectHostError(text.to_owned())),
        }
    }
}

impl fmt::Display for RedirectHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_and_nothing_else() {
        for (text, host) in
            [("CDN.example", "cdn.Example"), ("10.0.0.5", "10.0.0.5"), ("[::1]", "::1")]
        {
            assert!(text.parse::<RedirectHost>().unwrap().is(host), "{text}");
        }
        for text in ["", "https://cdn.example", "cdn.example:443", "cdn.example/x", "*.example"] {
            assert!(text.parse::<RedirectHost>().is_err(), "{text}");
        }
        assert!(!"cdn.example".parse::<RedirectHost>().unwrap().is("other.cdn.example"));
    }
}
