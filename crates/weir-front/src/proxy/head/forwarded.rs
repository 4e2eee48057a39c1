//! What a worker is told of the client and of the way here.

use std::cell::RefCell;
use std::io::Write;
use std::net::IpAddr;

use hyper::header::{FORWARDED, HeaderMap, HeaderName, HeaderValue};
use weir_base::clock::Timestamp;
use weir_net::server::Peer;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const X_REQUEST_START: HeaderName = HeaderName::from_static("x-request-start");

/// A longer one is replaced.
const REQUEST_ID_BYTES_MAX: usize = 128;
/// The longest text of an address: eight groups of four digits.
const ADDRESS_BYTES_MAX: usize = 39;

/// What a worker is told. What a client says of itself is no evidence, so all of it is ours.
#[derive(Debug)]
pub(in crate::proxy) struct Forwarded {
    pub(in crate::proxy) peer: Peer,
    pub(in crate::proxy) start: HeaderValue,
}

impl Forwarded {
    pub(super) fn add(self, headers: &mut HeaderMap, host: &HeaderValue) {
        headers.remove(FORWARDED);
        match self.peer.address.and_then(address) {
            Some(address) => headers.insert(X_FORWARDED_FOR, address),
            None => headers.remove(X_FORWARDED_FOR),
        };
        let protocol = if self.peer.is_tls { "https" } else { "http" };
        headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static(protocol));
        headers.insert(X_FORWARDED_HOST, host.clone());
        headers.insert(X_REQUEST_START, self.start);
        // One that a client sent is kept if it is short and plain.
        if !headers.get(X_REQUEST_ID).is_some_and(is_plain) {
            headers.insert(X_REQUEST_ID, new_id());
        }
    }
}

fn address(address: IpAddr) -> Option<HeaderValue> {
    let mut text = [0; ADDRESS_BYTES_MAX];
    let mut left = &mut text[..];
    write!(left, "{address}").ok()?;
    let length = ADDRESS_BYTES_MAX - left.len();
    HeaderValue::from_bytes(&text[..length]).ok()
}

fn is_plain(id: &HeaderValue) -> bool {
    let bytes = id.as_bytes();
    (1..=REQUEST_ID_BYTES_MAX).contains(&bytes.len())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte))
}

/// 128 random bits in hexadecimal.
fn new_id() -> HeaderValue {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 32];
    for (pair, byte) in text.chunks_exact_mut(2).zip(fastrand::u128(..).to_be_bytes()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    HeaderValue::from_bytes(&text).unwrap_or_else(|_| unreachable!("digits"))
}

/// The value of `X-Request-Start`, written once a millisecond: `t=` and seconds with three
/// decimals, the form that nginx's `t=${msec}` made common.
#[derive(Debug)]
pub(in crate::proxy) struct RequestStart(RefCell<(u64, HeaderValue)>);

impl Default for RequestStart {
    fn default() -> Self {
        Self(RefCell::new((0, HeaderValue::from_static("t=0.000"))))
    }
}

impl RequestStart {
    pub(in crate::proxy) fn at(&self, now: Timestamp) -> HeaderValue {
        let (millis, value) = &mut *self.0.borrow_mut();
        if *millis != now.as_millis() {
            *millis = now.as_millis();
            let text = format!("t={}.{:03}", *millis / 1_000, *millis % 1_000);
            *value = HeaderValue::try_from(text).unwrap_or_else(|_| unreachable!("digits"));
        }
        value.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_in_seconds_with_three_decimals() {
        let start = RequestStart::default();
        assert_eq!(start.at(Timestamp::from_millis(1_234_567_890_007)), "t=1234567890.007");
        assert_eq!(start.at(Timestamp::from_micros(1_234_567_890_008_999)), "t=1234567890.008");
    }

    #[test]
    fn the_longest_address_fits() {
        for text in ["192.0.2.1", "2001:db8:1111:2222:3333:4444:5555:6666", "::1"] {
            let parsed: IpAddr = text.parse().expect("an address");
            assert_eq!(address(parsed).expect("a value"), text);
        }
    }
}
