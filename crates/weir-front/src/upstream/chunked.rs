//! The chunked transfer coding (RFC 9112, section 7.1), as it comes.

use bytes::{Buf, Bytes};

/// Bytes of chunk extensions and trailers of one body. Nobody reads them.
const TRIMMINGS_BYTES_MAX: u32 = 16 << 10;

/// Where in a chunked body we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// `has_digit`: a size has at least one.
    Size {
        has_digit: bool,
    },
    Extension,
    SizeEnd,
    Data,
    DataEnd,
    DataEndLine,
    /// At the start of a line behind the last chunk.
    Trailer,
    TrailerText,
    TrailerEnd,
    LastEnd,
    End,
}

/// What is no chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body's chunks are malformed")]
pub(crate) struct BadChunk;

/// Takes a chunked body apart.
#[derive(Debug)]
pub(super) struct ChunkedReader {
    place: Place,
    /// Of the present chunk.
    left: u64,
    trimmings: u32,
}

impl ChunkedReader {
    pub(super) const fn new() -> Self {
        Self { place: Place::Size { has_digit: false }, left: 0, trimmings: 0 }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.place == Place::End
    }

    /// The next data in `bytes`, which loses what was read. None: more bytes are needed, or it is
    /// the end.
    pub(super) fn next(&mut self, bytes: &mut Bytes) -> Result<Option<Bytes>, BadChunk> {
        while !bytes.is_empty() && !self.is_at_end() {
            if self.place == Place::Data {
                let taken = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
                self.left -= taken as u64;
                if self.left == 0 {
                    self.place = Place::DataEnd;
                }
                return Ok(Some(bytes.split_to(taken)));
            }
            self.step(bytes.get_u8())?;
        }
        Ok(None)
    }

    fn step(&mut self, byte: u8) -> Result<(), BadChunk> {
        self.place = match (self.place, byte) {
            (Place::Size { .. }, digit) if digit.is_ascii_hexdigit() => {
                self.add_digit(digit)?;
                Place::Size { has_digit: true }
            }
            (Place::Size { has_digit: true }, b';' | b' ' | b'\t') => Place::Extension,
            (Place::Size { has_digit: true } | Place::Extension, b'\r') => Place::SizeEnd,
            (Place::SizeEnd, b'\n') if self.left == 0 => Place::Trailer,
            (Place::SizeEnd, b'\n') => Place::Data,
            (Place::DataEnd, b'\r') => Place::DataEndLine,
            (Place::DataEndLine, b'\n') => Place::Size { has_digit: false },
            (Place::Trailer, b'\r') => Place::LastEnd,
            (Place::TrailerText, b'\r') => Place::TrailerEnd,
            (Place::TrailerEnd, b'\n') => Place::Trailer,
            (Place::LastEnd, b'\n') => Place::End,
            (Place::Extension, other) if other != b'\n' => self.trimming(Place::Extension)?,
            (Place::Trailer | Place::TrailerText, other) if other != b'\n' => {
                self.trimming(Place::TrailerText)?
            }
            _ => return Err(BadChunk),
        };
        Ok(())
    }

    fn add_digit(&mut self, digit: u8) -> Result<(), BadChunk> {
        let value = char::from(digit).to_digit(16).ok_or(BadChunk)?;
        // A size that does not fit is malformed, not smaller.
        self.left = self.left.checked_mul(16).ok_or(BadChunk)? + u64::from(value);
        Ok(())
    }

    fn trimming(&mut self, place: Place) -> Result<Place, BadChunk> {
        self.trimmings += 1;
        if self.trimmings > TRIMMINGS_BYTES_MAX { Err(BadChunk) } else { Ok(place) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a body says, read in the given pieces, and whether it has ended.
    fn read(text: &[u8], pieces: &[usize]) -> Result<(Vec<u8>, bool), BadChunk> {
        let mut reader = ChunkedReader::new();
        let (mut data, mut left) = (Vec::new(), Bytes::copy_from_slice(text));
        let mut pieces = pieces.iter().copied().cycle();
        while !left.is_empty() && !reader.is_at_end() {
            let size = pieces.next().unwrap_or(usize::MAX).clamp(1, left.len());
            let mut piece = left.split_to(size);
            while let Some(some) = reader.next(&mut piece)? {
                data.extend_from_slice(&some);
            }
        }
        Ok((data, reader.is_at_end()))
    }

    #[test]
    fn data_extensions_and_trailers() {
        let whole: &[u8] = b"5;a=\"b\"\r\nhello\r\n00A\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\n";
        assert_eq!(read(whole, &[]), Ok((b"hello0123456789".to_vec(), true)));
        assert_eq!(read(b"0\r\n\r\n", &[]), Ok((Vec::new(), true)));
        assert_eq!(read(b"3\r\nab", &[]), Ok((b"ab".to_vec(), false)));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        let bad: [&[u8]; 10] = [
            b"\r\n",
            b";x\r\n",
            b"5\nhello",
            b"5\r\nhello0\r\n\r\n",
            b"5\r\nhello\n0\r\n\r\n",
            b"-1\r\n",
            b"0x5\r\nhello\r\n",
            b"10000000000000000\r\n",
            b"0\r\nX: 1\n\r\n",
            b"5;a\nb\r\nhello\r\n",
        ];
        for text in bad {
            assert_eq!(read(text, &[]), Err(BadChunk), "{:?}", String::from_utf8_lossy(text));
        }
        let endless = [&b"0\r\nX: "[..], &[b'a'; TRIMMINGS_BYTES_MAX as usize]].concat();
        assert_eq!(read(&endless, &[]), Err(BadChunk));
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            pieces in prop::collection::vec(1_usize..20, 1..6),
        ) {
            let mut text = Vec::new();
            for chunk in &chunks {
                text.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                text.extend_from_slice(chunk);
                text.extend_from_slice(b"\r\n");
            }
            text.extend_from_slice(b"0\r\n\r\n");
            prop_assert_eq!(read(&text, &pieces), Ok((chunks.concat(), true)));
        }

        #[test]
        fn nothing_panics(text in prop::collection::vec(any::<u8>(), 0..200), piece in 1_usize..9) {
            prop_assert_eq!(read(&text, &[piece]).is_err(), read(&text, &[]).is_err());
        }
    }
}
