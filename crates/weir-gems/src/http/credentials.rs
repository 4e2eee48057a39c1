//! Extracts the API key of a request. `gem push` sends it bare, scripts behind `Bearer`, and
//! `bundle` and `gem` as HTTP Basic from the user information in the URL of a source.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::header::{AUTHORIZATION, HeaderMap};

use crate::keys::PREFIX;

/// Returns the text of the key, or None if the request has none.
pub(super) fn key_of(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    let text = headers.get(AUTHORIZATION)?.to_str().ok()?.trim_ascii();
    let key = match text.split_once(' ') {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => key.trim_ascii().into(),
        Some((scheme, pair)) if scheme.eq_ignore_ascii_case("basic") => of_basic(pair).into(),
        _ => Cow::Borrowed(text),
    };
    Some(key).filter(|key| !key.is_empty())
}

/// Returns the part of `USER:PASSWORD` that looks like a key. That is usually the password, but
/// some users put the key in the place of the user, with an empty password or `x-oauth-basic`.
fn of_basic(pair: &str) -> String {
    let Ok(pair) = BASE64_STANDARD.decode(pair.trim_ascii()) else { return pair.to_owned() };
    let pair = String::from_utf8_lossy(&pair);
    let (user, password) = pair.split_once(':').unwrap_or((&pair, ""));
    let is_key = |text: &&str| text.starts_with(PREFIX);
    let key = [password, user].into_iter().find(is_key);
    key.or_else(|| [password, user].into_iter().find(|text| !text.is_empty()))
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn key(authorization: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_str(authorization).unwrap());
        key_of(&headers).map(Cow::into_owned)
    }

    #[test]
    fn a_key_is_found_however_a_client_sends_it() {
        let basic = |pair: &str| format!("Basic {}", BASE64_STANDARD.encode(pair));
        for (sent, expected) in [
            ("weir_1".to_owned(), Some("weir_1")),
            ("Bearer weir_1".to_owned(), Some("weir_1")),
            ("bearer  weir_1 ".to_owned(), Some("weir_1")),
            (basic("ci:weir_1"), Some("weir_1")),
            (basic("ci:weir_1").replace("Basic", "basic"), Some("weir_1")),
            (basic("weir_1:"), Some("weir_1")),
            (basic("weir_1"), Some("weir_1")),
            (basic("weir_1:x-oauth-basic"), Some("weir_1")),
            (basic(":weir_1"), Some("weir_1")),
            (basic("weir_ci:weir_1"), Some("weir_1")),
            (basic("me:word"), Some("word")),
            (basic("me:"), Some("me")),
            (basic(":"), None),
            ("Basic ?".to_owned(), Some("?")),
            ("Basic ".to_owned(), Some("Basic")),
            (String::new(), None),
            (" ".to_owned(), None),
        ] {
            assert_eq!(key(&sent).as_deref(), expected, "{sent}");
        }
        assert_eq!(key_of(&HeaderMap::new()), None);
    }
}
