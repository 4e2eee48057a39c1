//! Developer automation: `cargo run -p xtask -- edges|licences|docs|dashboards|test`.
//!
//! - [`edges`]: crates depend only on what ARCHITECTURE.md allows.
//! - [`licences`]: every dependency has a licence that deny.toml allows.
//! - [`docs`]: links resolve, the admin API is described, nothing names a developer's machine.
//! - [`dashboards`]: deploy/grafana is what the metrics' definitions make of it, alert rules name metrics
//!   that there are; `dashboards write` writes.
//! - [`suites`]: every test there is (`test rust|clients|browser`: those), with one line of counts at the end.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool prints")]

mod dashboards;
mod docs;
mod edges;
mod expression;
mod licences;
mod metadata;
mod server;
mod suites;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let name = arguments.first().copied().unwrap_or_default();
    if let ["test", names @ ..] = arguments.as_slice() {
        return match root().and_then(|root| suites::run(&root, names)) {
            Ok(true) => ExitCode::SUCCESS,
            // The last line has counted them.
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("test: {error:#}");
                ExitCode::FAILURE
            }
        };
    }
    let outcome = root().and_then(|root| match arguments.as_slice() {
        ["edges"] => edges::check(&root),
        ["licences"] => licences::check(&root),
        ["docs"] => docs::check(&root),
        ["dashboards"] => dashboards::check(&root),
        ["dashboards", "write"] => dashboards::write(&root),
        _ => anyhow::bail!(
            "usage: cargo run -p xtask -- edges|licences|docs|dashboards [write]|test"
        ),
    });
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

/// The repository.
fn root() -> anyhow::Result<PathBuf> {
    let parent = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    parent.map(Path::to_owned).context("xtask lies in the repository")
}
