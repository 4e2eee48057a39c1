//! Parses arbitrary bytes as a request's head: it is rejected, or the head for the worker is
//! unambiguous and keeps the target.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_front::measure::head_for_worker;

fuzz_target!(|bytes: &[u8]| {
    let Some(head) = head_for_worker(bytes) else { return };
    let (sent, got) = (target(bytes), target(&head));
    assert!(got.starts_with(b"/") || got == b"*", "{}", got.escape_ascii());
    assert!(!got.iter().any(|byte| matches!(byte, 0..=b' ' | 0x7f)), "{}", got.escape_ascii());
    // Of `http://host/path` it is the end.
    let is_same = if sent.starts_with(b"/") { sent == got } else { sent.ends_with(&got[1..]) };
    assert!(is_same, "{} of {}", got.escape_ascii(), sent.escape_ascii());
    // httparse takes UTF-8 alone.
    let start = head.windows(got.len()).position(|part| part == got).expect("a target");
    let head = [&head[..start], b"/", &head[start + got.len()..]].concat();
    let text = str::from_utf8(&head).unwrap_or_default();
    let mut fields = [httparse::EMPTY_HEADER; 128];
    let mut request = httparse::Request::new(&mut fields);
    let parsed = request.parse(&head).expect("a head");
    assert_eq!(parsed, httparse::Status::Complete(head.len()), "{text}");
    assert_eq!(request.version, Some(1));
    assert!(!head.windows(2).any(|pair| pair[0] != b'\r' && pair[1] == b'\n'), "{text}");
    let count = |name: &str| {
        request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name)).count()
    };
    assert_eq!((count("host"), count("x-request-id"), count("x-forwarded-for")), (1, 1, 1));
    assert!(count("content-length") <= 1 && count("transfer-encoding") == 0, "{text}");
    assert!(request.headers.iter().all(|field| !field.name.contains('_')), "{text}");
    assert!(count("connection") == 0 && count("upgrade") == 0 && count("te") == 0, "{text}");
});

fn target(head: &[u8]) -> &[u8] {
    let start = head.iter().position(|byte| !b"\r\n".contains(byte)).unwrap_or_default();
    head[start..].split(|byte| *byte == b' ').nth(1).unwrap_or_default()
}
