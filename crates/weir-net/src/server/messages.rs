//! Tracks the messages of an HTTP/1 connection on their way to hyper: where heads and bodies begin
//! and end.
//!
//! Two things are done on the way. In the target of a head, bytes that hyper would reject are
//! replaced, one by one, so that no length changes, and the original target is kept for its
//! request. And a chunked body is checked ([`Chunks`]), since hyper is less strict.
//!
//! hyper must see the same messages as this module; otherwise the target of one request could go to
//! another, or bytes of a body be changed. Hence heads end by the same rule as in httparse; behind
//! a head, hyper gets nothing until it has reported the body's framing; and if it asks for more
//! before that, the connection ends.

use std::io;

use hyper::body::{Body as _, Incoming};
use memchr::memchr;

use super::limits::HEADERS_USUAL;
use super::raw_target::{has_unusual, is_unusual};
use crate::chunks::Chunks;

/// Replaces an unusual byte in a target. Any byte would do that hyper accepts everywhere.
const SUBSTITUTE: u8 = b'_';

/// The position of a connection within its messages.
#[derive(Debug)]
pub(super) struct Messages {
    position: MessagePosition,
    /// The part of the current target that has arrived, if it is incomplete or unusual.
    target: Vec<u8>,
    is_target_unusual: bool,
    /// How many fields the current head has so far.
    fields: usize,
    /// How many fields hyper accepts. None: as many as are allowed.
    fields_max: Option<usize>,
}

#[derive(Debug)]
enum MessagePosition {
    Head(HeadPosition),
    /// Behind a head, before hyper has reported the framing of its body.
    HeadEnd,
    /// In a body with this many bytes left.
    Length(u64),
    Chunked(Chunks),
    /// The connection was upgraded to another protocol.
    Upgraded,
}

#[derive(Clone, Copy, Debug)]
enum HeadPosition {
    /// Before the first line; empty lines may precede it.
    Start,
    Method,
    Target,
    /// In the first line behind the target, or in a field.
    Line,
    LineStart,
    /// Behind a carriage return at the start of a line.
    LineStartEnd,
}

/// The framing of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyEnd {
    Length(u64),
    Chunked,
}

impl From<&Incoming> for BodyEnd {
    fn from(body: &Incoming) -> Self {
        let length = if body.is_end_stream() { Some(0) } else { body.size_hint().exact() };
        length.map_or(Self::Chunked, Self::Length)
    }
}

impl Default for Messages {
    fn default() -> Self {
        let position = MessagePosition::Head(HeadPosition::Start);
        Self {
            position,
            target: Vec::new(),
            is_target_unusual: false,
            fields: 0,
            fields_max: Some(HEADERS_USUAL),
        }
    }
}

impl Messages {
    /// Returns how many of `bytes` hyper may read now: at least one, unless the head has more
    /// fields than hyper accepts. Replaces bytes that it would reject.
    pub(super) fn admit(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut admitted = 0;
        while admitted < bytes.len() && !self.is_too_wide() {
            let rest = &mut bytes[admitted..];
            admitted += match &mut self.position {
                MessagePosition::Head(position) => {
                    let position = *position;
                    self.admit_head(position, rest)
                }
                MessagePosition::HeadEnd if admitted > 0 => break,
                MessagePosition::HeadEnd => {
                    return Err(io::Error::other("hyper goes on behind a head's end"));
                }
                MessagePosition::Length(remaining) => {
                    let length = rest.len().min(usize::try_from(*remaining).unwrap_or(usize::MAX));
                    *remaining -= length as u64;
                    if *remaining == 0 {
                        self.position = MessagePosition::Head(HeadPosition::Start);
                    }
                    length
                }
                MessagePosition::Chunked(chunks) => {
                    let length = chunks
                        .skip(rest)
                        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                    if chunks.is_at_end() {
                        self.position = MessagePosition::Head(HeadPosition::Start);
                    }
                    length
                }
                MessagePosition::Upgraded => rest.len(),
            };
        }
        Ok(admitted)
    }

    /// Notes that hyper has read a head, whose body is `end`. Returns the original target if it is
    /// unusual.
    pub(super) fn begin_body(&mut self, end: BodyEnd) -> Option<Vec<u8>> {
        self.fields = 0;
        self.position = match end {
            BodyEnd::Length(0) => MessagePosition::Head(HeadPosition::Start),
            BodyEnd::Length(length) => MessagePosition::Length(length),
            BodyEnd::Chunked => MessagePosition::Chunked(Chunks::default()),
        };
        let target = std::mem::take(&mut self.target);
        std::mem::take(&mut self.is_target_unusual).then_some(target)
    }

    /// Returns whether hyper gets nothing more, because the head has more fields than it accepts.
    pub(super) fn is_too_wide(&self) -> bool {
        self.fields_max.is_some_and(|max| self.fields > max)
    }

    /// Notes that hyper accepts as many fields as are allowed from now on.
    pub(super) fn widen(&mut self) {
        self.fields_max = None;
    }

    /// Notes that what follows is not HTTP.
    pub(super) fn upgrade(&mut self) {
        self.position = MessagePosition::Upgraded;
    }

    /// Processes the next part of a head, and returns its length.
    fn admit_head(&mut self, position: HeadPosition, bytes: &mut [u8]) -> usize {
        if let (HeadPosition::LineStart, false) = (position, b"\r\n".contains(&bytes[0])) {
            self.fields += 1;
            if self.is_too_wide() {
                return 0;
            }
        }
        let (current, last, behind) = match (position, bytes[0]) {
            (HeadPosition::Start, b'\r' | b'\n') => return 1,
            (HeadPosition::LineStart, b'\r') => {
                self.position = MessagePosition::Head(HeadPosition::LineStartEnd);
                return 1;
            }
            (HeadPosition::LineStart | HeadPosition::LineStartEnd, b'\n') => {
                self.position = MessagePosition::HeadEnd;
                return 1;
            }
            (HeadPosition::Start | HeadPosition::Method, _) => {
                (HeadPosition::Method, b' ', HeadPosition::Target)
            }
            (HeadPosition::Target, _) => (HeadPosition::Target, b' ', HeadPosition::Line),
            (HeadPosition::Line | HeadPosition::LineStart | HeadPosition::LineStartEnd, _) => {
                (HeadPosition::Line, b'\n', HeadPosition::LineStart)
            }
        };
        let end = memchr(last, bytes);
        let length = end.unwrap_or(bytes.len());
        if matches!(current, HeadPosition::Target) {
            self.admit_target(&mut bytes[..length], end.is_some());
        }
        self.position = MessagePosition::Head(if end.is_some() { behind } else { current });
        length + usize::from(end.is_some())
    }

    /// Processes a part of a target; `is_last`: it ends the target.
    fn admit_target(&mut self, piece: &mut [u8], is_last: bool) {
        let has_unusual = has_unusual(piece);
        if has_unusual || !is_last || !self.target.is_empty() {
            self.target.extend_from_slice(piece);
        }
        if has_unusual {
            self.is_target_unusual = true;
            for byte in piece.iter_mut().filter(|byte| is_unusual(**byte)) {
                *byte = SUBSTITUTE;
            }
        }
    }
}

/// Returns a connection's first bytes with the unusual bytes of the target replaced, and the part
/// of the original target that has arrived. None: the target is not unusual.
pub(super) fn unusual_target(read: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let line = read.trim_ascii_start();
    let line = &line[..memchr(b'\n', line).unwrap_or(line.len())];
    if !has_unusual(line) {
        return None;
    }
    let (mut messages, mut changed) = (Messages::default(), read.to_vec());
    messages.admit(&mut changed).ok()?;
    messages.is_target_unusual.then_some((changed, messages.target))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A request: its head, the framing of its body, and its body as sent.
    #[derive(Clone, Debug)]
    struct Sent {
        before: &'static str,
        target: Vec<u8>,
        rest: String,
        end: BodyEnd,
        body: Vec<u8>,
    }

    impl Sent {
        fn bytes(&self, target: &[u8]) -> Vec<u8> {
            [self.before.as_bytes(), target, self.rest.as_bytes(), &self.body].concat()
        }

        /// Returns the bytes that hyper must get.
        fn admitted(&self) -> Vec<u8> {
            let substitute = |byte: &u8| if is_unusual(*byte) { SUBSTITUTE } else { *byte };
            self.bytes(&self.target.iter().map(substitute).collect::<Vec<_>>())
        }
    }

    fn sent() -> impl Strategy<Value = Sent> {
        let before = prop_oneof![Just("GET "), Just("\r\n\nPOST ")];
        let target =
            prop::collection::vec((0x21_u8..).prop_filter("refused", |byte| *byte != 0x7f), 1..20);
        let rest = prop_oneof![
            Just(" HTTP/1.1\r\nA: \"#\"\r\n\r\n"),
            Just(" HTTP/1.0\n\n"),
            Just(" HTTP/1.1\r\nA:\nB: \u{e9}\r\n\n"),
        ];
        let data = prop::collection::vec(prop_oneof![any::<u8>(), Just(b'"'), Just(b'\n')], 0..30);
        (before, target, rest, data, 0..3).prop_map(|(before, target, rest, data, kind)| {
            let (end, body) = match kind {
                0 => (BodyEnd::Length(0), Vec::new()),
                1 => (BodyEnd::Length(data.len() as u64), data),
                _ => (BodyEnd::Chunked, chunked(&data)),
            };
            Sent { before, target, rest: rest.to_owned(), end, body }
        })
    }

    fn chunked(data: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        for chunk in data.chunks(7) {
            body.extend_from_slice(format!("{:x};\"\"\r\n", chunk.len()).as_bytes());
            body.extend_from_slice(chunk);
            body.extend_from_slice(b"\r\n");
        }
        [&body[..], b"0\r\nA: \"\r\n\r\n"].concat()
    }

    /// The bytes that hyper got, and each request's target if it is unusual.
    type Admitted = (Vec<u8>, Vec<Option<Vec<u8>>>);

    /// Passes bytes that arrive in pieces of these sizes. Returns the bytes for hyper and the
    /// unusual targets.
    fn admit(bytes: &[u8], sizes: &[usize], ends: &[BodyEnd]) -> io::Result<Admitted> {
        let (mut messages, mut admitted, mut targets) =
            (Messages::default(), Vec::new(), Vec::new());
        let mut sizes = sizes.iter().cycle();
        while admitted.len() < bytes.len() {
            let size = sizes.next().copied().unwrap_or(usize::MAX);
            let end = bytes.len().min(admitted.len().saturating_add(size));
            let mut piece = bytes[admitted.len()..end].to_vec();
            let length = messages.admit(&mut piece)?;
            assert!(length > 0, "hyper is given something");
            admitted.extend_from_slice(&piece[..length]);
            assert_eq!(piece[length..], bytes[admitted.len()..end], "the rest is as it was");
            if matches!(messages.position, MessagePosition::HeadEnd) {
                targets.push(messages.begin_body(ends[targets.len()]));
            }
        }
        Ok((admitted, targets))
    }

    /// Parts of valid and invalid heads.
    const PARTS: &[&str] =
        &["GET / HTTP/1.1\r\n", "GET ", "/\" ", "HTTP/1.1", "A: b", "A:", " ", "\r\n", "\n", "\r"];

    proptest! {
        #[test]
        fn only_targets_are_changed_in_any_pieces(
            requests in prop::collection::vec(sent(), 1..5),
            sizes in prop::collection::vec(1_usize..40, 1..6),
        ) {
            let bytes: Vec<u8> = requests.iter().flat_map(|one| one.bytes(&one.target)).collect();
            let ends: Vec<_> = requests.iter().map(|one| one.end).collect();
            let (admitted, targets) = admit(&bytes, &sizes, &ends).expect("sound requests");
            let expected: Vec<u8> = requests.iter().flat_map(Sent::admitted).collect();
            prop_assert_eq!(admitted, expected);
            let unusual = requests.iter().map(|one| {
                has_unusual(&one.target).then(|| one.target.clone())
            });
            prop_assert_eq!(targets, unusual.collect::<Vec<_>>());
        }

        /// Otherwise bodies would begin elsewhere for hyper.
        #[test]
        fn a_head_ends_where_httparse_says(
            start in prop::sample::select(&["", "\r\n\n", "GET /\" HTTP/1.1\r\n"][..]),
            parts in prop::collection::vec(prop::sample::select(PARTS), 0..10),
        ) {
            let bytes = [start, &parts.concat(), "\r\n\r\n"].concat().into_bytes();
            let mut fields = [httparse::EMPTY_HEADER; 16];
            let mut request = httparse::Request::new(&mut fields);
            if let Ok(httparse::Status::Complete(length)) = request.parse(&bytes) {
                let (mut messages, mut admitted) = (Messages::default(), bytes.clone());
                prop_assert_eq!(messages.admit(&mut admitted).expect("a head"), length);
                prop_assert!(matches!(messages.position, MessagePosition::HeadEnd));
            }
        }
    }

    #[test]
    fn hyper_gets_nothing_behind_a_head_with_unknown_body() {
        let mut messages = Messages::default();
        let mut bytes = *b"POST /\" HTTP/1.1\r\n\r\nGET /\" HTTP/1.1\r\n\r\n";
        assert_eq!(messages.admit(&mut bytes).expect("a head"), 20);
        assert!(messages.admit(&mut bytes[20..]).is_err());
        assert_eq!(bytes[20..25], *b"GET /", "untouched");
    }

    #[test]
    fn a_malformed_chunked_body_ends_the_connection() {
        let head = b"POST / HTTP/1.1\r\n\r\n";
        for body in ["ffffffffffffffff\r\nhello", "g\r\n", "0\r\nA: b\n\r\n"] {
            let bytes = [&head[..], body.as_bytes()].concat();
            let error = admit(&bytes, &[100], &[BodyEnd::Chunked]).expect_err(body);
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
    }

    #[test]
    fn bytes_after_an_upgrade_are_unchanged() {
        let mut messages = Messages::default();
        let mut head = *b"GET /\" HTTP/1.1\r\n\r\n";
        assert_eq!(messages.admit(&mut head).expect("a head"), head.len());
        assert!(messages.begin_body(BodyEnd::Length(0)).is_some());
        messages.upgrade();
        let mut frame = *b"\x81\x05 /\"\" \r\n\r\n";
        assert_eq!(messages.admit(&mut frame).expect("bytes"), frame.len());
        assert_eq!(&frame, b"\x81\x05 /\"\" \r\n\r\n");
    }
}
