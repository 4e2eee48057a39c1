//! The part of HTTP/1.1 responses that the bench has to understand.

use memchr::memmem;

/// Largest accepted head.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// A complete response at the front of the received bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response<'a> {
    pub(crate) status: u16,
    /// `X-Worker`.
    pub(crate) worker: Option<&'a [u8]>,
    /// Whether the server closes the connection after it.
    pub(crate) closes_connection: bool,
    /// Size of the response.
    pub(crate) length: usize,
    /// Size of the body, including the framing of chunks.
    pub(crate) body_bytes: usize,
}

/// Where a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    Bytes(usize),
    Chunked,
    UntilClosed,
}

struct Head<'a> {
    status: u16,
    worker: Option<&'a [u8]>,
    closes_connection: bool,
    body: Body,
}

/// Parses a response, or returns `None` while it is incomplete. `is_closed`: no more bytes will arrive.
pub(crate) fn parse(input: &[u8], is_closed: bool) -> Result<Option<Response<'_>>, String> {
    let Some(head_bytes) = memmem::find(input, b"\r\n\r\n").map(|at| at + 4) else {
        let too_long = input.len() > HEAD_BYTES_MAX;
        return if too_long {
            Err(format!("a head above {HEAD_BYTES_MAX} bytes"))
        } else {
            Ok(None)
        };
    };
    let head = Head::parse(&input[..head_bytes])?;
    let rest = &input[head_bytes..];
    let body_bytes = match head.body {
        Body::Bytes(bytes) => (rest.len() >= bytes).then_some(bytes),
        Body::Chunked => chunked_bytes(rest)?,
        Body::UntilClosed => is_closed.then_some(rest.len()),
    };
    let closes_connection = head.closes_connection || head.body == Body::UntilClosed;
    Ok(body_bytes.map(|bytes| Response {
        status: head.status,
        worker: head.worker,
        closes_connection,
        length: head_bytes + bytes,
        body_bytes: bytes,
    }))
}

impl<'a> Head<'a> {
    fn parse(text: &'a [u8]) -> Result<Self, String> {
        let end = memmem::find(text, b"\r\n").unwrap_or(text.len());
        let status = status(&text[..end])?;
        let closes_connection = text.starts_with(b"HTTP/1.0");
        let body = if [204, 304].contains(&status) { Body::Bytes(0) } else { Body::UntilClosed };
        let mut head = Self { status, worker: None, closes_connection, body };
        let mut rest = &text[end + 2..];
        while let Some(end) = memmem::find(rest, b"\r\n").filter(|end| *end > 0) {
            head.add_field(&rest[..end])?;
            rest = &rest[end + 2..];
        }
        Ok(head)
    }

    fn add_field(&mut self, line: &'a [u8]) -> Result<(), String> {
        let Some(colon) = memchr::memchr(b':', line) else {
            return Err(format!("a header without a colon: {}", line.escape_ascii()));
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"x-worker") {
            self.worker = Some(value);
        } else if name.eq_ignore_ascii_case(b"content-length") && self.body != Body::Chunked {
            self.body = Body::Bytes(number(value, 10)?);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.body = Body::Chunked;
        } else if name.eq_ignore_ascii_case(b"connection") {
            self.closes_connection = !value.eq_ignore_ascii_case(b"keep-alive");
        }
        Ok(())
    }
}

/// Parses the status of a line like `HTTP/1.1 200 OK`.
fn status(line: &[u8]) -> Result<u16, String> {
    let wrong = || format!("'{}' is no answer of HTTP/1", line.escape_ascii());
    if !line.starts_with(b"HTTP/1.") || line.len() < 12 {
        return Err(wrong());
    }
    let status = number(&line[9..12], 10).map_err(|_| wrong())?;
    u16::try_from(status).map_err(|_| wrong())
}

fn number(text: &[u8], radix: u32) -> Result<usize, String> {
    let parsed = str::from_utf8(text).ok().and_then(|text| usize::from_str_radix(text, radix).ok());
    parsed.ok_or_else(|| format!("'{}' is no number", text.escape_ascii()))
}

/// Returns the size of a chunked body (RFC 9112, 7.1) without trailers, or `None` while it is incomplete.
fn chunked_bytes(body: &[u8]) -> Result<Option<usize>, String> {
    let mut at = 0;
    loop {
        let Some(end) = memmem::find(&body[at..], b"\r\n") else {
            return Ok(None);
        };
        let size = body[at..at + end].split(|byte| *byte == b';').next().unwrap_or_default();
        let size = number(size.trim_ascii(), 16)?;
        at = at.saturating_add(end + 2).saturating_add(size).saturating_add(2);
        if at > body.len() {
            return Ok(None);
        }
        if size == 0 {
            return Ok(Some(at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(u16, Option<&str>, bool, usize)> {
        let response = parse(text.as_bytes(), false).expect("HTTP")?;
        let worker = response.worker.map(|name| str::from_utf8(name).expect("text"));
        Some((response.status, worker, response.closes_connection, response.length))
    }

    #[test]
    fn response_ends_at_its_content_length_and_names_its_worker() {
        let text = "HTTP/1.1 200 OK\r\nx-worker:  7 \r\nContent-Length: 2\r\n\r\nokHTTP/1.1 ..";
        assert_eq!(parsed(text), Some((200, Some("7"), false, text.len() - 11)));
        for cut in 0..text.len() - 11 {
            assert_eq!(parsed(&text[..cut]), None, "cut at {cut}");
        }
    }

    #[test]
    fn chunked_body_ends_with_the_last_chunk() {
        let text = "HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\n\r\n";
        assert_eq!(parsed(text), Some((503, None, false, text.len())));
        assert_eq!(parsed(&text[..text.len() - 1]), None);
    }

    #[test]
    fn response_without_length_ends_with_the_connection() {
        let text = b"HTTP/1.0 200 OK\r\nX-Worker: a\r\n\r\nok";
        assert_eq!(parse(text, false), Ok(None));
        let response = parse(text, true).expect("HTTP").expect("complete");
        assert!(response.closes_connection && response.length == text.len());
    }

    #[test]
    fn connection_close_and_http_1_0_end_the_connection() {
        let with = |connection: &str| {
            format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: {connection}\r\n\r\n")
        };
        assert!(parsed(&with("Close")).is_some_and(|response| response.2));
        assert!(parsed(&with("Keep-Alive")).is_some_and(|response| !response.2));
        assert!(parsed("HTTP/1.0 204 No\r\n\r\n").is_some_and(|response| response.2));
    }

    #[test]
    fn invalid_responses_are_rejected() {
        for text in ["SSH-2.0-x\r\n\r\n", "HTTP/1.1 abc x\r\n\r\n", "HTTP/1.1 200 OK\r\nx\r\n\r\n"]
        {
            assert!(parse(text.as_bytes(), false).is_err(), "{text}");
        }
    }
}
