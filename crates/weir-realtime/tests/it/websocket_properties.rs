//! What holds for any bytes, in whatever pieces they come.

use proptest::collection::vec;
use proptest::prelude::*;
use weir_realtime::websocket::{
    CloseCode, CloseFrame, Decoder, FrameHeader, MaskKey, Message, Opcode, Role, WebsocketLimits,
};

use super::websocket::{Event, Frame, Length, bytes, frame, read};

/// Small, so that random frames meet them.
const LIMITS: WebsocketLimits =
    WebsocketLimits { message_bytes_max: 300, frame_bytes_max: 200, message_fragments_max: 5 };
const ROLES: [Role; 2] = [Role::Server, Role::Client];

/// Frames that mostly belong together, and sometimes don't.
fn frames() -> impl Strategy<Value = Vec<Frame>> {
    let first = prop_oneof![
        10 => prop::sample::select(vec![0x81_u8, 0x82, 0x01, 0x02, 0x00, 0x80, 0x89, 0x8a]),
        1 => Just(0x88),
        1 => any::<u8>(),
    ];
    let payload = prop_oneof![
        4 => ".{0,40}".prop_map(String::into_bytes),
        2 => vec(any::<u8>(), 0..20),
        1 => vec(Just(b'x'), 100..220),
        1 => (1000..1016_u16).prop_map(|code| code.to_be_bytes().to_vec()),
    ];
    let length = prop_oneof![
        20 => Just(Length::Shortest),
        1 => any::<u16>().prop_map(Length::InTwo),
        1 => any::<u64>().prop_map(Length::InEight),
    ];
    let one = (first, payload, length)
        .prop_map(|(first, payload, length)| frame(first, payload).with_length(length));
    vec(one, 0..12)
}

/// The stream in pieces, one after the other of these sizes.
fn pieces<'a>(bytes: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    for size in sizes {
        let (piece, later) = rest.split_at((*size).min(rest.len()));
        pieces.push(piece);
        rest = later;
    }
    pieces.push(rest);
    pieces
}

#[derive(Clone, Debug)]
enum Kind {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
}

fn message() -> impl Strategy<Value = Kind> {
    prop_oneof![
        ".{0,100}".prop_map(Kind::Text),
        vec(any::<u8>(), 0..300).prop_map(Kind::Binary),
        (60_000..70_000_usize).prop_map(|bytes| Kind::Binary(vec![7; bytes])),
        vec(any::<u8>(), 0..=125).prop_map(Kind::Ping),
        vec(any::<u8>(), 0..=125).prop_map(Kind::Pong),
    ]
}

impl Kind {
    fn message(&self) -> Message<'_> {
        match self {
            Self::Text(text) => Message::Text(text),
            Self::Binary(bytes) => Message::Binary(bytes),
            Self::Ping(payload) => Message::Ping(payload),
            Self::Pong(payload) => Message::Pong(payload),
        }
    }
}

/// A client's frames are masked, that is what the server reads.
fn mask_for(role: Role, key: [u8; 4]) -> Option<MaskKey> {
    (role == Role::Server).then(|| MaskKey::new(key))
}

/// A message in fragments, with a ping before each one but the first.
fn encode_in_fragments(
    output: &mut Vec<u8>,
    opcode: Opcode,
    fragments: &[&[u8]],
    mask: Option<MaskKey>,
) {
    for (number, payload) in fragments.iter().enumerate() {
        if number > 0 {
            Message::Ping(b"between").encode(output, mask);
        }
        let header = FrameHeader {
            is_final: number + 1 == fragments.len(),
            opcode: if number == 0 { opcode } else { Opcode::Continuation },
            payload_bytes: payload.len() as u64,
            mask,
        };
        output.extend_from_slice(&header.encode());
        let start = output.len();
        output.extend_from_slice(payload);
        if let Some(mut mask) = mask {
            mask.apply(&mut output[start..]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_split_of_the_stream_gives_the_same_messages(
        frames in frames(),
        sizes in vec(0..60_usize, 0..30),
    ) {
        for role in ROLES {
            let stream = bytes(&frames, role);
            let json = read(&mut Decoder::default(), [&*stream], role, &LIMITS);
            let mut decoder = Decoder::default();
            let split = read(&mut decoder, pieces(&stream, &sizes), role, &LIMITS);
            prop_assert_eq!(&split, &json);
            let single = read(&mut Decoder::default(), stream.chunks(1), role, &LIMITS);
            prop_assert_eq!(single, json);
        }
    }

    /// `read` asserts the memory after each piece.
    #[test]
    fn random_bytes_never_panic_and_stay_within_the_memory_limit(
        stream in vec(any::<u8>(), 0..2_000),
        sizes in vec(0..100_usize, 0..30),
    ) {
        for role in ROLES {
            let json = read(&mut Decoder::default(), [&*stream], role, &LIMITS);
            let split = read(&mut Decoder::default(), pieces(&stream, &sizes), role, &LIMITS);
            prop_assert_eq!(split, json);
        }
    }

    #[test]
    fn encoded_messages_decode_and_leave_nothing_buffered(
        sent in vec(message(), 0..8),
        key: [u8; 4],
        sizes in vec(0..5_000_usize, 0..30),
    ) {
        let limits = WebsocketLimits { message_bytes_max: 70_000, frame_bytes_max: 70_000, ..LIMITS };
        for role in ROLES {
            let mut stream = Vec::new();
            sent.iter().for_each(|kind| kind.message().encode(&mut stream, mask_for(role, key)));
            let mut decoder = Decoder::default();
            let received = read(&mut decoder, pieces(&stream, &sizes), role, &limits);
            let expected: Vec<Event> = sent.iter().map(|kind| kind.message().into()).collect();
            prop_assert_eq!(received, expected);
            prop_assert_eq!(decoder.buffered_bytes(), 0);
        }
    }

    #[test]
    fn any_fragmentation_gives_the_same_message(
        text in ".{1,60}",
        cuts in vec(0..60_usize, 0..4),
        key: [u8; 4],
        sizes in vec(0..20_usize, 0..30),
    ) {
        let fragments = pieces(text.as_bytes(), &cuts);
        let mut expected = vec![Event::Ping(b"between".to_vec()); fragments.len() - 1];
        expected.push(Event::Text(text.clone()));
        for role in ROLES {
            let mut stream = Vec::new();
            encode_in_fragments(&mut stream, Opcode::Text, &fragments, mask_for(role, key));
            let mut decoder = Decoder::default();
            let received = read(&mut decoder, pieces(&stream, &sizes), role, &LIMITS);
            prop_assert_eq!(received, expected.clone());
            prop_assert_eq!(decoder.buffered_bytes(), 0);
        }
    }

    #[test]
    fn a_close_frame_round_trips_with_a_truncated_reason(
        code in (0..=u16::MAX).prop_filter_map("a code", CloseCode::new),
        reason in ".{0,80}",
        key: [u8; 4],
    ) {
        for role in ROLES {
            let mut stream = Vec::new();
            let frame = CloseFrame { code, reason: &reason };
            Message::Close(Some(frame)).encode(&mut stream, mask_for(role, key));
            let events = read(&mut Decoder::default(), [&*stream], role, &LIMITS);
            let [Event::Close(Some((got, kept)))] = &events[..] else {
                return Err(TestCaseError::fail(format!("{events:?}")));
            };
            prop_assert_eq!(*got, code.get());
            prop_assert!(reason.starts_with(kept) && kept.len() <= 123);
            prop_assert!(kept.len() == reason.len() || kept.len() > 119);
        }
    }
}
