//! Tracks where the frames of a WebSocket end, in one direction (RFC 6455, section 5.2).

/// The longest header: two bytes, eight of length, four of a mask.
const HEADER_BYTES_MAX: usize = 14;
const OPCODE: u8 = 0x0f;
const CLOSE: u8 = 0x8;
const MASKED: u8 = 0x80;

/// Parses the frame headers of one direction without buffering payloads.
#[derive(Debug, Default)]
pub(super) struct Frames {
    header: [u8; HEADER_BYTES_MAX],
    header_bytes: usize,
    /// The rest of the current frame's payload.
    payload_left: u64,
    has_close: bool,
}

impl Frames {
    /// Processes bytes that were sent over the connection.
    pub(super) fn process(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let count = self.within_frame(bytes.len());
            if self.payload_left > 0 {
                self.payload_left -= count as u64;
            } else {
                self.header[self.header_bytes..][..count].copy_from_slice(&bytes[..count]);
                self.header_bytes += count;
                self.begin_payload();
            }
            bytes = &bytes[count..];
        }
    }

    /// Returns how many of the next bytes certainly belong to the current frame or begin one, at
    /// least one unless `bytes` is 0.
    pub(super) fn within_frame(&self, bytes: usize) -> usize {
        if self.payload_left > 0 {
            return usize::try_from(self.payload_left)
                .map_or(bytes, |remaining| remaining.min(bytes));
        }
        bytes.min(self.header_length() - self.header_bytes)
    }

    /// Returns whether a frame could be inserted here.
    pub(super) fn is_between(&self) -> bool {
        self.header_bytes == 0 && self.payload_left == 0
    }

    /// Returns whether the sender has sent a close frame, after which it sends no other.
    pub(super) fn has_close(&self) -> bool {
        self.has_close
    }

    /// Returns the length of the header, as far as it is known.
    fn header_length(&self) -> usize {
        if self.header_bytes < 2 {
            return 2;
        }
        let mask = if self.header[1] & MASKED == 0 { 0 } else { 4 };
        self.length_end() + mask
    }

    fn length_end(&self) -> usize {
        match self.header[1] & !MASKED {
            126 => 4,
            127 => 10,
            _ => 2,
        }
    }

    fn begin_payload(&mut self) {
        if self.header_bytes < self.header_length() {
            return;
        }
        let extended = &self.header[2..self.length_end()];
        let length = extended.iter().fold(0, |length, byte| length << 8 | u64::from(*byte));
        let short = u64::from(self.header[1] & !MASKED);
        self.payload_left = if extended.is_empty() { short } else { length };
        self.has_close |= self.header[0] & OPCODE == CLOSE;
        self.header_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(opcode: u8, payload: usize, is_masked: bool) -> Vec<u8> {
        let mask = if is_masked { MASKED } else { 0 };
        let mut frame = vec![0x80 | opcode];
        match payload {
            0..126 => frame.push(mask | u8::try_from(payload).expect("short")),
            126..0x1_0000 => {
                frame.push(mask | 126);
                frame.extend(u16::try_from(payload).expect("medium").to_be_bytes());
            }
            _ => {
                frame.push(mask | 127);
                frame.extend((payload as u64).to_be_bytes());
            }
        }
        frame.resize(frame.len() + payload + if is_masked { 4 } else { 0 }, 0xff);
        frame
    }

    #[test]
    fn a_frame_ends_after_its_payload() {
        for payload in [0, 1, 125, 126, 65_535, 65_536] {
            for is_masked in [false, true] {
                let bytes = frame(2, payload, is_masked);
                let mut frames = Frames::default();
                frames.process(&bytes[..bytes.len() - 1]);
                assert!(!frames.is_between(), "{payload}");
                frames.process(&bytes[bytes.len() - 1..]);
                assert!(frames.is_between() && !frames.has_close(), "{payload}");
                frames.process(&frame(8, 2, is_masked));
                assert!(frames.is_between() && frames.has_close());
            }
        }
    }

    proptest! {
        #[test]
        fn frames_parse_the_same_in_any_pieces(
            sizes in proptest::collection::vec(0_usize..300, 1..8),
            cuts in proptest::collection::vec(1_usize..40, 1..200),
        ) {
            let bytes: Vec<u8> = sizes.iter().flat_map(|size| frame(1, *size, false)).collect();
            let mut ends = vec![0];
            for size in &sizes {
                ends.push(ends[ends.len() - 1] + frame(1, *size, false).len());
            }
            let (mut frames, mut at) = (Frames::default(), 0);
            for cut in cuts.iter().cycle() {
                prop_assert_eq!(frames.is_between(), ends.contains(&at));
                if at == bytes.len() {
                    break;
                }
                let count = frames.within_frame((*cut).min(bytes.len() - at));
                prop_assert!(!ends.iter().any(|end| at < *end && *end < at + count));
                frames.process(&bytes[at..at + count]);
                at += count;
            }
        }
    }
}
