//! RFC 6455 as a table: frames in, messages or an error out. The sections are the categories that
//! the Autobahn test suite names (compression aside, which is not negotiated); the cases are ours.
//!
//! Each case is read as a server and as a client, whole and in pieces of several sizes.

use weir_realtime::websocket::{Decoder, Opcode, ProtocolError, Role, WebsocketLimits};

use super::websocket::{Event, Frame, Length, bytes, frame, read};

/// One row of the table.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) frames: Vec<Frame>,
    /// Of the frames' bytes, the last ones that don't come.
    pub(crate) missing_bytes: usize,
    pub(crate) events: Vec<Event>,
}

/// For messages of the sizes that measure performance.
pub(crate) const LARGE: WebsocketLimits = WebsocketLimits {
    message_bytes_max: 4 << 20,
    frame_bytes_max: 4 << 20,
    message_fragments_max: 1_024,
};

fn case(name: impl Into<String>, frames: Vec<Frame>, events: Vec<Event>) -> Case {
    Case { name: name.into(), frames, missing_bytes: 0, events }
}

impl Case {
    fn without_the_last(self, missing_bytes: usize) -> Self {
        Self { missing_bytes, ..self }
    }

    /// The stream that `role` reads.
    pub(crate) fn bytes(&self, role: Role) -> Vec<u8> {
        let mut bytes = bytes(&self.frames, role);
        bytes.truncate(bytes.len() - self.missing_bytes);
        bytes
    }
}

fn text(text: &str) -> Event {
    Event::Text(text.to_owned())
}

fn error(error: ProtocolError) -> Vec<Event> {
    vec![Event::Error(error)]
}

/// 1. Framing: texts and bytes of the lengths at which the header changes.
pub(crate) fn framing() -> Vec<Case> {
    let lengths = [0, 1, 124, 125, 126, 127, 128, 65_535, 65_536];
    let mut cases = vec![
        case(
            "frames that follow each other",
            vec![frame(0x81, "one"), frame(0x82, [2]), frame(0x81, "three")],
            vec![text("one"), Event::Binary(vec![2]), text("three")],
        ),
        case("a header alone", vec![frame(0x81, "late")], vec![]).without_the_last(4),
    ];
    for length in lengths {
        let payload = "*".repeat(length);
        cases.push(case(
            format!("text of {length}"),
            vec![frame(0x81, &payload)],
            vec![text(&payload)],
        ));
        let payload = vec![0xfe; length];
        cases.push(case(
            format!("binary of {length}"),
            vec![frame(0x82, &payload)],
            vec![Event::Binary(payload)],
        ));
    }
    let not_minimal = |bytes| error(ProtocolError::LengthNotMinimal { bytes });
    for (name, length, events) in [
        ("125 in two bytes", Length::InTwo(125), not_minimal(125)),
        ("0 in two bytes", Length::InTwo(0), not_minimal(0)),
        ("125 in eight bytes", Length::InEight(125), not_minimal(125)),
        ("65,535 in eight bytes", Length::InEight(65_535), not_minimal(65_535)),
        ("top bit set", Length::InEight(1 << 63), error(ProtocolError::LengthTopBit)),
        ("all bits set", Length::InEight(u64::MAX), error(ProtocolError::LengthTopBit)),
    ] {
        cases.push(case(name, vec![frame(0x82, []).with_length(length)], events));
    }
    cases
}

/// 2. Pings and pongs.
pub(crate) fn pings_and_pongs() -> Vec<Case> {
    let ping = |payload: &[u8]| Event::Ping(payload.to_vec());
    let too_large = |opcode| error(ProtocolError::ControlTooLarge { opcode });
    vec![
        case("ping without payload", vec![frame(0x89, "")], vec![ping(b"")]),
        case("ping with a text", vec![frame(0x89, "hello")], vec![ping(b"hello")]),
        case("ping with bytes", vec![frame(0x89, [0, 255, 254])], vec![ping(&[0, 255, 254])]),
        case("ping of 125", vec![frame(0x89, [0xfe; 125])], vec![ping(&[0xfe; 125])]),
        case("ping of 126", vec![frame(0x89, [0xfe; 126])], too_large(Opcode::Ping)),
        case("pong of 126", vec![frame(0x8a, [0xfe; 126])], too_large(Opcode::Pong)),
        case("pong unasked", vec![frame(0x8a, "")], vec![Event::Pong(vec![])]),
        case("pong with payload", vec![frame(0x8a, "hi")], vec![Event::Pong(b"hi".to_vec())]),
        case(
            "pong, then ping",
            vec![frame(0x8a, "one"), frame(0x89, "two")],
            vec![Event::Pong(b"one".to_vec()), ping(b"two")],
        ),
        case(
            "ten pings",
            (0..10_u8).map(|number| frame(0x89, [number])).collect(),
            (0..10).map(|number| ping(&[number])).collect(),
        ),
    ]
}

/// 3. Reserved bits: each combination, on each kind of frame, also behind what is right.
pub(crate) fn reserved_bits() -> Vec<Case> {
    let mut cases = Vec::new();
    for bits in 1..8_u8 {
        for first in [0x81, 0x82, 0x01, 0x88, 0x89, 0x8a] {
            cases.push(case(
                format!("bits {bits:03b} on {first:#x}"),
                vec![frame(0x81, "before"), frame(first | (bits << 4), ""), frame(0x89, "")],
                vec![text("before"), Event::Error(ProtocolError::ReservedBits)],
            ));
        }
        cases.push(case(
            format!("bits {bits:03b} on a continuation"),
            vec![frame(0x01, "frag"), frame(0x80 | (bits << 4), "ment")],
            error(ProtocolError::ReservedBits),
        ));
    }
    cases
}

/// 4. Opcodes that are kept for later.
pub(crate) fn opcodes() -> Vec<Case> {
    let unknown = |opcode: u8, payload: &str| {
        case(
            format!("opcode {opcode} with {:?}", payload),
            vec![frame(0x81, "before"), frame(0x80 | opcode, payload), frame(0x89, "")],
            vec![text("before"), Event::Error(ProtocolError::UnknownOpcode { opcode })],
        )
    };
    let opcodes = || (3..=7).chain(11..=15);
    opcodes()
        .map(|opcode| unknown(opcode, ""))
        .chain(opcodes().map(|opcode| unknown(opcode, "payload")))
        .collect()
}

/// 5. Fragmentation.
pub(crate) fn fragmentation() -> Vec<Case> {
    let ping = || Event::Ping(b"ping".to_vec());
    let nothing = || error(ProtocolError::ContinuationOfNothing);
    let fragmented = |opcode| error(ProtocolError::ControlFragmented { opcode });
    vec![
        case("text in two", vec![frame(0x01, "frag"), frame(0x80, "ment")], vec![text("fragment")]),
        case(
            "binary in three",
            vec![frame(0x02, [1]), frame(0x00, [2]), frame(0x80, [3])],
            vec![Event::Binary(vec![1, 2, 3])],
        ),
        case(
            "empty fragments",
            vec![frame(0x01, ""), frame(0x00, ""), frame(0x80, "")],
            vec![text("")],
        ),
        case(
            "empty fragments around one byte",
            vec![frame(0x01, ""), frame(0x00, "x"), frame(0x00, ""), frame(0x80, "")],
            vec![text("x")],
        ),
        case(
            "a ping between fragments comes first",
            vec![frame(0x01, "frag"), frame(0x89, "ping"), frame(0x80, "ment")],
            vec![ping(), text("fragment")],
        ),
        case(
            "pings and pongs between many fragments",
            vec![
                frame(0x01, "a"),
                frame(0x89, "ping"),
                frame(0x00, "b"),
                frame(0x8a, ""),
                frame(0x89, "ping"),
                frame(0x80, "c"),
                frame(0x81, "next"),
            ],
            vec![ping(), Event::Pong(vec![]), ping(), text("abc"), text("next")],
        ),
        case("ping in fragments", vec![frame(0x09, "pi")], fragmented(Opcode::Ping)),
        case("pong in fragments", vec![frame(0x0a, "po")], fragmented(Opcode::Pong)),
        case("close in fragments", vec![frame(0x08, "")], fragmented(Opcode::Close)),
        case("last continuation of nothing", vec![frame(0x80, "x")], nothing()),
        case("continuation of nothing", vec![frame(0x00, "x"), frame(0x80, "y")], nothing()),
        case(
            "continuation of a message that is over",
            vec![frame(0x01, "a"), frame(0x80, "b"), frame(0x80, "c")],
            vec![text("ab"), Event::Error(ProtocolError::ContinuationOfNothing)],
        ),
        case(
            "a text in the middle of a text",
            vec![frame(0x01, "a"), frame(0x81, "b")],
            error(ProtocolError::MessageInterrupted { opcode: Opcode::Text }),
        ),
        case(
            "bytes in the middle of a text",
            vec![frame(0x01, "a"), frame(0x02, "b")],
            error(ProtocolError::MessageInterrupted { opcode: Opcode::Binary }),
        ),
        case("a message without its end", vec![frame(0x01, "a"), frame(0x00, "b")], vec![]),
    ]
}

/// 6. UTF-8: whole, in fragments of one byte, and refused before the message ends.
pub(crate) fn utf8() -> Vec<Case> {
    let valid = [
        "κόσμε",
        "Hello-µ@ßöäüàá-UTF-8!!",
        "\0",
        "\u{7f}\u{80}\u{7ff}\u{800}",
        "\u{d7ff}\u{e000}\u{fffd}\u{fffe}\u{ffff}",
        "\u{10000}\u{3ffff}\u{10fffe}\u{10ffff}",
        "\u{feff}with a mark in front",
    ];
    let invalid: [&[u8]; 23] = [
        b"\x80",
        b"\xbf",
        b"\xce",
        b"\xe0\xa0",
        b"\xf0\x90\x80",
        b"text\xf4\x8f\xbf",
        b"\xc0\xaf",
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xe0\x80\xaf",
        b"\xe0\x9f\xbf",
        b"\xf0\x80\x80\xaf",
        b"\xf0\x8f\xbf\xbf",
        b"\xf8\x88\x80\x80\x80",
        b"\xfc\x84\x80\x80\x80\x80",
        b"\xfe",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xed\xbf\xbf",
        b"\xed\xa0\x80\xed\xb0\x80",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80\x65\x64",
    ];
    let mut cases = Vec::new();
    for good in valid {
        cases.push(case(good, vec![frame(0x81, good)], vec![text(good)]));
        let name = format!("{good}, a byte per fragment");
        cases.push(case(name, byte_per_fragment(good.as_bytes()), vec![text(good)]));
    }
    for bad in invalid {
        let refused = || error(ProtocolError::TextNotUtf8);
        let name = format!("{bad:02x?}");
        cases.push(case(&name, vec![frame(0x81, bad)], refused()));
        cases.push(case(format!("{name}, a byte each"), byte_per_fragment(bad), refused()));
        // The end of the first fragment may still be continued, so it comes with a byte that can't.
        let bad = [bad, b"x"].concat();
        cases.push(
            case(
                format!("{name}, before the frame ends"),
                vec![frame(0x81, [&*bad, &[b'x'; 100]].concat())],
                refused(),
            )
            .without_the_last(100),
        );
        cases.push(case(
            format!("{name}, before the message ends"),
            vec![frame(0x01, &bad)],
            refused(),
        ));
    }
    cases.push(case(
        "bytes need not be UTF-8",
        vec![frame(0x82, [0xff])],
        vec![Event::Binary(vec![0xff])],
    ));
    cases
}

fn byte_per_fragment(payload: &[u8]) -> Vec<Frame> {
    let mut frames: Vec<Frame> =
        payload.iter().map(|byte| frame(0x00, [*byte])).chain([frame(0x80, "")]).collect();
    frames[0].first |= 0x01;
    frames
}

/// 7. Closing.
pub(crate) fn closing() -> Vec<Case> {
    let with = |code: u16, reason: &[u8]| frame(0x88, [&code.to_be_bytes(), reason].concat());
    let closed = |code: u16, reason: &str| vec![Event::Close(Some((code, reason.to_owned())))];
    let mut cases = vec![
        case("empty", vec![frame(0x88, "")], vec![Event::Close(None)]),
        case("one byte", vec![frame(0x88, [3])], error(ProtocolError::CloseOfOneByte)),
        case("a code", vec![with(1000, b"")], closed(1000, "")),
        case("a reason", vec![with(1001, "Здравей".as_bytes())], closed(1001, "Здравей")),
        case("a reason of 123", vec![with(1000, &[b'*'; 123])], closed(1000, &"*".repeat(123))),
        case(
            "a reason of 124",
            vec![with(1000, &[b'*'; 124])],
            error(ProtocolError::ControlTooLarge { opcode: Opcode::Close }),
        ),
        case(
            "a reason that is not UTF-8",
            vec![with(1000, b"\xce\xba\xed\xa0\x80")],
            error(ProtocolError::CloseReasonNotUtf8),
        ),
        case(
            "half a character at a reason's end",
            vec![with(1000, b"\xce")],
            error(ProtocolError::CloseReasonNotUtf8),
        ),
        case(
            "what follows a close does not count",
            vec![frame(0x88, ""), frame(0x89, "ping"), frame(0x81, "text"), frame(0xff, "")],
            vec![Event::Close(None)],
        ),
        case("two closes are one", vec![with(1000, b""), with(1001, b"")], closed(1000, "")),
        case(
            "a close in the middle of a message",
            vec![frame(0x01, "unfinished"), with(1001, b"gone"), frame(0x80, "message")],
            closed(1001, "gone"),
        ),
        case(
            "a message, a ping, then the close",
            vec![frame(0x81, "last"), frame(0x89, ""), with(1000, b"")],
            [vec![text("last"), Event::Ping(vec![])], closed(1000, "")].concat(),
        ),
    ];
    for code in [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014]
        .into_iter()
        .chain([3000, 3999, 4000, 4001, 4100, 4999])
    {
        cases.push(case(
            format!("close code {code}"),
            vec![with(code, b"why")],
            closed(code, "why"),
        ));
    }
    for code in [0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535] {
        let refused = error(ProtocolError::CloseCodeInvalid { code });
        cases.push(case(format!("close code {code}"), vec![with(code, b"")], refused));
    }
    cases
}

/// 9. Limits and performance: large messages, many fragments, and one more than is allowed.
pub(crate) fn limits() -> Vec<Case> {
    let size = LARGE.message_bytes_max;
    let in_fragments_of = |bytes: usize, opcode: u8| {
        let count = size / bytes;
        let mut frames = vec![frame(0x00, vec![b'*'; bytes]); count];
        frames[0].first |= opcode;
        frames[count - 1].first |= 0x80;
        frames
    };
    vec![
        case(
            "64 KiB, twice",
            vec![frame(0x81, vec![b'*'; 65_536]); 2],
            vec![text(&"*".repeat(65_536)); 2],
        ),
        case("text of 4 MiB", vec![frame(0x81, vec![b'*'; size])], vec![text(&"*".repeat(size))]),
        case(
            "binary of 4 MiB",
            vec![frame(0x82, vec![0; size])],
            vec![Event::Binary(vec![0; size])],
        ),
        case(
            "4 MiB in fragments of 4 KiB, which are 1,024",
            in_fragments_of(4 << 10, 1),
            vec![text(&"*".repeat(size))],
        ),
        case(
            "4 MiB in fragments of 2 KiB",
            in_fragments_of(2 << 10, 1),
            error(ProtocolError::TooManyFragments { fragments_max: 1_024 }),
        ),
        case(
            "a thousand small messages",
            vec![frame(0x81, "small"); 1_000],
            vec![text("small"); 1_000],
        ),
        case(
            "a frame of one byte too many is refused by its header",
            vec![frame(0x82, []).with_length(Length::InEight(size as u64 + 1))],
            error(ProtocolError::FrameTooLarge { bytes: size as u64 + 1, bytes_max: size }),
        ),
        case(
            "a frame of 2^62 bytes is refused by its header",
            vec![frame(0x82, []).with_length(Length::InEight(1 << 62))],
            error(ProtocolError::FrameTooLarge { bytes: 1 << 62, bytes_max: size }),
        ),
        case(
            "a message of one byte too many is refused by its last header",
            vec![frame(0x02, vec![0; size]), frame(0x80, [0])],
            error(ProtocolError::MessageTooLarge { bytes_max: size }),
        ),
    ]
}

/// All sections, for whoever compares them with another implementation.
pub(crate) fn all() -> Vec<Case> {
    [
        framing(),
        pings_and_pongs(),
        reserved_bits(),
        opcodes(),
        fragmentation(),
        utf8(),
        closing(),
        limits(),
    ]
    .concat()
}

#[track_caller]
fn check(cases: &[Case]) {
    for case in cases {
        for role in [Role::Server, Role::Client] {
            let bytes = case.bytes(role);
            let small: &[usize] = &[usize::MAX, 1, 2, 3, 5, 13, 1_000];
            let large: &[usize] = &[usize::MAX, 1_460, 65_536];
            for piece_bytes in if bytes.len() < 2_000 { small } else { large } {
                let pieces = bytes.chunks(*piece_bytes);
                let events = read(&mut Decoder::default(), pieces, role, &LARGE);
                assert!(
                    events == case.events,
                    "{}, as {role:?}, in pieces of {piece_bytes}: {} instead of {}",
                    case.name,
                    shortened(&events),
                    shortened(&case.events),
                );
            }
        }
    }
}

/// Four MiB of asterisks are no message of a test.
fn shortened(events: &[Event]) -> String {
    format!("{events:?}").chars().take(500).collect()
}

#[test]
fn framing_follows_the_standard() {
    check(&framing());
}

#[test]
fn pings_and_pongs_follow_the_standard() {
    check(&pings_and_pongs());
}

#[test]
fn reserved_bits_are_rejected() {
    check(&reserved_bits());
}

#[test]
fn unknown_opcodes_are_rejected() {
    check(&opcodes());
}

#[test]
fn fragmentation_follows_the_standard() {
    check(&fragmentation());
}

#[test]
fn text_must_be_utf8() {
    check(&utf8());
}

#[test]
fn closing_follows_the_standard() {
    check(&closing());
}

#[test]
fn large_messages_arrive_within_the_limits() {
    check(&limits());
}

#[test]
fn masks_are_required_or_rejected_by_role() {
    for (role, error) in
        [(Role::Server, ProtocolError::NotMasked), (Role::Client, ProtocolError::Masked)]
    {
        let other = if role == Role::Server { Role::Client } else { Role::Server };
        for first in [0x81, 0x82, 0x88, 0x89, 0x8a] {
            let bytes = bytes(&[frame(first, "")], other);
            let events = read(&mut Decoder::default(), [&*bytes], role, &LARGE);
            assert_eq!(events, [Event::Error(error)]);
        }
    }
}
