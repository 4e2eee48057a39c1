//! `weir-bench soak`: all parts of one Weir, or of three, under load, while faults are injected.
//!
//! It starts everything that it needs: Weirs, Redis, Postgres, workers. Clients keep what the system has acknowledged to
//! them, and at the end that is compared with what the others have received. An error is expected from the beginning of
//! a fault until all parts have responded again, and at no other time.

mod fault;
mod flags;
mod growth;
mod http_connection;
mod inject;
mod jobs;
mod journal;
mod load;
mod outcome;
mod pace;
mod plan;
mod probe;
mod realtime;
mod report;
mod requests;
mod run;
mod samples;
mod shared;
mod site;
mod window;

use anyhow::{Context, Result};

pub(crate) use self::flags::SoakFlags;
pub(crate) use self::jobs::{SoakWorkerFlags, run_worker};
use self::run::Run;
use self::site::Site;
use crate::output::Output;

/// Seeds are short enough to be typed.
const SEED_MAX: u64 = 1_000_000;

/// Returns whether there were no violations.
pub(crate) fn run(flags: &SoakFlags, output: &mut Output) -> Result<bool> {
    flags.validate()?;
    let seed = flags.seed.unwrap_or_else(|| fastrand::u64(1..SEED_MAX));
    output.note(&format!("seed {seed}; shape {}", flags.shape.name()))?;
    let site = Site::start(flags, output)?;
    output.note(&format!(
        "{} nodes are ready, files are in {}",
        site.nodes.len(),
        site.folder().display()
    ))?;
    let mut run = Run::start(flags, output, site)?;
    run.run(seed)?;
    let outcome = run.finish(seed)?;
    let markdown = report::markdown(flags, &outcome);
    if let Some(path) = &flags.report {
        std::fs::write(path, &markdown).with_context(|| path.display().to_string())?;
    }
    let text =
        if flags.json { report::envelope(flags, &outcome).to_json_line() + "\n" } else { markdown };
    output.print(&text)?;
    Ok(outcome.violations().is_empty())
}
