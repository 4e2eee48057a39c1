//! WebSocket frames (RFC 6455, 5.2) as a client needs them: what it sends is masked, what it reads is not.

use crate::event_loop::LoadError;

pub(crate) const TEXT: u8 = 1;
pub(crate) const CLOSE: u8 = 8;
pub(crate) const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;

const FINAL: u8 = 0x80;
const OPCODE: u8 = 0x0F;
const MASKED: u8 = 0x80;
/// Values of the 7-bit length that announce a longer one.
const LENGTH_16: u8 = 126;
const LENGTH_64: u8 = 127;

/// One whole frame at the front of what was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) opcode: u8,
    pub(crate) payload: &'a [u8],
    /// Header and payload.
    pub(crate) bytes: usize,
}

/// Returns the first frame of `input`, or `None` while it is incomplete. Fragments, extensions and masks are
/// rejected: servers of these protocols do not send them unless a client requests them.
pub(crate) fn parse(input: &[u8]) -> Result<Option<Frame<'_>>, LoadError> {
    let &[first, second, ref rest @ ..] = input else {
        return Ok(None);
    };
    if first & !OPCODE != FINAL || second & MASKED != 0 || first & OPCODE == 0 {
        let text = format!("a frame that begins with {first:#04x} {second:#04x}");
        return Err(LoadError::Protocol(text));
    }
    let (length, header) = match second {
        LENGTH_16 => (rest.first_chunk().map(|bytes| u64::from(u16::from_be_bytes(*bytes))), 4),
        LENGTH_64 => (rest.first_chunk().map(|bytes| u64::from_be_bytes(*bytes)), 10),
        length => (Some(u64::from(length)), 2),
    };
    let Some(length) = length else {
        return Ok(None);
    };
    let end = usize::try_from(length).ok().and_then(|length| length.checked_add(header));
    let end = end.ok_or_else(|| LoadError::Protocol(format!("a frame of {length} bytes")))?;
    let payload = input.get(header..end);
    Ok(payload.map(|payload| Frame { opcode: first & OPCODE, payload, bytes: end }))
}

/// Appends a masked frame.
pub(crate) fn append(opcode: u8, payload: &[u8], out: &mut Vec<u8>) {
    append_header(opcode, MASKED, payload.len(), out);
    let mask = fastrand::u32(..).to_be_bytes();
    out.extend(mask);
    out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
}

/// Appends an unmasked text frame, as a server sends it.
pub(crate) fn append_unmasked(payload: &[u8], out: &mut Vec<u8>) {
    append_header(TEXT, 0, payload.len(), out);
    out.extend(payload);
}

fn append_header(opcode: u8, masked: u8, length: usize, out: &mut Vec<u8>) {
    out.push(FINAL | opcode);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < LENGTH_16 => out.push(masked | short),
        (_, Ok(medium)) => {
            out.push(masked | LENGTH_16);
            out.extend(medium.to_be_bytes());
        }
        _ => {
            out.push(masked | LENGTH_64);
            out.extend((length as u64).to_be_bytes());
        }
    }
}

/// Returns the code of a close frame, if it has one.
pub(crate) fn close_code(payload: &[u8]) -> Option<u16> {
    payload.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_every_length_form_are_parsed_when_complete() {
        for length in [0, 125, 126, 65_535, 65_536] {
            let payload = vec![b'x'; length];
            let mut bytes = Vec::new();
            append_unmasked(&payload, &mut bytes);
            let whole = bytes.len();
            bytes.push(0x81);
            let frame = parse(&bytes).expect("valid").expect("whole");
            assert_eq!((frame.opcode, frame.payload.len(), frame.bytes), (TEXT, length, whole));
            assert_eq!(parse(&bytes[..whole - 1]).expect("valid so far"), None, "{length}");
        }
    }

    #[test]
    fn sent_frames_are_masked() {
        for length in [5, 300, 70_000] {
            let mut bytes = Vec::new();
            append(PONG, &vec![b'y'; length], &mut bytes);
            let (payload_at, mask) = (bytes.len() - length, bytes.len() - length - 4);
            assert_eq!((bytes[0], bytes[1] & MASKED), (FINAL | PONG, MASKED));
            let unmasked = |at: usize| bytes[payload_at + at] ^ bytes[mask + at % 4];
            assert!((0..length).all(|at| unmasked(at) == b'y'));
        }
    }

    #[test]
    fn fragments_masks_and_reserved_bits_are_rejected() {
        for head in [[0x01, 0], [0x80, 0], [0x81, 0x80], [0xC1, 0]] {
            assert!(parse(&head).is_err(), "{head:?}");
        }
    }
}
