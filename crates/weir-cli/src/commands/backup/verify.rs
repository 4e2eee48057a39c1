//! `weir backup verify DIR`: reads all files of backups.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::backup::check::{self, DamagedFile};
use crate::backup::manifest;
use crate::backup::repository::Repository;
use crate::exit::Exit;
use crate::output::{self, count};

/// `weir backup verify`.
#[derive(Debug, Args)]
pub(super) struct VerifyArguments {
    /// Folder of backups, or one backup
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &VerifyArguments) -> anyhow::Result<Exit> {
    let repository = Repository::open_to_read(&arguments.folder)?;
    let backups = repository.backups()?;
    if backups.complete.is_empty() && backups.damaged.is_empty() {
        bail!("there is no complete backup in {}", arguments.folder.display());
    }
    let bytes = backups.complete.iter().map(|backup| backup.manifest.bytes()).sum();
    let style = ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {eta}")?;
    let bar = ProgressBar::new(bytes).with_style(style);
    let mut checked: Vec<(String, usize, Vec<DamagedFile>)> = Vec::new();
    for backup in &backups.complete {
        let damaged = check::check(backup, &bar)?;
        checked.push((backup.name.clone(), backup.manifest.files.len(), damaged));
    }
    bar.finish_and_clear();
    for damaged in backups.damaged {
        let why = format!("{:#}", damaged.error);
        let manifest = DamagedFile { path: manifest::FILE.to_owned(), why };
        checked.push((damaged.name, 0, vec![manifest]));
    }
    let is_sound = checked.iter().all(|(_, _, damaged)| damaged.is_empty());
    if arguments.json {
        print_json(&checked, is_sound)?;
    } else {
        checked.iter().for_each(print);
    }
    Ok(if is_sound { Exit::Fine } else { Exit::FoundProblem })
}

fn print((name, files, damaged): &(String, usize, Vec<DamagedFile>)) {
    if damaged.is_empty() {
        output::line(&format!("{name}: intact, {}", count(*files as u64, "file")));
    }
    for DamagedFile { path, why } in damaged {
        output::line(&format!("{name}: DAMAGED: {path}: {why}"));
    }
}

fn print_json(checked: &[(String, usize, Vec<DamagedFile>)], is_sound: bool) -> anyhow::Result<()> {
    let backups = checked.iter().map(|(name, files, damaged)| {
        let damaged = damaged.iter().map(|file| json!({ "path": file.path, "why": file.why }));
        json!({ "name": name, "files": files, "damaged": damaged.collect::<Vec<_>>() })
    });
    output::json(&json!({ "sound": is_sound, "backups": backups.collect::<Vec<_>>() }))
}
