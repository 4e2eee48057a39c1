//! `weir backup DIR`: a backup of the data directory, while Weir runs or is stopped.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use rustix::fs::Mode;
use serde_json::json;
use weir_base::clock::Clock;
use weir_config::Settings;
use weir_config::units::{about_size, parse_size};

use crate::admin_client::{self, AdminClient};
use crate::backup::copier::{Copier, CopyTotals};
use crate::backup::gems::gem_files;
use crate::backup::manifest::Manifest;
use crate::backup::marker;
use crate::backup::pace::Pace;
use crate::backup::repository::{Pruned, Repository};
use crate::backup::sources::{Content, Source, Sources, log_path};
use crate::data_dir::{self, lock, lock::Lock};
use crate::exit::{Exit, WrongUsage};
use crate::output::{self, count};
use crate::target::{SettingsArguments, Target};

/// The rate by default. It costs the job server at most a tenth of its throughput, twice the rate up to 18 % (docs/benchmarks.md).
const RATE_DEFAULT: &str = "32MiB";

/// `weir backup DIR`.
#[derive(Debug, Args)]
pub(super) struct MakeArguments {
    /// Folder of backups; made when missing
    #[arg(value_name = "DIR", required = true)]
    folder: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingsArguments,
    /// Then delete the oldest backups in DIR beyond this many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// Bytes per second to copy at most; 0: without a limit
    #[arg(long, value_name = "SIZE", default_value = RATE_DEFAULT, value_parser = parse_size)]
    rate: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A finished backup.
struct Made {
    name: String,
    manifest: Manifest,
    totals: CopyTotals,
    took: Duration,
    pruned: Pruned,
}

pub(super) fn run(arguments: &MakeArguments) -> anyhow::Result<Exit> {
    let folder = arguments.folder.as_ref().context("DIR is required")?;
    // The file tells where gems are, whether or not it names data_dir.
    let settings = match arguments.settings.config {
        Some(_) => data_dir::settings_from_file(&arguments.settings)?,
        None => data_dir::settings(&arguments.settings)?,
    };
    if !settings.data_dir.is_dir() {
        bail!(
            "there is no data_dir {}; name it with --data-dir or --config",
            settings.data_dir.display()
        );
    }
    let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    if absolute(folder).starts_with(absolute(&settings.data_dir)) {
        return Err(WrongUsage::new("DIR is inside of data_dir; name a folder elsewhere").into());
    }
    // Nobody else may read jobs and keys. The mask also holds for the file that SQLite creates.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let clock = Clock::system();
    let started = clock.now();
    let repository = Repository::open_to_write(folder)?;
    let (name, manifest, totals) = make(arguments, &repository, &settings, &clock)?;
    let pruned = match arguments.keep {
        Some(keep) => repository.prune(usize::try_from(keep)?)?,
        None => Pruned::default(),
    };
    let took = clock.now().since(started);
    let made = Made { name, manifest, totals, took, pruned };
    if arguments.json {
        print_json(&made)?
    } else {
        print(&made)
    }
    Ok(Exit::Fine)
}

fn make(
    arguments: &MakeArguments,
    repository: &Repository,
    settings: &Settings,
    clock: &Clock,
) -> anyhow::Result<(String, Manifest, CopyTotals)> {
    marker::check(&settings.data_dir)?;
    // Held until the end: a stopped Weir must not start meanwhile.
    let (mut sources, _lock) = if lock::running(&settings.data_dir).is_some() {
        (of_running(arguments, settings, clock)?, None)
    } else {
        let lock = Lock::share(&settings.data_dir, settings.supervisor.orphan_wait)?;
        (Sources::of_stopped(settings, clock)?, lock)
    };
    let bar = ProgressBar::new_spinner()
        .with_style(ProgressStyle::with_template("{spinner} copied {bytes} in {elapsed}")?);
    let pace = Pace::new(clock.clone(), arguments.rate);
    let sequence = repository.next_sequence()?;
    let mut copier = Copier::new(repository, pace, bar.clone(), sequence)?;
    let mut manifest = Manifest::new(sources.at, sequence);
    (manifest.jobs, manifest.parts) = (sources.jobs, sources.parts);
    // The log first: its open segments occupy space although Weir may have deleted them.
    sources.files.sort_by_key(|source| !source.path.starts_with(&log_path("")));
    for source in sources.files {
        manifest.files.extend(copier.add(source)?);
    }
    if let Some(folder) = &sources.gem_files {
        for (from, path) in gem_files(folder)? {
            manifest.files.extend(copier.add(Source { path, content: Content::Named(from) })?);
        }
    }
    copier.finish(&manifest.files)?;
    manifest.write(&repository.partial()?)?;
    let name = repository.complete(&manifest)?;
    bar.finish_and_clear();
    Ok((name, manifest, copier.totals))
}

fn of_running(
    arguments: &MakeArguments,
    settings: &Settings,
    clock: &Clock,
) -> anyhow::Result<Sources> {
    admin_client::block_on(async {
        let target = Target { settings: arguments.settings.clone(), ..Target::default() };
        let mut client = AdminClient::connect(&target).await?;
        Sources::of_running(settings, &mut client, clock).await
    })
}

fn print(made: &Made) {
    let Made { name, manifest, totals, took, pruned } = made;
    let copied = about_size(totals.copied_bytes);
    output::line(&format!(
        "backup {name} is complete: the state of {}, {} ({copied} copied, {} unchanged) in {:.1} s",
        manifest.at,
        about_size(manifest.bytes()),
        count(totals.reused_files, "file"),
        took.as_secs_f64()
    ));
    for part in &manifest.parts {
        let mark = if part.is_included { "" } else { "NOT INCLUDED: " };
        output::line(&format!("  {}: {mark}{}", part.part, part.note));
    }
    if !pruned.deleted.is_empty() {
        output::line(&format!("deleted: {}", pruned.deleted.join(", ")));
    }
    for (name, why) in &pruned.left {
        output::line(&format!("not deleted: {name}: {why}"));
    }
}

fn print_json(made: &Made) -> anyhow::Result<()> {
    let Made { name, manifest, totals, took, pruned } = made;
    let left = pruned.left.iter().map(|(name, why)| json!({ "name": name, "why": why }));
    output::json(&json!({
        "name": name,
        "at": manifest.at,
        "bytes": manifest.bytes(),
        "copied_files": totals.copied_files,
        "copied_bytes": totals.copied_bytes,
        "reused_files": totals.reused_files,
        "seconds": took.as_secs_f64(),
        "jobs": manifest.jobs,
        "parts": manifest.parts,
        "deleted": pruned.deleted,
        "not_deleted": left.collect::<Vec<_>>(),
    }))
}
