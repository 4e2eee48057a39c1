//! `weir completions`.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::exit::Exit;
use crate::output;

pub(super) fn run(shell: Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "weir", &mut script);
    output::raw(&String::from_utf8_lossy(&script));
    Exit::Fine
}
