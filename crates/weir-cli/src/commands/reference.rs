//! `weir reference`: the pages of docs/reference that are generated from the code.

use std::fmt::Write;

use clap::{Arg, Command, ValueEnum};

use crate::exit::{self, Exit};
use crate::output;
use weir_config::{reference, schema};

/// Pages of docs/reference that come from the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReferencePage {
    Settings,
    /// A JSON schema of weir.toml.
    Schema,
    Cli,
}

/// Prints a page; `command_line` is the whole definition.
pub(crate) fn run(page: ReferencePage, command_line: Command) -> Exit {
    output::raw(&match page {
        ReferencePage::Settings => reference::markdown(),
        ReferencePage::Schema => schema::schema(),
        ReferencePage::Cli => cli_markdown(command_line),
    });
    Exit::Fine
}

const INTRODUCTION: &str = "\
# Command line

Every command that reads takes `--json`. Results are written to standard output, everything else to
standard error; colour is used only on a terminal (`NO_COLOR` turns it off).

| exit code | meaning |
| --- | --- |
EXIT_CODES
Commands that talk to a running Weir find its socket in `data_dir`, through `weir.toml` in the
current folder, `--config` or `--data-dir`. With `--url http://HOST:7420` they talk to the console's
port instead; `--token-env NAME` is needed for changes, and everywhere if the console has a password.

This page is generated from the code (`make docs`); a test fails when it is out of date.
";

fn cli_markdown(mut root: Command) -> String {
    let codes = exit::meanings().map(|(code, meaning)| format!("| {code} | {meaning} |\n"));
    let mut page = INTRODUCTION.replace("EXIT_CODES", &codes.concat());
    root.build();
    describe(&mut page, &root, "weir");
    page
}

fn describe(page: &mut String, command: &Command, path: &str) {
    for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
        let path = format!("{path} {}", child.get_name());
        let about = child.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = write!(page, "\n## `{path}`\n\n{about}.\n");
        if let Some(more) =
            child.get_long_about().map(ToString::to_string).filter(|more| *more != about)
        {
            let _ = write!(page, "\n{more}\n");
        }
        let arguments: Vec<&Arg> = child
            .get_arguments()
            .filter(|argument| !argument.is_hide_set() && argument.get_id() != "help")
            .collect();
        if !arguments.is_empty() {
            page.push_str("\n| argument | what it does |\n| --- | --- |\n");
            for argument in arguments {
                let _ = writeln!(page, "| `{}` | {} |", shape(argument), meaning(argument));
            }
        }
        describe(page, child, &path);
    }
}

/// Formats an argument: `--config <FILE>`, `[TEMPLATE]`.
fn shape(argument: &Arg) -> String {
    argument.to_string().replace('|', "\\|")
}

fn meaning(argument: &Arg) -> String {
    let mut text = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let values: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|_| argument.get_action().takes_values())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !values.is_empty() {
        let _ = write!(text, " ({})", values.join(", "));
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if argument.get_action().takes_values() && !defaults.is_empty() {
        let _ = write!(text, " [default: {}]", defaults.join(", "));
    }
    text.replace('|', "\\|")
}
