//! What is wrong with a settings file: every error, each with its place.

use std::fmt;
use std::ops::Range;

/// One error.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SettingError {
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    pub message: String,
}

/// All errors of one file, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingErrors {
    pub file: String,
    pub errors: Vec<SettingError>,
}

impl SettingError {
    /// Creates an error at the start of `span`, a range of bytes in `text`.
    pub fn at(text: &str, span: &Range<usize>, message: String) -> Self {
        let before = text.get(..span.start).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message,
        }
    }
}

impl fmt::Display for SettingErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.errors.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            let SettingError { line, column, message } = mistake;
            write!(formatter, "{separator}{}:{line}:{column}: {message}", self.file)?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingErrors {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_start_at_one() {
        let text = "a = 1\nö = 2\n";
        for (byte, line, column) in [(0, 1, 1), (4, 1, 5), (6, 2, 1), (9, 2, 3), (99, 3, 1)] {
            let mistake = SettingError::at(text, &(byte..byte), String::new());
            assert_eq!((mistake.line, mistake.column), (line, column), "byte {byte}");
        }
    }
}
