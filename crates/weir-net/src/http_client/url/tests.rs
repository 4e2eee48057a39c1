use proptest::prelude::*;

use super::*;

fn parsed(text: &str) -> HttpUrl {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> HttpUrlError {
    text.parse::<HttpUrl>().expect_err(text)
}

#[test]
fn valid_urls_give_host_port_and_target() {
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
fn each_url_error_suggests_a_correction() {
    let owned = str::to_owned;
    for text in
        ["example.org/a", "/a", "", "ftp://example.org", "unix:/run/a.sock", "http:example.org"]
    {
        assert_eq!(refused(text), HttpUrlError::Scheme(owned(text)));
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
        assert_eq!(refused(text), HttpUrlError::Host(owned(text)));
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
        assert_eq!(refused(text), HttpUrlError::Port(owned(text)));
    }
    for text in ["http://a/b c", "http://a/ä", "http://a/\r\nX: y"] {
        assert_eq!(refused(text), HttpUrlError::Malformed(owned(text)));
    }
    assert_eq!(refused("http://a/#b"), HttpUrlError::Fragment(owned("http://a/#b")));
}

#[test]
fn passwords_and_queries_are_not_displayed() {
    for text in ["http://user:hunter2@a/", "https://hunter2@a", "user:hunter2@a/b"] {
        let error = refused(text);
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
    let url = parsed("https://a/b?token=hunter2");
    assert_eq!(format!("{url} {url:?}"), "https://a/b?.. https://a/b?..");
}

#[test]
fn a_missing_port_gets_the_default() {
    for (text, port) in
        [("http://a", 7420), ("http://[::1]/x", 7420), ("http://a:80", 80), ("http://[::1]:1", 1)]
    {
        assert_eq!(parsed(text).or_port(7420).port, port, "{text}");
    }
}

#[test]
fn a_redirect_must_stay_encrypted() {
    let from = parsed("https://rubygems.org/x");
    let to = |location: &str| from.redirected(location);
    assert_eq!(to("/gems/a.gem?b").unwrap().target.to_string(), "/gems/a.gem?b");
    let other = to("https://cdn.example/a.gem#b").unwrap();
    assert_eq!((&*other.host, other.target.path()), ("cdn.example", "/a.gem"));
    assert!(!other.is_same_server(&from) && to("/y").unwrap().is_same_server(&from));
    assert!(matches!(to("http://rubygems.org/"), Err(HttpUrlError::Downgrade(_))));
    assert!(to("//cdn.example/a").is_err() && to("ftp://a").is_err() && to("").is_err());
}

proptest! {
    /// Each accepted URL can be connected to and requested.
    #[test]
    fn parsed_targets_are_valid_in_requests(text in "(https?://)?[a-z0-9.:\\[\\]@é_-]{0,12}[/?#]?\\PC{0,12}") {
        if let Ok(url) = text.parse::<HttpUrl>() {
            prop_assert!(!url.host.is_empty() && url.port > 0, "{text}");
            let target = url.target.to_string();
            prop_assert!(target.starts_with('/') && target.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert!(!url.authority.as_bytes().contains(&b'@'));
        }
    }
}
