//! `weir man`.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Command};
use clap_mangen::Man;

use crate::exit::Exit;

/// `weir man`.
#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// Folder for the pages: weir.1, weir-up.1, weir-jobs-push.1 ..; created if it does not exist
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Writes a page for each command; `command_line` is the whole definition.
pub(crate) fn run(arguments: &ManArguments, command_line: Command) -> anyhow::Result<Exit> {
    let folder = &arguments.folder;
    let shown = folder.display();
    fs::create_dir_all(folder).with_context(|| format!("cannot create {shown}"))?;
    let mut root = command_line;
    root.build();
    write(arguments, &root).with_context(|| format!("cannot write the pages into {shown}"))?;
    Ok(Exit::Fine)
}

fn write(arguments: &ManArguments, command: &Command) -> std::io::Result<()> {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        write(arguments, verb)?;
    }
    let version = concat!("Weir ", env!("CARGO_PKG_VERSION"));
    let page = Man::new(command.clone()).source(version).manual("Weir");
    page.generate_to(&arguments.folder).map(|_| ())
}
