//! Developer automation. Checks and tests, `cargo xtask edges|licences|docs|words|dashboards|openapi|test`:
//!
//! - [`edges`]: crates depend only on what ARCHITECTURE.md allows; circles of files don't grow.
//! - [`licences`]: every dependency has a licence that deny.toml allows; `licences write FILE` writes the texts
//!   ([`licence_texts`]).
//! - [`docs`]: links resolve, docs/SUMMARY.md lists all pages ([`site_check`]), the admin API is described, nothing
//!   names a developer's machine; examples of the code's documentation are tested ([`doc_tests`]); settings that pages and messages name with their section are in the reference
//!   ([`settings`]); docs/versions.md has the numbers of the data formats ([`formats`]).
//! - [`words`]: words that the glossary replaces are not used where users read them.
//! - [`dashboards`]: deploy/grafana matches the definitions of the metrics, and alert rules name existing metrics;
//!   `dashboards write` generates it.
//! - [`openapi`]: docs/reference has the OpenAPI document and the page of the admin API as its routes are; `openapi write`
//!   generates them.
//! - [`suites`]: all tests (or those of `test rust|doc|clients|browser`), with a line of counts at the end. Its suite
//!   `rust` is the command `executables` ([`executables`]).
//!
//! `cargo xtask site FOLDER` writes the documentation as a folder of HTML files ([`site`]); `archive FOLDER` completes the pages
//! of an archive ([`archive`]).
//!
//! Measures, `cargo xtask lines|names|circles|settings|dependencies`, print and never fail:
//!
//! - [`lines`]: lines of source and of tests by crate.
//! - [`names`]: share of type names that are declared three times or more (`--list`: which, and where).
//! - [`circles`]: files of one crate that use each other in a loop (and why, for a named crate).
//! - [`settings`]: settings by section.
//! - [`dependencies`]: packages that the binary links, and those in several versions.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool prints")]

mod archive;
mod circles;
mod dashboards;
mod dependencies;
mod doc_tests;
mod docs;
mod edges;
mod executables;
mod expression;
mod formats;
mod licence_texts;
mod licences;
mod lines;
mod literals;
mod metadata;
mod names;
mod openapi;
mod server;
mod settings;
mod site;
mod site_check;
mod sources;
mod suites;
mod test_items;
mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let name = arguments.first().copied().unwrap_or_default();
    let tested = match arguments.as_slice() {
        ["test", names @ ..] => Some(root().and_then(|root| suites::run(&root, names))),
        ["executables"] => Some(root().and_then(|root| executables::run(&root))),
        _ => None,
    };
    if let Some(tested) = tested {
        return match tested {
            Ok(true) => ExitCode::SUCCESS,
            // The last line has counted them.
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("test: {error:#}");
                ExitCode::FAILURE
            }
        };
    }
    if name.is_empty() {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    }
    let outcome = root().and_then(|root| run(&root, &arguments));
    match outcome {
        Ok(problems) if problems.is_empty() => ExitCode::SUCCESS,
        Ok(problems) => {
            for problem in &problems {
                eprintln!("{problem}");
            }
            eprintln!("{name}: {} problems", problems.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

const USAGE: &str = "usage: cargo xtask COMMAND
checks:   edges, licences [write FILE], docs, words, dashboards [write], openapi [write]
writes:   site FOLDER, archive FOLDER
tests:    test [rust|doc|clients|browser], executables
measures: lines, names [--list], circles [CRATE], settings, dependencies";

/// Returns the problems that a check found; a measure only prints.
fn run(root: &Path, arguments: &[&str]) -> anyhow::Result<Vec<String>> {
    let measured = match arguments {
        ["edges"] => return Ok([edges::check(root)?, circles::check(root)?].concat()),
        ["licences"] => return licences::check(root),
        ["licences", "write", file] => return licence_texts::write(root, Path::new(file)),
        ["docs"] => {
            return Ok([docs::check(root)?, settings::check(root)?, formats::check(root)?].concat());
        }
        ["site", folder] => site::write(root, Path::new(folder)),
        ["words"] => return words::check(root),
        ["archive", folder] => return archive::unlink(Path::new(folder)),
        ["dashboards"] => return dashboards::check(root),
        ["dashboards", "write"] => return dashboards::write(root),
        ["openapi"] => return Ok(openapi::check(root)),
        ["openapi", "write"] => openapi::write(root),
        ["lines"] => lines::report(root),
        ["names"] => names::report(root, false),
        ["names", "--list"] => names::report(root, true),
        ["circles"] => circles::report(root, None),
        ["circles", name] => circles::report(root, Some(name)),
        ["settings"] => settings::report(root),
        ["dependencies"] => dependencies::report(root),
        _ => anyhow::bail!(USAGE),
    };
    measured.map(|()| Vec::new())
}

/// Returns the folder of the repository.
fn root() -> anyhow::Result<PathBuf> {
    let parent = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    parent.map(Path::to_owned).context("xtask lies in the repository")
}
