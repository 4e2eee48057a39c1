//! Text that never appears in logs, errors or debug output.

use std::fmt;
use std::path::{Path, PathBuf};

/// A password or key. Formatting it gives asterisks; only [`Secret::expose`] returns the text.
///
/// Secrets with the same text are equal, wherever they come from.
#[derive(Clone, Default)]
pub struct Secret {
    text: String,
    file: Option<PathBuf>,
}

impl Secret {
    /// Wraps `text`.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), file: None }
    }

    /// Wraps `text`, which was read from `file` and may be read again.
    #[must_use]
    pub fn of_file(file: PathBuf, text: impl Into<String>) -> Self {
        Self { text: text.into(), file: Some(file) }
    }

    /// Returns the text. Check at every call that it is not logged.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// Returns the file that the text was read from, or `None` if it is from elsewhere.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(***)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_redacted() {
        let secret = Secret::new("hunter2");
        assert!(!format!("{secret} {secret:?}").contains("hunter2"));
        assert_eq!(secret.expose(), "hunter2");
    }
}
