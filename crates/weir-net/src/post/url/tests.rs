use proptest::prelude::*;

use super::*;

fn parsed(text: &str) -> EndpointUrl {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> EndpointUrlError {
    text.parse::<EndpointUrl>().expect_err(text)
}

#[test]
fn every_allowed_form_says_where_to_connect_and_what_to_ask_for() {
    for (text, host, port, is_tls, authority, target) in [
        ("http://example.org", "example.org", 80, false, "example.org", "/"),
        ("https://example.org/a/b", "example.org", 443, true, "example.org", "/a/b"),
        ("HTTPS://example.org:8443?a=b", "example.org", 8443, true, "example.org:8443", "/?a=b"),
        ("http://127.0.0.1:3000/a?b", "127.0.0.1", 3000, false, "127.0.0.1:3000", "/a?b"),
        ("https://[::1]:3000/a%20b", "::1", 3000, true, "[::1]:3000", "/a%20b"),
        ("http://[::1]", "::1", 80, false, "[::1]", "/"),
        ("http://localhost/@a:b", "localhost", 80, false, "localhost", "/@a:b"),
    ] {
        let url = parsed(text);
        assert_eq!((&*url.host, url.port, url.tls.is_some()), (host, port, is_tls), "{text}");
        assert_eq!(
            (url.authority.as_bytes(), &*url.target.to_string()),
            (authority.as_bytes(), target),
            "{text}"
        );
    }
}

#[test]
fn a_mistake_says_what_to_write() {
    let owned = str::to_owned;
    for text in
        ["example.org/a", "/a", "", "ftp://example.org", "unix:/run/a.sock", "http:example.org"]
    {
        assert_eq!(refused(text), EndpointUrlError::Scheme(owned(text)));
    }
    for text in [
        "http://",
        "http:///a",
        "http://:80/",
        "http://[127.0.0.1]/",
        "http://[::1",
        "https://exämple.org/",
        "http://exa mple.org/",
    ] {
        assert_eq!(refused(text), EndpointUrlError::Host(owned(text)));
    }
    for text in [
        "http://a:0/",
        "http://a:99999/",
        "http://a:x/",
        "http://a:/",
        "http://a:+1/",
        "http://[::1]x/",
        "https://::1/",
    ] {
        assert_eq!(refused(text), EndpointUrlError::Port(owned(text)));
    }
    for text in ["http://a/b c", "http://a/ä", "http://a/\r\nX: y"] {
        assert_eq!(refused(text), EndpointUrlError::Malformed(owned(text)));
    }
    assert_eq!(refused("http://a/#b"), EndpointUrlError::Fragment(owned("http://a/#b")));
}

#[test]
fn passwords_and_queries_are_not_shown() {
    for text in ["http://user:hunter2@a/", "https://hunter2@a", "user:hunter2@a/b"] {
        let error = refused(text);
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
    let url = parsed("https://a/b?token=hunter2");
    assert_eq!(format!("{url} {url:?}"), "https://a/b?.. https://a/b?..");
}

proptest! {
    /// Whatever is taken can be connected to and asked for.
    #[test]
    fn what_is_taken_can_be_sent(text in "(https?://)?[a-z0-9.:\\[\\]@é_-]{0,12}[/?#]?\\PC{0,12}") {
        if let Ok(url) = text.parse::<EndpointUrl>() {
            prop_assert!(!url.host.is_empty() && url.port > 0, "{text}");
            let target = url.target.to_string();
            prop_assert!(target.starts_with('/') && target.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert!(!url.authority.as_bytes().contains(&b'@'));
        }
    }
}
