//! Texts of an upstream, which anybody may have written: read piece by piece, with bounded lines.
//!
//! What can't be kept here (a name with a slash, a release without a checksum) is left out and
//! counted; what is no such text at all is an error.

mod info;
mod lines;
mod names;
mod versions;

pub use self::info::{InfoText, read_info};
pub use self::lines::LineError;
pub use self::names::NamesReader;
pub(super) use self::versions::is_usable;
pub use self::versions::{VersionsLine, VersionsReader};

/// Why a text is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// A line that does not end.
    #[error(transparent)]
    Line(#[from] LineError),
    /// It does not begin as such a text does.
    #[error("it does not begin with `---`; is this the address of a gem index?")]
    Header,
    /// Its end is in the middle of a line.
    #[error("it ends in the middle of a line")]
    Unfinished,
    /// More lines of it can't be read than one would expect of an index.
    #[error("{0} of its lines can't be read")]
    Malformed(u64),
}

/// What a text begins with, up to the lines.
const RULE: &[u8] = b"---";
/// Lines in front of the rule: `created_at: ..`, and what may come some day.
const HEADER_LINES_MAX: u32 = 16;

/// What lies in front of the lines.
#[derive(Clone, Copy, Debug)]
struct Header {
    /// None: it has been read.
    lines: Option<u32>,
}

impl Header {
    const fn expected() -> Self {
        Self { lines: Some(0) }
    }

    const fn read() -> Self {
        Self { lines: None }
    }

    /// Whether a line belongs to it.
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
