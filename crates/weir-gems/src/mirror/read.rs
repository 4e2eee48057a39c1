//! Parses texts of an upstream, which are untrusted, piece by piece with limited line lengths.
//!
//! Entries that can't be stored here (a name with a slash, a release without a checksum) are
//! skipped and counted. A text in another format is an error.

mod info;
mod lines;
mod versions;

pub use self::info::{InfoText, read_info};
pub use self::lines::LineError;
pub(super) use self::versions::is_usable;
pub use self::versions::{VersionsLine, VersionsReader};

/// Reasons why a text is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// A line is too long.
    #[error(transparent)]
    Line(#[from] LineError),
    /// The text lacks the header.
    #[error("it does not begin with `---`; is this the address of a gem index?")]
    Header,
    /// The text ends in the middle of a line.
    #[error("it ends in the middle of a line")]
    Unfinished,
    /// More lines are unreadable than is plausible for an index.
    #[error("{0} of its lines can't be read")]
    Malformed(u64),
}

/// The line that ends the header.
const RULE: &[u8] = b"---";
/// Maximum number of header lines: `created_at: ..` and possible additions.
const HEADER_LINES_MAX: u32 = 16;

/// Parser of the header.
#[derive(Clone, Copy, Debug)]
struct Header {
    /// Number of header lines read so far; None after the end of the header.
    lines: Option<u32>,
}

impl Header {
    const fn expected() -> Self {
        Self { lines: Some(0) }
    }

    const fn read() -> Self {
        Self { lines: None }
    }

    /// Returns whether a line belongs to the header.
    fn takes(&mut self, line: &[u8]) -> Result<bool, ReadError> {
        let Some(lines) = &mut self.lines else { return Ok(false) };
        *lines += 1;
        if line == RULE {
            self.lines = None;
            return Ok(true);
        }
        match *lines < HEADER_LINES_MAX {
            true => Ok(true),
            false => Err(ReadError::Header),
        }
    }

    fn finish(self) -> Result<(), ReadError> {
        match self.lines {
            None => Ok(()),
            Some(_) => Err(ReadError::Header),
        }
    }
}
