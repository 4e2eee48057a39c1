//! Parses the head of a worker's response.

use std::mem::MaybeUninit;
use std::time::Duration;

use bytes::Bytes;
use httparse::{Header, ParserConfig, Status};
use hyper::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, DATE, ETAG, HeaderMap,
    HeaderName, HeaderValue, LAST_MODIFIED, LOCATION, SERVER, SET_COOKIE, VARY,
};
use hyper::{Method, StatusCode};
use weir_net::chunks::{BadChunk, Chunks};

use super::framing::Framing;

/// How many header fields fit into the array on the stack.
const HEADERS_USUAL: usize = 128;

/// Limits of a response's head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadLimits {
    /// Bytes of one head.
    pub(crate) bytes_max: usize,
    /// Fields of one head.
    pub(crate) headers_max: usize,
}

/// A worker's response whose head has arrived.
#[derive(Debug)]
pub(crate) struct UpstreamResponse {
    pub(crate) status: StatusCode,
    /// Without hop-by-hop fields (RFC 9110, section 7.6.1), unless it switches protocols.
    pub(crate) headers: HeaderMap,
    /// The content type is `text/event-stream`.
    pub(crate) is_event_stream: bool,
    /// How long the app says that the response took: `X-Runtime`, in seconds, as the middleware of
    /// Rack and Rails writes it.
    pub(crate) runtime: Option<Duration>,
    pub(super) framing: Framing,
    /// The bytes read behind the head.
    pub(crate) rest: Bytes,
    /// Whether the worker will read another request from this connection.
    pub(super) may_keep: bool,
}

impl UpstreamResponse {
    /// Checks the part of the body that has arrived, while the client can still get an error.
    pub(super) fn check_body(&self) -> Result<(), UpstreamResponseError> {
        if let Framing::Chunked(mut chunks) = self.framing {
            chunks.skip(&self.rest)?;
        }
        Ok(())
    }
}

/// Why a response is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UpstreamResponseError {
    #[error("it is no HTTP/1")]
    Syntax,
    #[error("its head is longer than answer_head_bytes_max")]
    TooLong,
    #[error("its head has more fields than answer_headers_max")]
    TooManyFields,
    #[error("its Content-Length is malformed or contradicts itself")]
    Length,
    #[error(transparent)]
    Chunks(#[from] BadChunk),
}

/// Reads the head of the response to a `method` request from the start of `bytes`. Returns None if
/// it is incomplete. Skips interim responses (1xx other than 101), which clients do not get. Fills
/// `room`, an empty map whose memory is reused.
pub(super) fn read(
    bytes: &[u8],
    method: &Method,
    limits: HeadLimits,
    reused_fields: &mut HeaderMap,
) -> Result<Option<Box<UpstreamResponse>>, UpstreamResponseError> {
    let mut start = 0;
    loop {
        let mut inline_headers = [const { MaybeUninit::uninit() }; HEADERS_USUAL];
        let mut heap_headers = Vec::new();
        let mut head = httparse::Response::new(&mut []);
        let text = &bytes[start..];
        let config = ParserConfig::default();
        let inline_headers = &mut inline_headers[..limits.headers_max.min(HEADERS_USUAL)];
        let mut parsed = config.parse_response_with_uninit_headers(&mut head, text, inline_headers);
        if parsed == Err(httparse::Error::TooManyHeaders) && limits.headers_max > HEADERS_USUAL {
            heap_headers.resize_with(limits.headers_max, MaybeUninit::uninit);
            head = httparse::Response::new(&mut []);
            parsed = config.parse_response_with_uninit_headers(&mut head, text, &mut heap_headers);
        }
        let length = match parsed {
            Ok(Status::Complete(length)) if length <= limits.bytes_max => length,
            Ok(Status::Partial) if text.len() <= limits.bytes_max => return Ok(None),
            Ok(_) => return Err(UpstreamResponseError::TooLong),
            Err(httparse::Error::TooManyHeaders) => {
                return Err(UpstreamResponseError::TooManyFields);
            }
            Err(_) => return Err(UpstreamResponseError::Syntax),
        };
        let status = head.code.and_then(|code| StatusCode::from_u16(code).ok());
        let status = status.ok_or(UpstreamResponseError::Syntax)?;
        if status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS {
            start += length;
            continue;
        }
        let shared = Bytes::copy_from_slice(text);
        let mut fields = ResponseFields::within(std::mem::take(reused_fields), head.headers.len());
        for field in &*head.headers {
            let start = field.value.as_ptr().addr() - text.as_ptr().addr();
            let value = start..start + field.value.len();
            let is_switch = status == StatusCode::SWITCHING_PROTOCOLS;
            fields.add(field, || shared.slice(value), is_switch)?;
        }
        let framing = fields.framing(status, method);
        let may_keep = head.version == Some(1) && fields.may_outlive(&framing);
        let rest = shared.slice(length..);
        return Ok(Some(Box::new(UpstreamResponse {
            status,
            is_event_stream: fields.is_event_stream,
            runtime: fields.runtime,
            headers: fields.into_headers(status)?,
            framing,
            rest,
            may_keep,
        })));
    }
}

/// The header fields of a response and what they say of its framing.
struct ResponseFields {
    headers: HeaderMap,
    length: Option<u64>,
    /// The value of Content-Length for the client. None: it is formatted from `length`.
    length_text: Option<Bytes>,
    is_event_stream: bool,
    runtime: Option<Duration>,
    /// Whether the last transfer coding is `chunked`. None: there is no coding.
    is_chunked: Option<bool>,
    wants_close: bool,
    /// Fields that `Connection` names: they are not forwarded.
    named: Vec<HeaderName>,
}

impl ResponseFields {
    /// Creates an empty set in `headers`, with memory for so many `fields`.
    fn within(mut headers: HeaderMap, fields: usize) -> Self {
        headers.reserve(fields);
        Self {
            headers,
            length: None,
            length_text: None,
            is_event_stream: false,
            runtime: None,
            is_chunked: None,
            wants_close: false,
            named: Vec::new(),
        }
    }

    /// Adds a field. `shared` returns its value as shared bytes. `is_switch`: hop-by-hop fields are
    /// kept, because the response switches protocols.
    fn add(
        &mut self,
        field: &Header<'_>,
        shared: impl FnOnce() -> Bytes,
        is_switch: bool,
    ) -> Result<(), UpstreamResponseError> {
        let Header { name, value } = *field;
        // The usual spelling is compared first, which is faster.
        let is = |usual: &str| name == usual || name.eq_ignore_ascii_case(usual);
        let is_for_us = match name.len() {
            2 => is("TE"),
            // Trailers are not forwarded.
            7 => is("Upgrade") || is("Trailer"),
            10 if is("Connection") => {
                self.connection(value);
                true
            }
            10 => is("Keep-Alive"),
            14 if is("Content-Length") => {
                // Repeated fields become one.
                self.add_length(value, shared)?;
                return Ok(());
            }
            9 if is("X-Runtime") => {
                self.runtime = self.runtime.or_else(|| seconds(value));
                false
            }
            12 if is("Content-Type") => {
                self.is_event_stream |= value.starts_with(b"text/event-stream");
                false
            }
            16 => is("Proxy-Connection"),
            17 if is("Transfer-Encoding") => {
                self.is_chunked = Some(ends_chunked(value));
                true
            }
            _ => false,
        };
        if is_for_us && !is_switch {
            return Ok(());
        }
        let name = match usual(name) {
            Some(usual) => usual,
            None => HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| UpstreamResponseError::Syntax)?,
        };
        let value =
            HeaderValue::from_maybe_shared(shared()).map_err(|_| UpstreamResponseError::Syntax)?;
        self.headers.append(name, value);
        Ok(())
    }

    fn connection(&mut self, value: &[u8]) {
        // The usual value, which is the default of HTTP/1.1.
        if value == b"keep-alive" {
            return;
        }
        for token in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            if token.eq_ignore_ascii_case(b"close") {
                self.wants_close = true;
            } else if ![&b"keep-alive"[..], b"upgrade"]
                .iter()
                .any(|known| token.eq_ignore_ascii_case(known))
            {
                self.named.extend(HeaderName::from_bytes(token));
            }
        }
    }

    /// Adds a length, which must be the same each time.
    fn add_length(
        &mut self,
        value: &[u8],
        shared: impl FnOnce() -> Bytes,
    ) -> Result<(), UpstreamResponseError> {
        for digits in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            let parsed = str::from_utf8(digits).ok().filter(|_| !digits.is_empty());
            let parsed = parsed.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            let parsed =
                parsed.and_then(|text| text.parse().ok()).ok_or(UpstreamResponseError::Length)?;
            if self.length.is_some_and(|length| length != parsed) {
                return Err(UpstreamResponseError::Length);
            }
            self.length = Some(parsed);
        }
        // Unusual spellings, such as leading zeros or lists, are normalized.
        let is_usual = value.iter().all(u8::is_ascii_digit) && !value.starts_with(b"0");
        self.length_text = if is_usual { Some(shared()) } else { None };
        Ok(())
    }

    fn framing(&self, status: StatusCode, method: &Method) -> Framing {
        let has_none =
            *method == Method::HEAD || status == StatusCode::NOT_MODIFIED || has_no_length(status);
        match (self.is_chunked, self.length) {
            _ if has_none => Framing::EMPTY,
            (Some(true), _) => Framing::Chunked(Chunks::default()),
            (None, Some(length)) => Framing::Length(length),
            (Some(false), _) | (None, None) => Framing::UntilClose,
        }
    }

    /// Returns whether the connection can be reused. If a response has both a length and a transfer
    /// coding, its end is ambiguous and the connection is closed (RFC 9112, section 6.3).
    fn may_outlive(&self, framing: &Framing) -> bool {
        let says_both = self.is_chunked.is_some() && self.length.is_some();
        !self.wants_close && !says_both && !matches!(framing, Framing::UntilClose)
    }

    /// Returns the fields for the client.
    fn into_headers(self, status: StatusCode) -> Result<HeaderMap, UpstreamResponseError> {
        let Self { mut headers, length, length_text, is_chunked, named, .. } = self;
        for name in named {
            headers.remove(name);
        }
        if let (Some(length), None) = (length, is_chunked)
            && !has_no_length(status)
        {
            let value = match length_text {
                Some(text) => HeaderValue::from_maybe_shared(text)
                    .map_err(|_| UpstreamResponseError::Length)?,
                None => HeaderValue::from(length),
            };
            headers.insert(CONTENT_LENGTH, value);
        }
        Ok(headers)
    }
}

/// Returns the name of a field that nearly all responses have, in the two usual spellings. This
/// takes a tenth of the time of parsing the name.
fn usual(name: &str) -> Option<HeaderName> {
    Some(match name {
        "Cache-Control" | "cache-control" => CACHE_CONTROL,
        "Content-Encoding" | "content-encoding" => CONTENT_ENCODING,
        "Content-Type" | "content-type" => CONTENT_TYPE,
        "Date" | "date" => DATE,
        "ETag" | "etag" => ETAG,
        "Last-Modified" | "last-modified" => LAST_MODIFIED,
        "Location" | "location" => LOCATION,
        "Server" | "server" => SERVER,
        "Set-Cookie" | "set-cookie" => SET_COOKIE,
        "Vary" | "vary" => VARY,
        _ => return None,
    })
}

/// Returns whether a response with this status has no body and no length (RFC 9110, section 8.6).
fn has_no_length(status: StatusCode) -> bool {
    status == StatusCode::NO_CONTENT || status == StatusCode::SWITCHING_PROTOCOLS
}

fn seconds(value: &[u8]) -> Option<Duration> {
    let seconds: f64 = str::from_utf8(value).ok()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn ends_chunked(codings: &[u8]) -> bool {
    let last = codings.rsplit(|byte| *byte == b',').next().unwrap_or_default();
    last.trim_ascii().eq_ignore_ascii_case(b"chunked")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HeadLimits = HeadLimits { bytes_max: 1_024, headers_max: 150 };

    fn response(text: &str) -> Result<Option<Box<UpstreamResponse>>, UpstreamResponseError> {
        read(text.as_bytes(), &Method::GET, LIMITS, &mut HeaderMap::new())
    }

    fn complete(text: &str) -> Box<UpstreamResponse> {
        response(text).expect("an answer").expect("a whole head")
    }

    #[test]
    fn bytes_behind_the_head_are_kept() {
        let got = complete("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\nx-a: 2\r\n\r\nhel");
        assert_eq!((got.status, &got.rest[..], got.may_keep), (StatusCode::OK, &b"hel"[..], true));
        assert!(matches!(got.framing, Framing::Length(5)));
        let both: Vec<_> = got.headers.get_all("x-a").iter().collect();
        assert_eq!(both, ["1", "2"]);
    }

    #[test]
    fn only_a_valid_x_runtime_is_parsed() {
        let of = |value: &str| {
            complete(&format!("HTTP/1.1 200 OK\r\nx-runtime: {value}\r\n\r\n")).runtime
        };
        assert_eq!(of("0.020000"), Some(Duration::from_millis(20)));
        for value in ["", "-1", "NaN", "inf", "20ms", "1e300"] {
            assert_eq!(of(value), None, "{value}");
        }
        let got = complete("HTTP/1.1 200 OK\r\nX-Runtime: 1\r\n\r\n");
        assert_eq!(got.headers["x-runtime"], "1", "a client gets it, too");
    }

    #[test]
    fn event_streams_are_recognized_by_content_type() {
        let is_stream = |kind: &str| {
            let got = complete(&format!("HTTP/1.1 200 OK\r\nContent-type: {kind}\r\n\r\n"));
            assert_eq!(got.headers["content-type"], kind);
            got.is_event_stream
        };
        assert!(is_stream("text/event-stream") && is_stream("text/event-stream; charset=utf-8"));
        assert!(!is_stream("text/html") && !is_stream("text/event"));
    }

    #[test]
    fn content_length_is_normalized_to_one_number() {
        let of = |value: &str| {
            let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {value}\r\n\r\n");
            complete(&text).headers[CONTENT_LENGTH].to_str().expect("text").to_owned()
        };
        for (said, passed_on) in [("7", "7"), ("0", "0"), ("007", "7"), ("70, 70", "70")] {
            assert_eq!(of(said), passed_on, "{said}");
        }
    }

    #[test]
    fn common_header_names_parse_to_the_same_name() {
        let names = "Cache-Control Content-Encoding Content-Type Date ETag Last-Modified Location \
                     Server Set-Cookie Vary";
        for name in names.split(' ').flat_map(|name| [name.to_owned(), name.to_lowercase()]) {
            assert_eq!(usual(&name), HeaderName::from_bytes(name.as_bytes()).ok(), "{name}");
        }
        assert_eq!(usual("DATE"), None, "read as any other");
    }

    #[test]
    fn interim_responses_are_skipped() {
        let text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
        assert!(response(text).expect("no error").is_none());
        let got = complete(&format!("{text}HTTP/1.1 204 No Content\r\n\r\n"));
        assert_eq!(got.status, StatusCode::NO_CONTENT);
        assert!(got.framing.is_at_end() && !got.headers.contains_key("link"));
    }

    #[test]
    fn body_framing_follows_the_standard() {
        let framing_of = |fields: &str| {
            let got = complete(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n"));
            let end = match got.framing {
                Framing::Length(length) => length.to_string(),
                Framing::Chunked(_) => "chunked".to_owned(),
                Framing::UntilClose => "close".to_owned(),
            };
            (end, got.may_keep)
        };
        let table = [
            ("Content-Length: 7\r\n", "7", true),
            ("Content-Length: 7\r\nContent-Length: 7\r\n", "7", true),
            ("Content-Length: 7, 7\r\n", "7", true),
            ("Content-Length: 7\r\nConnection: x, Close\r\n", "7", false),
            ("Transfer-Encoding: chunked\r\n", "chunked", true),
            ("Transfer-Encoding: gzip, Chunked\r\n", "chunked", true),
            ("Transfer-Encoding: chunked\r\nContent-Length: 7\r\n", "chunked", false),
            ("Transfer-Encoding: gzip\r\nContent-Length: 7\r\n", "close", false),
            ("", "close", false),
        ];
        for (fields, end, may_keep) in table {
            assert_eq!(framing_of(fields), (end.to_owned(), may_keep), "{fields}");
        }
    }

    #[test]
    fn responses_without_a_body_drop_content_length() {
        let got = complete("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n");
        assert!(got.framing.is_at_end() && !got.headers.contains_key(CONTENT_LENGTH));
        let got = complete("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n");
        assert!(got.framing.is_at_end() && got.headers.contains_key(CONTENT_LENGTH));
    }

    #[test]
    fn a_response_to_head_has_no_body() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n";
        let got = read(text, &Method::HEAD, LIMITS, &mut HeaderMap::new());
        let got = got.expect("an answer").expect("a head");
        assert!(got.framing.is_at_end() && got.may_keep);
        assert_eq!(got.headers[CONTENT_LENGTH], "7");
        let twice = complete("HTTP/1.1 200 OK\r\nContent-Length: 7, 7\r\nTrailer: x\r\n\r\n");
        assert_eq!(
            (twice.headers.len(), &twice.headers[CONTENT_LENGTH]),
            (1, &"7".parse().expect("a value"))
        );
    }

    #[test]
    fn hop_by_hop_fields_are_removed_except_for_upgrades() {
        let fields = "Connection: keep-alive, X-Hop, Content-Length\r\nKeep-Alive: timeout=5\r\n\
                      X-Hop: 1\r\nTE: a\r\nProxy-Connection: b\r\nUpgrade: c\r\nX-End: 2\r\n\
                      Content-Length: 0\r\n\r\n";
        let got = complete(&format!("HTTP/1.1 200 OK\r\n{fields}"));
        let mut names: Vec<_> = got.headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["content-length", "x-end"]);
        let fields = "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
        let got = complete(&format!("HTTP/1.1 101 Switching Protocols\r\n{fields}rest"));
        assert_eq!((got.headers.len(), &got.rest[..]), (2, &b"rest"[..]));
        assert!(got.framing.is_at_end());
    }

    #[test]
    fn http_1_0_connections_close_after_the_response() {
        assert!(!complete("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx").may_keep);
    }

    #[test]
    fn each_malformed_response_has_its_own_error() {
        let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "a".repeat(1_024));
        let fields = |count| format!("HTTP/1.1 200 OK\r\n{}\r\n", "A:b\r\n".repeat(count));
        assert_eq!(complete(&fields(150)).headers.get_all("a").iter().count(), 150);
        let many = fields(151);
        let table = [
            ("SSH-2.0-x\r\n", UpstreamResponseError::Syntax),
            ("HTTP/2 200\r\n\r\n", UpstreamResponseError::Syntax),
            ("HTTP/1.1 099 x\r\n\r\n", UpstreamResponseError::Syntax),
            ("HTTP/1.1 200 OK\r\nA b: c\r\n\r\n", UpstreamResponseError::Syntax),
            ("HTTP/1.1 200 OK\r\nContent-Length: +7\r\n\r\n", UpstreamResponseError::Length),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nContent-Length: 8\r\n\r\n",
                UpstreamResponseError::Length,
            ),
            ("HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n", UpstreamResponseError::Length),
            (&long, UpstreamResponseError::TooLong),
            (&long[..1_030], UpstreamResponseError::TooLong),
            (&many, UpstreamResponseError::TooManyFields),
        ];
        for (text, error) in table {
            let got = response(text);
            assert!(matches!(&got, Err(is) if *is == error), "{text:.60}: {got:?}");
        }
    }
}
