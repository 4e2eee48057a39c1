//! Where results and progress go: results to standard output, progress to standard error.

use std::io::{self, Write};

use anyhow::Result;

#[derive(Debug)]
pub(crate) struct Output {
    results: io::Stdout,
    progress: io::Stderr,
}

impl Output {
    pub(crate) fn standard() -> Self {
        Self { results: io::stdout(), progress: io::stderr() }
    }

    /// Prints a result.
    pub(crate) fn print(&mut self, text: &str) -> Result<()> {
        self.results.write_all(text.as_bytes())?;
        Ok(self.results.flush()?)
    }

    /// Prints a line of progress.
    pub(crate) fn note(&mut self, line: &str) -> Result<()> {
        Ok(writeln!(self.progress, "{line}")?)
    }
}
