//! `weir completions`.

use clap::Command;
use clap_complete::Shell;

use crate::exit::Exit;
use crate::output;

/// Prints the script for a shell; `command_line` is the whole definition.
pub(crate) fn run(shell: Shell, command_line: &Command) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut visible(command_line), "weir", &mut script);
    output::raw(&String::from_utf8_lossy(&script));
    Exit::Fine
}

/// Returns the command line without hidden verbs, which the generators would include.
fn visible(whole: &Command) -> Command {
    let verbs = whole.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    Command::new("weir")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .args(whole.get_arguments().cloned())
        .subcommands(verbs)
}
