//! The decoder's promises about memory, and what the other WebSocket tests share: frames written by
//! hand, and what a decoder makes of them.

use weir_realtime::websocket::{
    CONTROL_BYTES_MAX, Decoder, MaskKey, Message, ProtocolError, Role, WebsocketLimits,
};

pub(crate) const KEY: [u8; 4] = [0xa1, 0x07, 0x5c, 0xf0];

/// What a read brought, kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<(u16, String)>),
    Error(ProtocolError),
}

impl From<Message<'_>> for Event {
    fn from(message: Message<'_>) -> Self {
        match message {
            Message::Text(text) => Self::Text(text.to_owned()),
            Message::Binary(bytes) => Self::Binary(bytes.to_vec()),
            Message::Ping(payload) => Self::Ping(payload.to_vec()),
            Message::Pong(payload) => Self::Pong(payload.to_vec()),
            Message::Close(frame) => {
                Self::Close(frame.map(|frame| (frame.code.get(), frame.reason.to_owned())))
            }
        }
    }
}

/// How the length stands in the header.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Length {
    Shortest,
    InTwo(u16),
    InEight(u64),
}

/// A frame as its bytes, right or wrong. The role that reads it decides whether it is masked.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) first: u8,
    pub(crate) length: Length,
    pub(crate) payload: Vec<u8>,
}

pub(crate) fn frame(first: u8, payload: impl AsRef<[u8]>) -> Frame {
    Frame { first, length: Length::Shortest, payload: payload.as_ref().to_vec() }
}

impl Frame {
    pub(crate) fn with_length(self, length: Length) -> Self {
        Self { length, ..self }
    }

    /// Independent of the encoder under test.
    pub(crate) fn write(&self, masked: bool, output: &mut Vec<u8>) {
        let bit = if masked { 0x80 } else { 0 };
        let length = match (self.length, self.payload.len()) {
            (Length::Shortest, bytes @ 126..=0xffff) => Length::InTwo(bytes.try_into().unwrap()),
            (Length::Shortest, bytes @ 0x1_0000..) => Length::InEight(bytes as u64),
            (length, _) => length,
        };
        output.push(self.first);
        match length {
            Length::Shortest => output.push(bit | u8::try_from(self.payload.len()).unwrap()),
            Length::InTwo(bytes) => {
                output.push(bit | 126);
                output.extend(bytes.to_be_bytes());
            }
            Length::InEight(bytes) => {
                output.push(bit | 127);
                output.extend(bytes.to_be_bytes());
            }
        }
        if masked {
            output.extend(KEY);
            output
                .extend(self.payload.iter().zip(KEY.iter().cycle()).map(|(byte, key)| byte ^ key));
        } else {
            output.extend(&self.payload);
        }
    }
}

/// The frames as `role` has to receive them.
pub(crate) fn bytes(frames: &[Frame], role: Role) -> Vec<u8> {
    let mut output = Vec::new();
    frames.iter().for_each(|frame| frame.write(role == Role::Server, &mut output));
    output
}

/// What one decoder makes of these reads, in order. It stays within its memory.
pub(crate) fn read<'a>(
    decoder: &mut Decoder,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    role: Role,
    limits: &WebsocketLimits,
) -> Vec<Event> {
    let mut events = Vec::new();
    for piece in pieces {
        let mut input = piece.to_vec();
        let mut messages = decoder.messages(&mut input, role, limits);
        loop {
            match messages.next() {
                Ok(Some(message)) => events.push(message.into()),
                Ok(None) => break,
                Err(error) => {
                    events.push(Event::Error(error));
                    break;
                }
            }
        }
        let held_max = limits.message_bytes_max + CONTROL_BYTES_MAX;
        assert!(decoder.buffered_bytes() <= held_max, "{} bytes held", decoder.buffered_bytes());
        assert!(!decoder.is_closed() || decoder.buffered_bytes() == 0, "held after the end");
    }
    events
}

fn as_server(decoder: &mut Decoder, input: &[u8]) -> Vec<Event> {
    read(decoder, [input], Role::Server, &WebsocketLimits::default())
}

#[test]
fn an_idle_decoder_has_72_bytes_and_no_heap() {
    assert_eq!(size_of::<Decoder>(), 72);
    assert_eq!(Decoder::default().buffered_bytes(), 0);
}

#[test]
fn a_complete_message_is_delivered_from_the_input() {
    let frames = [frame(0x81, "hello"), frame(0x01, "unfinished"), frame(0x89, "ping")];
    let mut input = bytes(&frames, Role::Server);
    let place = input.as_ptr_range();
    let limits = WebsocketLimits::default();
    let mut decoder = Decoder::default();
    let mut messages = decoder.messages(&mut input, Role::Server, &limits);
    let Ok(Some(Message::Text(text))) = messages.next() else { panic!("a text") };
    assert!(text == "hello" && place.contains(&text.as_ptr()));
    let Ok(Some(Message::Ping(ping))) = messages.next() else { panic!("a ping") };
    assert!(place.contains(&ping.as_ptr()));
    assert_eq!(messages.next(), Ok(None));
}

#[test]
fn memory_is_reserved_for_received_bytes_and_freed_on_delivery() {
    let input = bytes(&[frame(0x82, [7; 60_000])], Role::Server);
    let mut decoder = Decoder::default();
    assert_eq!(as_server(&mut decoder, &input[..9]), []);
    assert!((1..1_024).contains(&decoder.buffered_bytes()), "{} bytes", decoder.buffered_bytes());
    assert_eq!(as_server(&mut decoder, &input[9..40_000]), []);
    assert!((39_000..=60_000).contains(&decoder.buffered_bytes()), "{}", decoder.buffered_bytes());
    assert_eq!(as_server(&mut decoder, &input[40_000..]), [Event::Binary(vec![7; 60_000])]);
    assert_eq!(decoder.buffered_bytes(), 0);
}

#[test]
fn a_partial_header_needs_no_heap() {
    let input = bytes(&[frame(0x82, [7; 70_000])], Role::Server);
    let mut decoder = Decoder::default();
    for byte in 0..14 {
        assert_eq!(read(&mut decoder, [&input[byte..=byte]], Role::Server, &BIG), []);
        assert_eq!(decoder.buffered_bytes(), 0);
    }
    assert_eq!(read(&mut decoder, [&input[14..]], Role::Server, &BIG).len(), 1);
}

const BIG: WebsocketLimits = WebsocketLimits {
    message_bytes_max: 1 << 20,
    frame_bytes_max: 1 << 20,
    message_fragments_max: 10,
};

#[test]
fn a_control_frame_between_fragments_leaves_the_message_intact() {
    let input = bytes(
        &[frame(0x01, "Hel"), frame(0x89, "are you there?"), frame(0x80, "lo")],
        Role::Server,
    );
    for cut in 0..input.len() {
        let mut decoder = Decoder::default();
        let (one, two) = input.split_at(cut);
        let events = read(&mut decoder, [one, two], Role::Server, &WebsocketLimits::default());
        let expected = [Event::Ping(b"are you there?".to_vec()), Event::Text("Hello".to_owned())];
        assert_eq!(events, expected, "cut at {cut}");
        assert_eq!(decoder.buffered_bytes(), 0);
    }
}

#[test]
fn after_a_close_or_an_error_the_decoder_is_empty() {
    let begun = [frame(0x01, "unfinished")];
    for (before, last) in [
        (&begun[..], frame(0x88, "")),
        (&begun, frame(0x83, "")),
        (&begun, frame(0x88, "x")),
        (&begun, frame(0x80, [0xce])),
        (&[], frame(0x81, [0xff])),
        (&[], frame(0x88, "x")),
    ] {
        let input = bytes(&[before, &[last, frame(0x81, "more")]].concat(), Role::Server);
        let mut decoder = Decoder::default();
        assert_eq!(read(&mut decoder, input.chunks(1), Role::Server, &BIG).len(), 1);
        let mut decoder = Decoder::default();
        assert_eq!(as_server(&mut decoder, &input).len(), 1);
        assert!(decoder.is_closed());
        assert_eq!(as_server(&mut decoder, &input), []);
        assert_eq!(decoder.buffered_bytes(), 0);
    }
}

#[test]
fn a_size_error_names_the_limit_and_its_setting() {
    let limits =
        WebsocketLimits { message_bytes_max: 100, frame_bytes_max: 80, message_fragments_max: 3 };
    let cases = [
        (
            vec![frame(0x81, "x".repeat(81))],
            "frame of 81 bytes: more than 80 (realtime.limits.advanced.frame_bytes_max)",
        ),
        (
            vec![frame(0x01, "x".repeat(80)), frame(0x80, "x".repeat(21))],
            "message of more than 100 bytes (realtime.limits.message_bytes_max)",
        ),
        (
            vec![frame(0x01, ""), frame(0x00, ""), frame(0x00, ""), frame(0x80, "")],
            "message in more than 3 frames (realtime.limits.advanced.message_fragments_max)",
        ),
    ];
    for (frames, sentence) in cases {
        let input = bytes(&frames, Role::Server);
        let events = read(&mut Decoder::default(), [&*input], Role::Server, &limits);
        let [Event::Error(error)] = events[..] else { panic!("{events:?}") };
        assert_eq!((error.to_string().as_str(), error.close_code().get()), (sentence, 1009));
    }
    let frames = [frame(0x01, "x".repeat(80)), frame(0x00, ""), frame(0x80, "x".repeat(20))];
    let input = bytes(&frames, Role::Server);
    let events = read(&mut Decoder::default(), [&*input], Role::Server, &limits);
    assert_eq!(events, [Event::Text("x".repeat(100))]);
}

#[test]
fn the_encoder_matches_hand_written_masked_frames() {
    let mut output = Vec::new();
    Message::Text("hello").encode(&mut output, Some(MaskKey::new(KEY)));
    assert_eq!(output, bytes(&[frame(0x81, "hello")], Role::Server));
}
