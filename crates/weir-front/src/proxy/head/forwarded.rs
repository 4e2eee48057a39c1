//! The header fields that inform a worker about the client and the proxies in between.

use std::cell::Cell;
use std::io::Write;
use std::net::IpAddr;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use weir_base::clock::Timestamp;
use weir_net::client::Origin;
use weir_traces::context::{TRACEPARENT, TRACESTATE};

use super::{Target, write_known};
use crate::forwarded_headers::{ForwardedHeader, ForwardedHeaders};
use crate::proxy::trace::ForwardedTrace;

pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A longer request ID is replaced by a new one.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// The values of the fields for a worker. Weir writes all of them; a client's are not trusted.
#[derive(Debug)]
pub(in crate::proxy) struct Forwarded {
    pub(in crate::proxy) headers: ForwardedHeaders,
    pub(in crate::proxy) origin: Origin,
    /// None: `X-Request-Start` is not sent.
    pub(in crate::proxy) start: Option<Start>,
    /// None: `X-Request-Id` is neither sent nor logged.
    pub(in crate::proxy) id: Option<RequestId>,
    /// None: the request is not traced, and the client's trace context is passed on.
    pub(in crate::proxy) trace: Option<ForwardedTrace>,
}

/// The ID of a request in all logs. A client's ID is used if it is short and plain.
#[derive(Clone, Debug)]
pub(in crate::proxy) enum RequestId {
    Given(HeaderValue),
    New([u8; 32]),
}

impl RequestId {
    pub(in crate::proxy) fn new(target: &Target, headers: &HeaderMap) -> Self {
        let given = if target.has_request_id { headers.get(X_REQUEST_ID) } else { None };
        match given.filter(|id| is_plain(id)) {
            Some(id) => Self::Given(id.clone()),
            None => Self::New(new_id()),
        }
    }

    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Given(id) => id.as_bytes(),
            Self::New(id) => id,
        }
    }
}

impl Forwarded {
    pub(in crate::proxy) fn id(&self) -> Option<&[u8]> {
        self.id.as_ref().map(RequestId::as_bytes)
    }

    /// Returns whether a client's field is left out, because Weir's span is the caller of the worker.
    pub(super) fn replaces(&self, name: &HeaderName) -> bool {
        let Some(trace) = &self.trace else { return false };
        name == TRACEPARENT || (name == TRACESTATE && !trace.keeps_state)
    }

    pub(super) fn write(&self, head: &mut Vec<u8>, target: &Target) {
        let [x_forwarded, forwarded] = [ForwardedHeader::XForwarded, ForwardedHeader::Forwarded]
            .map(|header| self.headers.has(header));
        if x_forwarded || forwarded {
            let hop = Hop::new(self.origin, target.host.as_bytes());
            if x_forwarded {
                hop.write_x_forwarded(head);
            }
            if forwarded {
                hop.write_forwarded(head);
            }
        }
        if let Some(start) = &self.start {
            write_known(head, "\r\nx-request-start: ", start);
        }
        if let Some(id) = self.id()
            && self.headers.has(ForwardedHeader::XRequestId)
        {
            write_known(head, "\r\nx-request-id: ", id);
        }
        if let Some(trace) = &self.trace {
            write_known(head, "\r\ntraceparent: ", &trace.traceparent);
        }
    }
}

/// The connection to the client, as text.
struct Hop<'a> {
    address: Option<IpAddr>,
    client: AddressText,
    protocol: &'static str,
    host: &'a [u8],
}

impl<'a> Hop<'a> {
    fn new(origin: Origin, host: &'a [u8]) -> Self {
        let address = origin.address;
        let client = address.map_or(AddressText::EMPTY, AddressText::new);
        Self { address, client, protocol: if origin.is_tls { "https" } else { "http" }, host }
    }

    fn write_x_forwarded(&self, head: &mut Vec<u8>) {
        if self.address.is_some() {
            write_known(head, "\r\nx-forwarded-for: ", self.client.as_bytes());
        }
        write_known(head, "\r\nx-forwarded-proto: ", self.protocol.as_bytes());
        write_known(head, "\r\nx-forwarded-host: ", self.host);
    }

    /// Appends the standard field (RFC 7239), which newer frameworks prefer.
    fn write_forwarded(&self, head: &mut Vec<u8>) {
        head.extend_from_slice(b"\r\nforwarded: for=");
        match self.address {
            Some(IpAddr::V4(_)) => head.extend_from_slice(self.client.as_bytes()),
            Some(IpAddr::V6(_)) => {
                head.extend_from_slice(b"\"[");
                head.extend_from_slice(self.client.as_bytes());
                head.extend_from_slice(b"]\"");
            }
            None => head.extend_from_slice(b"unknown"),
        }
        head.extend_from_slice(b";proto=");
        head.extend_from_slice(self.protocol.as_bytes());
        if !self.host.is_empty() {
            // Quoted, because a token has no colon. Hosts contain neither quotes nor backslashes.
            head.extend_from_slice(b";host=\"");
            head.extend_from_slice(self.host);
            head.push(b'"');
        }
    }
}

/// The length of the longest address: `ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255`.
const ADDRESS_BYTES_MAX: usize = 45;

/// The text of an address, without allocation.
struct AddressText {
    bytes: [u8; ADDRESS_BYTES_MAX],
    length: usize,
}

impl AddressText {
    const EMPTY: Self = Self { bytes: [0; ADDRESS_BYTES_MAX], length: 0 };

    fn new(address: IpAddr) -> Self {
        let mut text = Self::EMPTY;
        match address {
            IpAddr::V4(address) => text.write_octets(address.octets()),
            IpAddr::V6(address) => {
                let mut free = &mut text.bytes[..];
                // The longest address fits.
                let _ = write!(free, "{address}");
                text.length = ADDRESS_BYTES_MAX - free.len();
            }
        }
        text
    }

    /// Writes an IPv4 address without the formatter, which takes 60 ns.
    fn write_octets(&mut self, octets: [u8; 4]) {
        for (index, octet) in octets.into_iter().enumerate() {
            if index > 0 {
                self.push(b'.');
            }
            if octet >= 100 {
                self.push(b'0' + octet / 100);
            }
            if octet >= 10 {
                self.push(b'0' + octet / 10 % 10);
            }
            self.push(b'0' + octet % 10);
        }
    }

    fn push(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

fn is_plain(id: &HeaderValue) -> bool {
    let bytes = id.as_bytes();
    (1..=REQUEST_ID_BYTES_MAX).contains(&bytes.len())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte))
}

/// Creates an ID of 128 random bits in hexadecimal.
fn new_id() -> [u8; 32] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 32];
    for (pair, byte) in text.chunks_exact_mut(2).zip(fastrand::u128(..).to_be_bytes()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    text
}

/// The value of `X-Request-Start`: `t=` and seconds with three decimals, as in nginx configurations
/// with `t=${msec}`.
pub(in crate::proxy) type Start = [u8; START_BYTES];

/// Enough until the year 2286.
const START_BYTES: usize = "t=1234567890.123".len();

/// Caches the value, which is formatted once a millisecond.
#[derive(Debug)]
pub(in crate::proxy) struct RequestStart(Cell<(u64, Start)>);

impl Default for RequestStart {
    fn default() -> Self {
        Self(Cell::new((0, *b"t=0000000000.000")))
    }
}

impl RequestStart {
    pub(in crate::proxy) fn header_value(&self, now: Timestamp) -> Start {
        let (millis, value) = self.0.get();
        if millis == now.as_millis() {
            return value;
        }
        let millis = now.as_millis();
        let mut value = *b"t=0000000000.000";
        // The text fits until the year 2286.
        let _ = write!(&mut value[2..], "{:010}.{:03}", millis / 1_000, millis % 1_000);
        self.0.set((millis, value));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_formatted_as_by_display() {
        let longest = "1111:2222:3333:4444:5555:6666:7777:8888";
        let mapped = "::ffff:255.255.255.255";
        for text in
            ["0.0.0.0", "9.10.99.100", "255.205.101.1", "255.255.255.255", "::", longest, mapped]
        {
            let written = AddressText::new(text.parse().expect("an address"));
            assert_eq!(str::from_utf8(written.as_bytes()), Ok(text));
        }
    }

    #[test]
    fn the_start_header_has_milliseconds() {
        let start = RequestStart::default();
        assert_eq!(
            &start.header_value(Timestamp::from_millis(1_234_567_890_007)),
            b"t=1234567890.007"
        );
        assert_eq!(
            &start.header_value(Timestamp::from_micros(1_234_567_890_008_999)),
            b"t=1234567890.008"
        );
    }
}
