//! Decodes messages from bytes that arrive in pieces of any size.
//!
//! Payloads are unmasked in place. A message in a single frame that is complete in the input is
//! delivered from there. Anything else is copied into the decoder's buffer as it arrives: first the
//! bytes of the unfinished message, then those of an incomplete control frame. The buffer is freed
//! when nothing is incomplete.

use std::ops::Range;

use super::close::CloseFrame;
use super::error::ProtocolError;
use super::header::{FrameHeader, HEADER_BYTES_MAX, Opcode};
use super::limits::{Role, WebsocketLimits};
use super::mask::MaskKey;
use super::message::Message;

/// The smallest allocation for an unfinished message, unless the message is known to be smaller.
const HELD_BYTES_MIN: usize = 512;

/// One session's state between two reads. Uses no heap unless a message is incomplete.
#[derive(Debug, Default)]
pub struct Decoder {
    stage: Stage,
    unfinished: Option<Unfinished>,
    buffer: Vec<u8>,
}

/// What the decoder expects next.
#[derive(Debug)]
enum Stage {
    /// A frame. `bytes` holds the part of its header that has arrived.
    Header { bytes: [u8; HEADER_BYTES_MAX], length: u8 },
    /// More of a frame's payload.
    Payload(PartialFrame),
    /// Nothing: the peer has closed or violated the protocol.
    Closed,
}

#[derive(Clone, Copy, Debug)]
struct PartialFrame {
    opcode: Opcode,
    is_final: bool,
    /// The mask, rotated to the next byte of the payload.
    mask: Option<MaskKey>,
    bytes_left: usize,
}

/// A text or binary message that is incomplete.
#[derive(Clone, Copy, Debug)]
struct Unfinished {
    opcode: Opcode,
    /// Number of frames so far.
    fragments: u32,
    /// Number of bytes of `buffer` that belong to the message.
    bytes: usize,
    /// Number of a text's bytes that are known to be UTF-8.
    valid_bytes: usize,
}

/// A complete message.
struct CompleteMessage {
    opcode: Opcode,
    source: PayloadSource,
}

enum PayloadSource {
    Input(Range<usize>),
    Held(Range<usize>),
}

/// The messages of one read, created by [`Decoder::messages`].
#[derive(Debug)]
#[must_use = "what `next` does not take out of the input is lost"]
pub struct Messages<'a> {
    decoder: &'a mut Decoder,
    input: &'a mut [u8],
    /// Number of consumed bytes of the input.
    consumed: usize,
    role: Role,
    limits: &'a WebsocketLimits,
}

impl Default for Stage {
    fn default() -> Self {
        Self::Header { bytes: [0; HEADER_BYTES_MAX], length: 0 }
    }
}

impl Decoder {
    /// Returns the messages that `input`, the next bytes of the stream, completes. Callers must
    /// call [`Messages::next`] until it returns `None` or an error, as it stores incomplete
    /// messages and frees memory. To stop earlier, they must keep [`Messages::rest`].
    #[inline]
    pub fn messages<'a>(
        &'a mut self,
        input: &'a mut [u8],
        role: Role,
        limits: &'a WebsocketLimits,
    ) -> Messages<'a> {
        Messages { decoder: self, input, consumed: 0, role, limits }
    }

    /// Returns the bytes of heap in use: 0 if nothing is incomplete, at most
    /// [`WebsocketLimits::message_bytes_max`] and a control frame.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Returns whether the peer has closed or violated the protocol. Further input is ignored.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.stage, Stage::Closed)
    }

    /// Frees the bytes of `buffer` that were delivered.
    #[inline]
    fn release(&mut self) {
        if self.buffer.capacity() == 0 || matches!(self.stage, Stage::Payload(_)) {
            return;
        }
        let bytes = self.unfinished.map_or(0, |message| message.bytes);
        self.buffer.truncate(bytes);
        if self.buffer.is_empty() {
            self.buffer = Vec::new();
        }
    }

    /// Checks that the frame is allowed here. Returns the message that it begins or continues, or
    /// None for a control frame, which is allowed anywhere.
    #[inline]
    fn admit(
        &self,
        header: &FrameHeader,
        limits: &WebsocketLimits,
    ) -> Result<Option<Unfinished>, ProtocolError> {
        let message = match (self.unfinished, header.opcode) {
            (_, opcode) if opcode.is_control() => return Ok(None),
            (None, Opcode::Continuation) => return Err(ProtocolError::ContinuationOfNothing),
            (None, opcode) => Unfinished { opcode, fragments: 0, bytes: 0, valid_bytes: 0 },
            (Some(message), Opcode::Continuation) => message,
            (Some(_), opcode) => return Err(ProtocolError::MessageInterrupted { opcode }),
        };
        message.with_frame(header.payload_bytes, limits).map(Some)
    }

    /// Stores the next bytes of a frame that is not delivered from the input.
    fn store(
        &mut self,
        frame: &PartialFrame,
        payload: &[u8],
        limits: &WebsocketLimits,
    ) -> Result<(), ProtocolError> {
        let bytes_max = if frame.is_final {
            self.buffer.len() + payload.len() + frame.bytes_left
        } else {
            limits.message_bytes_max
        };
        reserve(&mut self.buffer, payload.len(), bytes_max);
        self.buffer.extend_from_slice(payload);
        match &mut self.unfinished {
            Some(message) if !frame.opcode.is_control() => message.extend_to(&self.buffer),
            _ => Ok(()),
        }
    }

    /// Ignores all further input.
    fn close(&mut self) {
        *self = Self { stage: Stage::Closed, ..Self::default() };
    }

    /// Ends a frame whose last byte is stored. Returns the message if that completes it, and
    /// validates it.
    fn end_frame(
        &mut self,
        frame: &PartialFrame,
    ) -> Result<Option<CompleteMessage>, ProtocolError> {
        self.stage = Stage::default();
        if frame.opcode.is_control() {
            let start = self.unfinished.map_or(0, |message| message.bytes);
            if frame.opcode == Opcode::Close {
                CloseFrame::parse(&self.buffer[start..])?;
            }
            let source = PayloadSource::Held(start..self.buffer.len());
            return Ok(Some(CompleteMessage { opcode: frame.opcode, source }));
        }
        let Some(message) = self.unfinished.take_if(|_| frame.is_final) else { return Ok(None) };
        if message.opcode == Opcode::Text && message.valid_bytes < message.bytes {
            return Err(ProtocolError::TextNotUtf8);
        }
        Ok(Some(CompleteMessage {
            opcode: message.opcode,
            source: PayloadSource::Held(0..message.bytes),
        }))
    }
}

impl Unfinished {
    /// Adds a frame to the message. Returns an error if that exceeds a limit.
    fn with_frame(mut self, bytes: u64, limits: &WebsocketLimits) -> Result<Self, ProtocolError> {
        let WebsocketLimits { message_bytes_max, frame_bytes_max, message_fragments_max } = *limits;
        if bytes > frame_bytes_max as u64 {
            return Err(ProtocolError::FrameTooLarge { bytes, bytes_max: frame_bytes_max });
        }
        if bytes > message_bytes_max.saturating_sub(self.bytes) as u64 {
            return Err(ProtocolError::MessageTooLarge { bytes_max: message_bytes_max });
        }
        if self.fragments >= message_fragments_max {
            return Err(ProtocolError::TooManyFragments { fragments_max: message_fragments_max });
        }
        self.fragments += 1;
        Ok(self)
    }

    /// Extends the message to all bytes of `buffer`. Returns an error as soon as a text can't
    /// become valid UTF-8.
    fn extend_to(&mut self, buffer: &[u8]) -> Result<(), ProtocolError> {
        self.bytes = buffer.len();
        if self.opcode == Opcode::Text {
            match std::str::from_utf8(&buffer[self.valid_bytes..]) {
                Ok(valid) => self.valid_bytes += valid.len(),
                Err(error) if error.error_len().is_some() => {
                    return Err(ProtocolError::TextNotUtf8);
                }
                Err(error) => self.valid_bytes += error.valid_up_to(),
            }
        }
        Ok(())
    }
}

impl Messages<'_> {
    /// Returns the next message, or `None` when the input is used up. The message borrows from the
    /// input or the decoder until the next call.
    ///
    /// # Errors
    /// Returns an error if the peer violated the protocol or exceeded a limit. No message follows
    /// it.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "what it lends ends with the next call")]
    pub fn next(&mut self) -> Result<Option<Message<'_>>, ProtocolError> {
        self.decoder.release();
        let message = match self.advance() {
            Ok(Some(message)) => message,
            Ok(None) => return Ok(None),
            Err(error) => {
                self.decoder.close();
                return Err(error);
            }
        };
        match message.source {
            PayloadSource::Input(range) => {
                let parsed = Message::parse(message.opcode, &self.input[range]);
                if parsed.is_err() || message.opcode == Opcode::Close {
                    self.decoder.close();
                }
                parsed.map(Some)
            }
            PayloadSource::Held(range) => {
                if message.opcode == Opcode::Close {
                    self.decoder.stage = Stage::Closed;
                    self.decoder.unfinished = None;
                }
                Message::parse(message.opcode, &self.decoder.buffer[range]).map(Some)
            }
        }
    }

    /// Returns the input that is not consumed yet. A caller that stops before `next` returns `None`
    /// must pass it to [`Decoder::messages`] later.
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        &self.input[self.consumed..]
    }

    /// Consumes input up to the end of a message.
    fn advance(&mut self) -> Result<Option<CompleteMessage>, ProtocolError> {
        loop {
            match self.decoder.stage {
                Stage::Header { .. } => {
                    let Some(header) = self.header()? else { return Ok(None) };
                    if let Some(message) = self.begin_frame(&header)? {
                        return Ok(Some(message));
                    }
                }
                Stage::Payload(frame) => {
                    let Some(frame) = self.payload(frame)? else { return Ok(None) };
                    if let Some(message) = self.decoder.end_frame(&frame)? {
                        return Ok(Some(message));
                    }
                }
                Stage::Closed => return Ok(None),
            }
        }
    }

    /// Reads a header from the input, or continues one that the previous input began.
    #[inline]
    fn header(&mut self) -> Result<Option<FrameHeader>, ProtocolError> {
        let Stage::Header { bytes, length } = &mut self.decoder.stage else { return Ok(None) };
        let rest = &self.input[self.consumed..];
        let before = usize::from(*length);
        if before == 0
            && let Some((header, header_bytes)) = FrameHeader::parse(rest, self.role)?
        {
            self.consumed += header_bytes;
            return Ok(Some(header));
        }
        let more = rest.len().min(HEADER_BYTES_MAX - before);
        bytes[before..before + more].copy_from_slice(&rest[..more]);
        let Some((header, header_bytes)) = FrameHeader::parse(&bytes[..before + more], self.role)?
        else {
            // The header is incomplete, so all of the input fits.
            *length += u8::try_from(more).expect("at most HEADER_BYTES_MAX");
            self.consumed += more;
            return Ok(None);
        };
        *length = 0;
        self.consumed += header_bytes - before;
        Ok(Some(header))
    }

    /// Begins a frame. Returns the message if it can be delivered from the input.
    #[inline]
    fn begin_frame(
        &mut self,
        header: &FrameHeader,
    ) -> Result<Option<CompleteMessage>, ProtocolError> {
        let message = self.decoder.admit(header, self.limits)?;
        let FrameHeader { is_final, opcode, mask, payload_bytes } = *header;
        // The length is within the limits, which are `usize`.
        let bytes_left = usize::try_from(payload_bytes).unwrap_or(usize::MAX);
        let is_whole = is_final && (opcode.is_control() || self.decoder.unfinished.is_none());
        if !is_whole || self.input.len() - self.consumed < bytes_left {
            self.decoder.unfinished = message.or(self.decoder.unfinished);
            self.decoder.stage =
                Stage::Payload(PartialFrame { opcode, is_final, mask, bytes_left });
            return Ok(None);
        }
        let range = self.consumed..self.consumed + bytes_left;
        self.consumed = range.end;
        if let Some(mut mask) = mask {
            mask.apply(&mut self.input[range.clone()]);
        }
        Ok(Some(CompleteMessage { opcode, source: PayloadSource::Input(range) }))
    }

    /// Reads more of a frame's payload. Returns the frame if that completes it.
    fn payload(&mut self, mut frame: PartialFrame) -> Result<Option<PartialFrame>, ProtocolError> {
        let available = frame.bytes_left.min(self.input.len() - self.consumed);
        let payload = &mut self.input[self.consumed..self.consumed + available];
        self.consumed += available;
        frame.bytes_left -= available;
        if let Some(mask) = &mut frame.mask {
            mask.apply(payload);
        }
        self.decoder.store(&frame, payload, self.limits)?;
        self.decoder.stage = Stage::Payload(frame);
        Ok((frame.bytes_left == 0).then_some(frame))
    }
}

/// Reserves room for `more` bytes. Doubles the capacity, so that many small pieces are rarely
/// copied, but never beyond `bytes_max`, and not for bytes that a header only announced.
fn reserve(buffer: &mut Vec<u8>, more: usize, bytes_max: usize) {
    let needed = buffer.len() + more;
    if needed > buffer.capacity() {
        let target = (2 * needed).max(HELD_BYTES_MIN).min(bytes_max).max(needed);
        buffer.reserve_exact(target - buffer.len());
    }
}
