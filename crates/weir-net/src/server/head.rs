//! A request's head, borrowed from the bytes that were read.

use std::mem::MaybeUninit;

use httparse::{Header, Status};
use hyper::Request;

use super::limits::HEADERS_MAX;
use crate::metrics::HeadRefusal;

/// Method, target, version and header fields of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Head<'a> {
    pub method: &'a str,
    /// As it was sent: usually a path with its query.
    pub target: &'a str,
    /// The digit behind `HTTP/1.`.
    pub version: u8,
    pub headers: &'a [Header<'a>],
}

impl<'a> Head<'a> {
    /// The values of all fields of this name, in the order in which they came. Names are compared
    /// without regard to case.
    pub fn values<'n>(&self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        self.headers
            .iter()
            .filter(move |header| header.name.eq_ignore_ascii_case(name))
            .map(|header| header.value)
    }

    /// The first value of a field.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&'a [u8]> {
        self.values(name).next()
    }

    /// The target without scheme, host and query.
    #[must_use]
    pub fn path(&self) -> &'a str {
        let target = self.origin_form();
        target.split_once('?').map_or(target, |(path, _)| path)
    }

    /// What is behind the target's `?`.
    #[must_use]
    pub fn query(&self) -> Option<&'a str> {
        self.origin_form().split_once('?').map(|(_, query)| query)
    }

    /// `http://host/path` is `/path` (RFC 9112, 3.2.2: servers accept the absolute form).
    fn origin_form(&self) -> &'a str {
        let Some((_, behind_scheme)) = self.target.split_once("://") else {
            return self.target;
        };
        if self.target.starts_with('/') {
            return self.target;
        }
        behind_scheme.find(['/', '?']).map_or("/", |start| &behind_scheme[start..])
    }

    /// Whether it asks to become something else than HTTP.
    pub(super) fn asks_for_upgrade(&self) -> bool {
        self.value("upgrade").is_some()
    }

    /// Whether bytes of a body follow, as far as the head says.
    pub(super) fn announces_body(&self) -> bool {
        self.value("transfer-encoding").is_some()
            || self.values("content-length").any(|value| value != b"0")
    }
}

/// Where a head's fields are put.
pub(super) type Places<'a> = [MaybeUninit<Header<'a>>; HEADERS_MAX];

pub(super) const fn places<'a>() -> Places<'a> {
    [const { MaybeUninit::uninit() }; HEADERS_MAX]
}

/// What bytes at the start of a connection are.
#[derive(Debug)]
pub(super) enum Parsed<'a> {
    /// A head, and how many bytes it takes.
    Complete(Head<'a>, usize),
    Incomplete,
    Refused(HeadRefusal),
}

pub(super) fn parse<'a>(
    read: &'a [u8],
    places: &'a mut Places<'a>,
    head_bytes_max: usize,
) -> Parsed<'a> {
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(read, places) {
        Ok(Status::Complete(length)) if length > head_bytes_max => {
            Parsed::Refused(HeadRefusal::TooManyBytes)
        }
        Ok(Status::Complete(length)) => {
            // A complete request has all of them.
            let method = request.method.unwrap_or_default();
            let target = request.path.unwrap_or_default();
            let version = request.version.unwrap_or_default();
            Parsed::Complete(Head { method, target, version, headers: request.headers }, length)
        }
        Ok(Status::Partial) => incomplete(read, head_bytes_max),
        Err(httparse::Error::TooManyHeaders) => Parsed::Refused(HeadRefusal::TooManyFields),
        Err(httparse::Error::Version) => Parsed::Refused(HeadRefusal::Version),
        Err(_) => Parsed::Refused(HeadRefusal::Malformed),
    }
}

/// A head that has not ended.
pub(super) fn incomplete<'a>(read: &[u8], head_bytes_max: usize) -> Parsed<'a> {
    if read.len() < head_bytes_max {
        Parsed::Incomplete
    } else {
        Parsed::Refused(HeadRefusal::TooManyBytes)
    }
}

/// Whether a head may end within the last `arrived` bytes of `read`: with an empty line.
pub(super) fn may_end(read: &[u8], arrived: usize) -> bool {
    // The line feed before the empty line may have arrived earlier, at most three bytes back.
    let from = read.len().saturating_sub(arrived + 3);
    memchr::memchr_iter(b'\n', &read[from..])
        .any(|at| matches!(&read[from + at + 1..], [b'\n', ..] | [b'\r', b'\n', ..]))
}

/// The parts of a request that hyper has parsed, for a [`Head`] that borrows them.
pub(super) struct Received {
    request: Box<Request<()>>,
    target: String,
}

impl Received {
    pub(super) fn new(request: Box<Request<()>>) -> Self {
        let target = request.uri().to_string();
        Self { request, target }
    }

    /// Calls `then` with the request's head.
    pub(super) fn with_head<T>(&self, then: impl FnOnce(&Head<'_>) -> T) -> T {
        let fields = self.request.headers().iter();
        let headers: Vec<Header<'_>> = fields
            .map(|(name, value)| Header { name: name.as_str(), value: value.as_bytes() })
            .collect();
        then(&Head {
            method: self.request.method().as_str(),
            target: &self.target,
            version: u8::from(self.request.version() != hyper::Version::HTTP_10),
            headers: &headers,
        })
    }
}
