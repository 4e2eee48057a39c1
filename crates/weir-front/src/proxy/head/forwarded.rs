//! What a worker is told of the client and of the way here.

use std::cell::Cell;
use std::io::Write;
use std::net::IpAddr;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use weir_base::clock::Timestamp;

use super::{Target, write_field};
use crate::proxy::origin::Origin;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A longer one is replaced.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// What a worker is told. What a client says of itself is no evidence, so all of it is ours.
#[derive(Debug)]
pub(in crate::proxy) struct Forwarded {
    pub(in crate::proxy) origin: Origin,
    pub(in crate::proxy) start: Start,
    pub(in crate::proxy) id: RequestId,
}

/// What names a request in all logs. One that a client sent is kept if it is short and plain.
#[derive(Clone, Debug)]
pub(in crate::proxy) enum RequestId {
    Given(HeaderValue),
    New([u8; 32]),
}

impl RequestId {
    pub(in crate::proxy) fn of(headers: &HeaderMap) -> Self {
        match headers.get(X_REQUEST_ID).filter(|id| is_plain(id)) {
            Some(id) => Self::Given(id.clone()),
            None => Self::New(new_id()),
        }
    }

    pub(in crate::proxy) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Given(id) => id.as_bytes(),
            Self::New(id) => id,
        }
    }
}

impl Forwarded {
    pub(super) fn write(&self, head: &mut Vec<u8>, target: &Target) {
        let protocol = if self.origin.is_tls { "https" } else { "http" };
        if let Some(address) = self.origin.address {
            head.extend_from_slice(b"x-forwarded-for: ");
            write_address(head, address);
            head.extend_from_slice(b"\r\n");
        }
        write_field(head, "x-forwarded-proto", protocol.as_bytes());
        write_field(head, "x-forwarded-host", target.host.as_bytes());
        write_forwarded(head, self.origin, protocol, target.host.as_bytes());
        write_field(head, "x-request-start", &self.start);
        write_field(head, "x-request-id", self.id.as_bytes());
    }
}

/// The standard's field (RFC 7239), which newer frameworks read first.
fn write_forwarded(head: &mut Vec<u8>, origin: Origin, protocol: &str, host: &[u8]) {
    head.extend_from_slice(b"forwarded: for=");
    match origin.address {
        Some(address @ IpAddr::V4(_)) => write_address(head, address),
        Some(address @ IpAddr::V6(_)) => {
            head.extend_from_slice(b"\"[");
            write_address(head, address);
            head.extend_from_slice(b"]\"");
        }
        None => head.extend_from_slice(b"unknown"),
    }
    head.extend_from_slice(b";proto=");
    head.extend_from_slice(protocol.as_bytes());
    if !host.is_empty() {
        // Quoted, for a port's colon is no token; a host has neither quotes nor backslashes.
        head.extend_from_slice(b";host=\"");
        head.extend_from_slice(host);
        head.push(b'"');
    }
    head.extend_from_slice(b"\r\n");
}

/// As it is displayed. Of IPv4 by hand: the formatter takes 60 ns, three times a request.
fn write_address(head: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            for (index, octet) in address.octets().into_iter().enumerate() {
                if index > 0 {
                    head.push(b'.');
                }
                if octet >= 100 {
                    head.push(b'0' + octet / 100);
                }
                if octet >= 10 {
                    head.push(b'0' + octet / 10 % 10);
                }
                head.push(b'0' + octet % 10);
            }
        }
        // Writing to memory can't fail.
        IpAddr::V6(address) => drop(write!(head, "{address}")),
    }
}

fn is_plain(id: &HeaderValue) -> bool {
    let bytes = id.as_bytes();
    (1..=REQUEST_ID_BYTES_MAX).contains(&bytes.len())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte))
}

/// 128 random bits in hexadecimal.
fn new_id() -> [u8; 32] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 32];
    for (pair, byte) in text.chunks_exact_mut(2).zip(fastrand::u128(..).to_be_bytes()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    text
}

/// The value of `X-Request-Start`: `t=` and seconds with three decimals, the form that nginx's
/// `t=${msec}` made common.
pub(in crate::proxy) type Start = [u8; START_BYTES];

/// Until the year 2286.
const START_BYTES: usize = "t=1234567890.123".len();

/// Writes the value once a millisecond.
#[derive(Debug)]
pub(in crate::proxy) struct RequestStart(Cell<(u64, Start)>);

impl Default for RequestStart {
    fn default() -> Self {
        Self(Cell::new((0, *b"t=0000000000.000")))
    }
}

impl RequestStart {
    pub(in crate::proxy) fn at(&self, now: Timestamp) -> Start {
        let (millis, value) = self.0.get();
        if millis == now.as_millis() {
            return value;
        }
        let millis = now.as_millis();
        let mut value = *b"t=0000000000.000";
        // A clock beyond that year leaves the value as it is.
        let _ = write!(&mut value[2..], "{:010}.{:03}", millis / 1_000, millis % 1_000);
        self.0.set((millis, value));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_they_are_displayed() {
        for text in ["0.0.0.0", "9.10.99.100", "255.205.101.1", "2001:db8::7"] {
            let mut written = Vec::new();
            write_address(&mut written, text.parse().expect("an address"));
            assert_eq!(String::from_utf8(written).as_deref(), Ok(text));
        }
    }

    #[test]
    fn the_start_is_in_seconds_with_three_decimals() {
        let start = RequestStart::default();
        assert_eq!(&start.at(Timestamp::from_millis(1_234_567_890_007)), b"t=1234567890.007");
        assert_eq!(&start.at(Timestamp::from_micros(1_234_567_890_008_999)), b"t=1234567890.008");
    }
}
