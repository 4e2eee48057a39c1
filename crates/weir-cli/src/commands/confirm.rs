//! Confirmation of irreversible actions.

use std::io::{BufRead, IsTerminal, Write};

use anyhow::bail;

/// Asks on a terminal; without one, `--yes` is required.
pub(in crate::commands) fn confirm(question: &str, yes: bool) -> anyhow::Result<bool> {
    if yes {
        return Ok(true);
    }
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        bail!("{question} Standard input is no terminal: confirm with --yes");
    }
    let mut stderr = std::io::stderr();
    write!(stderr, "{question} [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
