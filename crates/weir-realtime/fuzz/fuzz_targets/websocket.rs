//! Arbitrary bytes as a stream of frames, for a server and for a client: no panic, bounded memory,
//! the same messages and the same error whatever the pieces in which the stream comes, and messages
//! that come back when they are encoded.
//!
//! The input's first bytes say how the rest is cut.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_realtime::websocket::{
    CONTROL_BYTES_MAX, Decoder, MaskKey, Message, ProtocolError, Role, WebsocketLimits,
};

/// Small, so that short inputs meet them.
const LIMITS: WebsocketLimits =
    WebsocketLimits { message_bytes_max: 400, frame_bytes_max: 300, message_fragments_max: 6 };
const CUTS: usize = 6;

/// Each message as the frame that a server would send, and what ended the stream.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    frames: Vec<Vec<u8>>,
    error: Option<ProtocolError>,
}

fuzz_target!(|bytes: &[u8]| {
    let Some((cuts, stream)) = bytes.split_first_chunk::<CUTS>() else {
        return;
    };
    for role in [Role::Server, Role::Client] {
        let whole = read([stream].into_iter(), role);
        assert_eq!(whole, read(pieces(stream, cuts), role));
        assert_eq!(whole, read(stream.chunks(1), role));
        check_again(&whole);
    }
});

/// Pieces of these sizes, over and over; every size is at least 1.
fn pieces<'a>(stream: &'a [u8], cuts: &'a [u8; CUTS]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = stream;
    let mut sizes = cuts.iter().cycle();
    std::iter::from_fn(move || {
        let size = usize::from(*sizes.next()?) + 1;
        let (piece, later) = rest.split_at(size.min(rest.len()));
        rest = later;
        (!piece.is_empty()).then_some(piece)
    })
}

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>, role: Role) -> Outcome {
    let mut decoder = Decoder::default();
    let mut outcome = Outcome::default();
    for piece in pieces {
        let mut input = piece.to_vec();
        let mut messages = decoder.messages(&mut input, role, &LIMITS);
        loop {
            match messages.next() {
                Ok(Some(message)) => {
                    assert!(outcome.error.is_none(), "a message after an error");
                    check(&message);
                    let mut frame = Vec::new();
                    message.encode(&mut frame, None);
                    outcome.frames.push(frame);
                }
                Ok(None) => break,
                Err(error) => {
                    assert!(outcome.error.is_none() && decoder.is_closed());
                    assert!((1002..=1009).contains(&error.close_code().get()));
                    outcome.error = Some(error);
                    break;
                }
            }
        }
        assert!(decoder.buffered_bytes() <= LIMITS.message_bytes_max + CONTROL_BYTES_MAX);
        assert!(!decoder.is_closed() || decoder.buffered_bytes() == 0);
    }
    outcome
}

fn check(message: &Message<'_>) {
    match message {
        Message::Text(text) => assert!(text.len() <= LIMITS.message_bytes_max),
        Message::Binary(bytes) => assert!(bytes.len() <= LIMITS.message_bytes_max),
        Message::Ping(payload) | Message::Pong(payload) => {
            assert!(payload.len() <= CONTROL_BYTES_MAX);
        }
        Message::Close(frame) => {
            assert!(frame.is_none_or(|frame| frame.reason.len() <= CONTROL_BYTES_MAX - 2));
        }
    }
}

/// What was delivered is read again as it was, by the other side, masked or not.
fn check_again(outcome: &Outcome) {
    let limits = WebsocketLimits { frame_bytes_max: LIMITS.message_bytes_max, ..LIMITS };
    for frame in &outcome.frames {
        let mut masked = Vec::new();
        let mut input = frame.clone();
        let mut decoder = Decoder::default();
        let mut messages = decoder.messages(&mut input, Role::Client, &limits);
        let message = messages.next().expect("valid").expect("whole");
        message.encode(&mut masked, Some(MaskKey::new([1, 2, 3, 4])));
        assert_eq!(messages.next(), Ok(None));
        let mut decoder = Decoder::default();
        let mut messages = decoder.messages(&mut masked, Role::Server, &limits);
        let mut again = Vec::new();
        let message = messages.next().expect("valid").expect("whole");
        message.encode(&mut again, None);
        assert_eq!(&again, frame);
        assert_eq!(decoder.buffered_bytes(), 0);
    }
}
