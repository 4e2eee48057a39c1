//! `weir backup list DIR`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use weir_config::units::about_size;

use crate::backup::manifest::PartNote;
use crate::backup::plan::stamp;
use crate::backup::repository::{Backup, Backups, Repository};
use crate::exit::Exit;
use crate::output;

/// `weir backup list`.
#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// Folder of backups
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &ListArguments) -> anyhow::Result<Exit> {
    let backups = Repository::open_to_read(&arguments.folder)?.backups()?;
    if arguments.json {
        print_json(&backups)?;
    } else {
        print(&backups);
    }
    Ok(Exit::Fine)
}

fn print(backups: &Backups) {
    if backups.complete.is_empty() {
        output::line("there is no complete backup");
    } else {
        let rows: Vec<_> = backups.complete.iter().map(row).collect();
        output::table(&["NAME", "SIZE", "JOBS FROM", "JOBS UNTIL", "HAS"], &rows);
    }
    for damaged in &backups.damaged {
        output::line(&format!("{} can't be used: {:#}", damaged.name, damaged.error));
    }
}

fn row(backup: &Backup) -> Vec<String> {
    let manifest = &backup.manifest;
    let until = stamp(manifest.last_second());
    let (from, until) = match &manifest.jobs {
        None => ("-".to_owned(), "-".to_owned()),
        // Without a named second, the backup is restored to its own time.
        Some(jobs) => (
            jobs.restorable_from.map_or_else(|| until.clone(), stamp),
            jobs.restorable_until.map_or_else(|| until.clone(), stamp),
        ),
    };
    let parts: Vec<&str> = included(&manifest.parts).collect();
    vec![backup.name.clone(), about_size(manifest.bytes()), from, until, parts.join(" ")]
}

fn included(parts: &[PartNote]) -> impl Iterator<Item = &str> {
    parts.iter().filter(|part| part.is_included).map(|part| part.part.as_str())
}

fn print_json(backups: &Backups) -> anyhow::Result<()> {
    let complete = backups.complete.iter().map(|backup| {
        let manifest = &backup.manifest;
        json!({
            "name": backup.name,
            "at": manifest.at,
            "version": manifest.version,
            "bytes": manifest.bytes(),
            "files": manifest.files.len(),
            "jobs": manifest.jobs,
            "parts": manifest.parts,
        })
    });
    let damaged = backups
        .damaged
        .iter()
        .map(|backup| json!({ "name": backup.name, "error": format!("{:#}", backup.error) }));
    output::json(&json!({
        "backups": complete.collect::<Vec<_>>(),
        "damaged": damaged.collect::<Vec<_>>(),
    }))
}
