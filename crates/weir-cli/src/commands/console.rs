//! `weir console ..`: logins of the console.

use std::io::{IsTerminal, Read};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use console::Term;
use weir_access::PasswordHash;
use weir_access::password::PASSWORD_BYTES_MAX;

use crate::exit::Exit;
use crate::output;

/// The verbs of `weir console`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConsoleCommand {
    /// Print the Argon2id hash of a password, for console.users.NAME.password_hash
    HashPassword(HashPasswordArguments),
}

/// `weir console hash-password`. The password is no argument: other users of the machine see those.
#[derive(Debug, Args)]
#[command(
    after_help = "The password is read from the terminal without being shown, or from the first line of standard input."
)]
pub(crate) struct HashPasswordArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Shorter passwords are guessed too easily, even though logins are slowed down.
const PASSWORD_CHARACTERS_MIN: usize = 8;

pub(crate) fn run(command: &ConsoleCommand) -> anyhow::Result<Exit> {
    let ConsoleCommand::HashPassword(arguments) = command;
    let password = if std::io::stdin().is_terminal() { ask()? } else { read_line()? };
    if password.chars().count() < PASSWORD_CHARACTERS_MIN {
        bail!("the password has fewer than {PASSWORD_CHARACTERS_MIN} characters");
    }
    if password.len() > PASSWORD_BYTES_MAX {
        bail!("the password has more than {PASSWORD_BYTES_MAX} bytes");
    }
    let hash = PasswordHash::of(&password);
    if arguments.json {
        output::json(&serde_json::json!({ "password_hash": hash.expose() }))?;
    } else {
        output::line(hash.expose());
    }
    Ok(Exit::Fine)
}

/// Asks twice: a mistake would be found at the next login only.
fn ask() -> anyhow::Result<String> {
    let terminal = Term::stderr();
    if !terminal.is_term() {
        bail!(
            "standard error is no terminal, so the question cannot be shown: pass the password on standard input"
        );
    }
    let prompt = |text: &str| {
        terminal.write_str(text)?;
        terminal.read_secure_line()
    };
    let password = prompt("Password: ").context("cannot read the password")?;
    let repeated = prompt("Again: ").context("cannot read the password")?;
    if password != repeated {
        bail!("the passwords differ");
    }
    Ok(password)
}

/// Reads the first line of standard input.
fn read_line() -> anyhow::Result<String> {
    let mut text = Vec::new();
    // One byte more, and its newline, tell that a line is too long.
    let bytes_max = PASSWORD_BYTES_MAX as u64 + 3;
    std::io::stdin().lock().take(bytes_max).read_to_end(&mut text)?;
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = std::str::from_utf8(line).context("the password is not UTF-8")?;
    Ok(line.trim_end_matches('\r').to_owned())
}
