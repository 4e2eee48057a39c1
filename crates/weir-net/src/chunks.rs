//! An incremental parser of the chunked transfer coding (RFC 9112, section 7.1): it finds the data
//! and the end of a body. Ambiguous bodies are rejected.

/// The limit of bytes in chunk extensions and trailers of a body, which are ignored.
const OVERHEAD_BYTES_MAX: u32 = 16 << 10;
/// The longest chunk. nginx, with signed 64-bit offsets, rejects longer ones, too.
const CHUNK_BYTES_MAX: u64 = (1 << 63) - 2;

/// The position of the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkPosition {
    /// `has_digit`: whether the size has a digit, which it must.
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

/// The error of a malformed chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body's chunks are malformed")]
pub struct BadChunk;

/// The next part of a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// How many bytes are part of the coding.
    pub framing: usize,
    /// How many bytes of data follow them.
    pub data: usize,
}

/// Parses a chunked body that arrives in pieces.
#[derive(Clone, Copy, Debug)]
pub struct Chunks {
    position: ChunkPosition,
    /// The rest of the current chunk's data.
    remaining: u64,
    overhead_bytes: u32,
}

impl Default for Chunks {
    fn default() -> Self {
        Self { position: ChunkPosition::Size { has_digit: false }, remaining: 0, overhead_bytes: 0 }
    }
}

impl Chunks {
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.position == ChunkPosition::End
    }

    /// Parses the beginning of `bytes`, up to the end of the first data. Call it again with the
    /// bytes behind that.
    ///
    /// # Errors Fails if the coding is malformed. Do not call it again after that.
    pub fn next(&mut self, bytes: &[u8]) -> Result<Piece, BadChunk> {
        let mut framing = 0;
        while !matches!(self.position, ChunkPosition::Data | ChunkPosition::End) {
            let Some(byte) = bytes.get(framing) else { break };
            self.step(*byte)?;
            framing += 1;
        }
        let mut data = 0;
        if self.position == ChunkPosition::Data {
            let remaining = usize::try_from(self.remaining).unwrap_or(usize::MAX);
            data = remaining.min(bytes.len() - framing);
            self.remaining -= data as u64;
            if self.remaining == 0 {
                self.position = ChunkPosition::DataEnd;
            }
        }
        Ok(Piece { framing, data })
    }

    /// Returns how many of `bytes` belong to the body; fewer than all only at its end.
    ///
    /// # Errors
    /// Fails if the coding is malformed. Do not call it again after that.
    pub fn skip(&mut self, bytes: &[u8]) -> Result<usize, BadChunk> {
        let mut skipped = 0;
        while skipped < bytes.len() && !self.is_at_end() {
            let Piece { framing, data } = self.next(&bytes[skipped..])?;
            skipped += framing + data;
        }
        Ok(skipped)
    }

    fn step(&mut self, byte: u8) -> Result<(), BadChunk> {
        self.position = match (self.position, byte) {
            (ChunkPosition::Size { .. }, digit) if digit.is_ascii_hexdigit() => {
                self.add_digit(digit)?;
                ChunkPosition::Size { has_digit: true }
            }
            (ChunkPosition::Size { has_digit: true }, b';' | b' ' | b'\t') => {
                ChunkPosition::Extension
            }
            (ChunkPosition::Size { has_digit: true } | ChunkPosition::Extension, b'\r') => {
                ChunkPosition::SizeEnd
            }
            (ChunkPosition::SizeEnd, b'\n') if self.remaining == 0 => ChunkPosition::Trailer,
            (ChunkPosition::SizeEnd, b'\n') => ChunkPosition::Data,
            (ChunkPosition::DataEnd, b'\r') => ChunkPosition::DataEndLine,
            (ChunkPosition::DataEndLine, b'\n') => ChunkPosition::Size { has_digit: false },
            (ChunkPosition::Trailer, b'\r') => ChunkPosition::LastEnd,
            (ChunkPosition::TrailerText, b'\r') => ChunkPosition::TrailerEnd,
            (ChunkPosition::TrailerEnd, b'\n') => ChunkPosition::Trailer,
            (ChunkPosition::LastEnd, b'\n') => ChunkPosition::End,
            (ChunkPosition::Extension, other) if other != b'\n' => {
                self.count_overhead(ChunkPosition::Extension)?
            }
            (ChunkPosition::Trailer | ChunkPosition::TrailerText, other) if other != b'\n' => {
                self.count_overhead(ChunkPosition::TrailerText)?
            }
            _ => return Err(BadChunk),
        };
        Ok(())
    }

    fn add_digit(&mut self, digit: u8) -> Result<(), BadChunk> {
        let value = char::from(digit).to_digit(16).ok_or(BadChunk)?;
        // A size that overflows is malformed; it must not wrap to a smaller one.
        self.remaining = self.remaining.checked_mul(16).ok_or(BadChunk)? + u64::from(value);
        if self.remaining > CHUNK_BYTES_MAX { Err(BadChunk) } else { Ok(()) }
    }

    fn count_overhead(&mut self, position: ChunkPosition) -> Result<ChunkPosition, BadChunk> {
        self.overhead_bytes += 1;
        if self.overhead_bytes > OVERHEAD_BYTES_MAX { Err(BadChunk) } else { Ok(position) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads a body in pieces of these sizes. Returns its data and, if it has ended, its length.
    fn read(text: &[u8], sizes: &[usize]) -> Result<(Vec<u8>, Option<usize>), BadChunk> {
        let (mut chunks, mut data, mut at) = (Chunks::default(), Vec::new(), 0);
        let mut sizes = sizes.iter().copied().cycle();
        while at < text.len() && !chunks.is_at_end() {
            let size = sizes.next().unwrap_or(usize::MAX).clamp(1, text.len() - at);
            let piece = chunks.next(&text[at..at + size])?;
            at += piece.framing;
            data.extend_from_slice(&text[at..at + piece.data]);
            at += piece.data;
        }
        Ok((data, chunks.is_at_end().then_some(at)))
    }

    #[test]
    fn data_extensions_and_trailers_are_parsed() {
        let whole: &[u8] = b"5;a=\"b\"\r\nhello\r\n00A\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\n";
        assert_eq!(read(whole, &[]), Ok((b"hello0123456789".to_vec(), Some(whole.len()))));
        assert_eq!(read(b"0\r\n\r\nGET", &[]), Ok((Vec::new(), Some(5))));
        assert_eq!(read(b"3\r\nab", &[]), Ok((b"ab".to_vec(), None)));
        assert_eq!(read(b"00000000000000000001\r\na", &[]), Ok((b"a".to_vec(), None)));
    }

    #[test]
    fn ambiguous_chunks_are_rejected() {
        let bad: [&[u8]; 13] = [
            b"\r\n",
            b";x\r\n",
            b"5\nhello",
            b"5\r\nhello0\r\n\r\n",
            b"5\r\nhello\n0\r\n\r\n",
            b"-1\r\n",
            b"0x5\r\nhello\r\n",
            b"10000000000000000\r\n",
            b"ffffffffffffffff\r\n",
            b"8000000000000000\r\n",
            b"7fffffffffffffff\r\n",
            b"0\r\nX: 1\n\r\n",
            b"5;a\nb\r\nhello\r\n",
        ];
        for text in bad {
            assert_eq!(read(text, &[]), Err(BadChunk), "{:?}", String::from_utf8_lossy(text));
        }
        let endless = [&b"0\r\nX: "[..], &[b'a'; OVERHEAD_BYTES_MAX as usize]].concat();
        assert_eq!(read(&endless, &[]), Err(BadChunk));
    }

    proptest! {
        #[test]
        fn chunks_parse_the_same_in_any_pieces(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            behind in prop::collection::vec(any::<u8>(), 0..9),
            sizes in prop::collection::vec(1_usize..20, 1..6),
        ) {
            let mut text = Vec::new();
            for chunk in &chunks {
                text.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                text.extend_from_slice(chunk);
                text.extend_from_slice(b"\r\n");
            }
            text.extend_from_slice(b"0\r\n\r\n");
            let length = text.len();
            text.extend_from_slice(&behind);
            prop_assert_eq!(read(&text, &sizes), Ok((chunks.concat(), Some(length))));
            prop_assert_eq!(Chunks::default().skip(&text), Ok(length));
        }

        #[test]
        fn the_chunk_parser_never_panics(text in prop::collection::vec(any::<u8>(), 0..200), size in 1_usize..9) {
            prop_assert_eq!(read(&text, &[size]).is_err(), read(&text, &[]).is_err());
        }
    }
}
