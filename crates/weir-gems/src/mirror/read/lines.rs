//! Splits pieces into lines. Only lines that span pieces are copied.

/// Error for a line that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line has more than {max} bytes (gems.mirror.limits.advanced.line_bytes_max)")]
pub struct LineError {
    /// The limit in bytes.
    pub max: usize,
}

/// Assembles lines.
#[derive(Debug)]
pub(super) struct Lines {
    max: usize,
    /// The beginning of an incomplete line.
    begun: Vec<u8>,
}

impl Lines {
    pub(super) const fn new(max: usize) -> Self {
        Self { max, begun: Vec::new() }
    }

    /// Calls `each` with the lines that end in `piece`, without line ends.
    pub(super) fn feed<E: From<LineError>>(
        &mut self,
        piece: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut parts = piece.split_inclusive(|byte| *byte == b'\n');
        for part in &mut parts {
            match part.strip_suffix(b"\n") {
                Some(line) if self.begun.is_empty() => {
                    self.check(line.len())?;
                    each(line)?;
                }
                Some(rest) => {
                    self.check(self.begun.len() + rest.len())?;
                    self.begun.extend_from_slice(rest);
                    let line = std::mem::take(&mut self.begun);
                    each(&line)?;
                }
                None => {
                    self.check(self.begun.len() + part.len())?;
                    self.begun.extend_from_slice(part);
                }
            }
        }
        Ok(())
    }

    const fn check(&self, bytes: usize) -> Result<(), LineError> {
        match bytes > self.max {
            true => Err(LineError { max: self.max }),
            false => Ok(()),
        }
    }

    /// Returns whether the last line is complete.
    pub(super) const fn is_finished(&self) -> bool {
        self.begun.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(pieces: &[&[u8]], max: usize) -> Result<Vec<Vec<u8>>, LineError> {
        let (mut reader, mut all) = (Lines::new(max), Vec::new());
        for piece in pieces {
            reader.feed(piece, |line| {
                all.push(line.to_vec());
                Ok::<_, LineError>(())
            })?;
        }
        Ok(all)
    }

    #[test]
    fn a_line_is_bounded_whether_or_not_it_ends() {
        assert!(lines(&[b"123\n1", b"23\n"], 3).is_ok());
        for pieces in [&[&b"1234\n"[..]][..], &[b"12", b"34"], &[b"12", b"34\n"], &[b"1234"]] {
            assert_eq!(lines(pieces, 3), Err(LineError { max: 3 }));
        }
    }

    proptest! {
        #[test]
        fn cuts_do_not_matter(
            text in prop::collection::vec(prop::sample::select(b"ab\n".to_vec()), 0..60),
            cuts in prop::collection::vec(0_usize..60, 0..6),
        ) {
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&text[from..cut]);
                from = cut;
            }
            pieces.push(&text[from..]);
            prop_assert_eq!(lines(&pieces, 100), lines(&[&text], 100));
        }
    }
}
