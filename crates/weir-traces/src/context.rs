//! The identity of a span in a trace, and its text in the header `traceparent`.
//!
//! Source: W3C Trace Context (<https://www.w3.org/TR/trace-context/>), section 3.2.

use hyper::header::{HeaderMap, HeaderName};

/// The header with the context of the caller's span.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The header with what tracing systems add to it. Weir passes it on and does not read it.
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Bytes of a `traceparent` of version 00.
pub const TRACEPARENT_BYTES: usize = 55;

/// The bit of the flags which says that the caller records its span.
const SAMPLED: u8 = 1;

/// A span's identity: its trace, itself, and whether it is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: u128,
    span_id: u64,
    flags: u8,
}

impl TraceContext {
    /// Creates the context of a trace that begins here and is recorded.
    #[must_use]
    pub fn new_root() -> Self {
        Self { trace_id: fastrand::u128(1..), span_id: new_span_id(), flags: SAMPLED }
    }

    /// Creates the context of another span in the same trace.
    #[must_use]
    pub fn new_child(self) -> Self {
        Self { span_id: new_span_id(), ..self }
    }

    /// Parses the value of `traceparent`. Returns None if it is malformed, in which case the caller's
    /// trace is unknown. Accepts later versions as the specification demands: what they append is
    /// ignored.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (fixed, appended) = text.split_at_checked(TRACEPARENT_BYTES)?;
        let parts = [&fixed[..2], &fixed[3..35], &fixed[36..52], &fixed[53..]];
        if [2, 35, 52].iter().any(|place| fixed[*place] != b'-') {
            return None;
        }
        let [version, trace_id, span_id, flags] = parts.map(parse_hex);
        let version = version?;
        let is_length_valid = match version {
            0 => appended.is_empty(),
            0xff => false,
            _ => appended.is_empty() || appended[0] == b'-',
        };
        let (trace_id, span_id) = (trace_id?, u64::try_from(span_id?).ok()?);
        let flags = u8::try_from(flags?).ok()?;
        // Of a later version, only the bit that version 00 defines is known.
        let flags = if version == 0 { flags } else { flags & SAMPLED };
        (is_length_valid && trace_id != 0 && span_id != 0).then_some(Self {
            trace_id,
            span_id,
            flags,
        })
    }

    /// Returns the context that a request carries. None: it has no `traceparent`, several, or a
    /// malformed one.
    #[must_use]
    pub fn of_headers(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        match (values.next(), values.next()) {
            (Some(only), None) => Self::parse(only.as_bytes()),
            _ => None,
        }
    }

    /// Returns the value of `traceparent`.
    #[must_use]
    pub fn to_traceparent(self) -> [u8; TRACEPARENT_BYTES] {
        let mut text = [b'-'; TRACEPARENT_BYTES];
        write_hex(&mut text[..2], &[0]);
        write_hex(&mut text[3..35], &self.trace_id());
        write_hex(&mut text[36..52], &self.span_id());
        write_hex(&mut text[53..], &[self.flags]);
        text
    }

    /// Returns whether the span is recorded.
    #[must_use]
    pub const fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Returns the bytes of the trace's id.
    #[must_use]
    pub const fn trace_id(self) -> [u8; 16] {
        self.trace_id.to_be_bytes()
    }

    /// Returns the bytes of the span's id.
    #[must_use]
    pub const fn span_id(self) -> [u8; 8] {
        self.span_id.to_be_bytes()
    }

    /// Returns the flags, as `traceparent` has them.
    #[must_use]
    pub const fn flags(self) -> u8 {
        self.flags
    }
}

fn new_span_id() -> u64 {
    fastrand::u64(1..)
}

/// Parses lowercase hexadecimal digits, at most 32.
fn parse_hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |value, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(value << 4 | u128::from(digit))
    })
}

fn write_hex(text: &mut [u8], bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn the_examples_of_the_specification_are_parsed() {
        let context = TraceContext::parse(VALID.as_bytes()).unwrap();
        assert!(context.is_sampled());
        assert_eq!(context.to_traceparent(), VALID.as_bytes());
        let unsampled = VALID.replace("-01", "-00");
        assert!(!TraceContext::parse(unsampled.as_bytes()).unwrap().is_sampled());
    }

    #[test]
    fn later_versions_may_append_parts() {
        for valid in ["cc-{}", "01-{}", "cc-{}-what-the-future-brings", "fe-{}-"] {
            let text = valid.replace("{}", &VALID[3..]);
            assert!(TraceContext::parse(text.as_bytes()).unwrap().is_sampled(), "{text}");
        }
        let flags = VALID.replace("00-", "cc-").replace("-01", "-ff");
        assert_eq!(TraceContext::parse(flags.as_bytes()).unwrap().flags(), SAMPLED);
    }

    #[test]
    fn malformed_values_are_rejected() {
        let zeros = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
        let no_span = "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01";
        for text in [
            "",
            "00",
            zeros,
            no_span,
            &VALID.to_uppercase(),
            &VALID.replace("00-", "ff-"),
            &format!("{VALID}-00"),
            &format!("{VALID} "),
            &VALID.replace("00-", "cc-").replace("-01", "-01.rest"),
            &VALID.replace('-', "_"),
            &VALID.replace("-01", "-0x"),
            &VALID[1..],
        ] {
            assert_eq!(TraceContext::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn several_headers_are_no_context() {
        let mut headers = HeaderMap::new();
        assert_eq!(TraceContext::of_headers(&headers), None);
        headers.append(TRACEPARENT, HeaderValue::from_static(VALID));
        assert!(TraceContext::of_headers(&headers).is_some());
        headers.append(TRACEPARENT, HeaderValue::from_static(VALID));
        assert_eq!(TraceContext::of_headers(&headers), None);
    }

    /// The rules of the specification, written as its grammar is.
    fn is_valid(text: &[u8]) -> bool {
        let is_hex = |part: &[u8]| part.iter().all(|byte| b"0123456789abcdef".contains(byte));
        let parts: Vec<&[u8]> = text.split(|byte| *byte == b'-').collect();
        let [version, trace_id, span_id, flags, appended @ ..] = &parts[..] else { return false };
        let has_lengths =
            [version.len(), trace_id.len(), span_id.len(), flags.len()] == [2, 32, 16, 2];
        has_lengths
            && [version, trace_id, span_id, flags].iter().all(|part| is_hex(part))
            && *version != b"ff"
            && trace_id.iter().any(|byte| *byte != b'0')
            && span_id.iter().any(|byte| *byte != b'0')
            && (appended.is_empty() || *version != b"00")
    }

    proptest! {
        #[test]
        fn valid_is_what_the_grammar_allows(
            text in "[0-9a-f]{2}-[0-9a-fA-F]{31,33}-[0-9a-f]{15,17}-[0-9a-g]{2}[-0-9a-z ]{0,5}",
        ) {
            prop_assert_eq!(TraceContext::parse(text.as_bytes()).is_some(), is_valid(text.as_bytes()));
        }

        #[test]
        fn arbitrary_bytes_never_panic(text: Vec<u8>) {
            prop_assert_eq!(TraceContext::parse(&text).is_some(), is_valid(&text));
        }

        #[test]
        fn a_context_is_read_as_it_was_written(trace_id in 1_u128.., span_id in 1_u64.., flags: u8) {
            let context = TraceContext { trace_id, span_id, flags };
            prop_assert_eq!(TraceContext::parse(&context.to_traceparent()), Some(context));
            let child = context.new_child();
            prop_assert_eq!((child.trace_id, child.flags), (trace_id, flags));
            prop_assert_ne!(child.span_id, span_id);
        }

        #[test]
        fn one_wrong_byte_of_a_valid_value_is_noticed(place in 0..TRACEPARENT_BYTES, byte: u8) {
            let mut text = VALID.as_bytes().to_vec();
            text[place] = byte;
            prop_assert_eq!(TraceContext::parse(&text).is_some(), is_valid(&text));
        }
    }
}
