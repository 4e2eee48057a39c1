//! Counts the frames that a client sends, on their way to hyper.
//!
//! Only the nine bytes of a frame's header are parsed (RFC 9113, section 4.1). They show whether a
//! head is incomplete, and how many frames carry no request.

/// The first bytes of an HTTP/2 connection (RFC 9113, section 3.4).
pub(in crate::server) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// The position within the frames of a client.
#[derive(Debug)]
pub(super) struct Frames {
    /// The rest of the preface.
    preface_left: usize,
    /// Whether the client's SETTINGS frame, which comes first, has arrived.
    has_settings: bool,
    /// The header of the current frame, of which `start_bytes` bytes have arrived.
    start: [u8; 9],
    start_bytes: usize,
    /// The rest of the current frame's payload.
    payload_left: usize,
    kind: u8,
    flags: u8,
    /// Whether the current frame is `HEADERS` or one of its `CONTINUATION`s.
    is_in_block: bool,
}

impl Frames {
    pub(super) fn new() -> Self {
        Self {
            preface_left: PREFACE.len(),
            has_settings: false,
            start: [0; 9],
            start_bytes: 0,
            payload_left: 0,
            kind: 0,
            flags: 0,
            is_in_block: false,
        }
    }

    /// Returns whether the preface, the settings or a head is incomplete.
    pub(super) fn is_in_head(&self) -> bool {
        !self.has_settings || self.is_in_block
    }

    /// Returns whether a head takes more than one frame and is incomplete.
    pub(super) fn is_in_long_head(&self) -> bool {
        self.is_in_block && self.kind == CONTINUATION
    }

    /// Processes `bytes`. Returns how many frames that carry no request begin in them, which the
    /// caller limits.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> u32 {
        let mut control = 0;
        skip(&mut self.preface_left, &mut bytes);
        while !bytes.is_empty() {
            if self.payload_left > 0 {
                skip(&mut self.payload_left, &mut bytes);
            } else {
                let count = bytes.len().min(self.start.len() - self.start_bytes);
                self.start[self.start_bytes..][..count].copy_from_slice(&bytes[..count]);
                self.start_bytes += count;
                bytes = &bytes[count..];
                if self.start_bytes < self.start.len() {
                    break;
                }
                control += u32::from(self.begin_frame());
            }
            if self.payload_left == 0 {
                self.end_frame();
            }
        }
        control
    }

    /// Parses a complete frame header. Returns whether the frame carries no request.
    fn begin_frame(&mut self) -> bool {
        let [high, middle, low, kind, flags, ..] = self.start;
        self.start_bytes = 0;
        self.payload_left = u32::from_be_bytes([0, high, middle, low]) as usize;
        (self.kind, self.flags) = (kind, flags);
        self.is_in_block |= kind == HEADERS;
        is_control(kind)
    }

    fn end_frame(&mut self) {
        match self.kind {
            HEADERS | CONTINUATION if self.flags & END_HEADERS != 0 => self.is_in_block = false,
            SETTINGS => self.has_settings = true,
            _ => {}
        }
    }
}

fn skip(remaining: &mut usize, bytes: &mut &[u8]) {
    let count = bytes.len().min(*remaining);
    *remaining -= count;
    *bytes = &bytes[count..];
}

/// Returns whether frames of this kind are limited. `DATA` and `WINDOW_UPDATE` are as frequent as
/// bodies are long, and cheap; `HEADERS` are requests, and h2 limits their `CONTINUATION`s.
fn is_control(kind: u8) -> bool {
    !matches!(kind, 0 | HEADERS | 8 | CONTINUATION)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let [.., high, middle, low] = payload.to_be_bytes();
        let mut frame = vec![high, middle, low, kind, flags, 0, 0, 0, 1];
        frame.resize(9 + payload, 0xff);
        frame
    }

    #[test]
    fn a_head_ends_with_its_last_frame_and_the_preface_with_settings() {
        let mut frames = Frames::new();
        assert!(frames.is_in_head());
        assert_eq!(frames.read(PREFACE), 0);
        assert!(frames.is_in_head(), "the settings are to come");
        assert_eq!(frames.read(&frame(SETTINGS, 0, 0)), 1);
        assert!(!frames.is_in_head());
        frames.read(&frame(HEADERS, END_HEADERS, 20)[..28]);
        assert!(frames.is_in_head());
        frames.read(&[0]);
        assert!(!frames.is_in_head());
        frames.read(&frame(HEADERS, 0, 20));
        assert!(frames.is_in_head() && !frames.is_in_long_head());
        frames.read(&frame(CONTINUATION, 0, 3));
        assert!(frames.is_in_head() && frames.is_in_long_head());
        frames.read(&frame(CONTINUATION, END_HEADERS, 0));
        assert!(!frames.is_in_head());
    }

    #[test]
    fn control_frames_are_counted() {
        let mut frames = Frames::new();
        frames.read(PREFACE);
        let of_each_kind: Vec<_> = (0..=10).flat_map(|kind| frame(kind, 4, 8)).collect();
        // PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY and one that is unknown.
        assert_eq!(frames.read(&of_each_kind), 7);
    }

    proptest! {
        #[test]
        fn frames_parse_the_same_in_any_pieces(
            sent in prop::collection::vec((0_u8..12, 0_u8..6, 0_usize..40), 0..20),
            piece in 1_usize..30,
        ) {
            let mut bytes = PREFACE.to_vec();
            for (kind, flags, payload) in sent {
                bytes.extend(frame(kind, flags, payload));
            }
            let (mut whole, mut cut) = (Frames::new(), Frames::new());
            let count = whole.read(&bytes);
            let pieces: u32 = bytes.chunks(piece).map(|piece| cut.read(piece)).sum();
            prop_assert_eq!(count, pieces);
            prop_assert_eq!(whole.is_in_head(), cut.is_in_head());
        }
    }
}
