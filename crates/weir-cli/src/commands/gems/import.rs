//! `weir gems import`: imports releases whose files are elsewhere.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use weir_base::clock::Clock;
use weir_gems::import_file::{ImportFile, ImportFileError};
use weir_gems::store::{Imported, ImportedGem};

use super::store;
use crate::exit::Exit;
use crate::output::{self, count};
use crate::target::SettingsArguments;

/// Size of a read: lines of large gems have megabytes.
const READ_BYTES: usize = 1 << 20;

/// The duration from which progress is reported.
const LONG: Duration = Duration::from_secs(1);

/// `weir gems import`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    settings: SettingsArguments,
    /// File to read; `-` for standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let settings = store::settings(&arguments.settings)?;
    let clock = Clock::system();
    let now = clock.now();
    let (input, bar) = open(&arguments.file)?;
    let store = store::open(&settings, &clock).await?;
    let gems = ImportFile::new(input, settings.gems.settings.limits.import, now);
    let failure = Failure::default();
    let done = store.import(Box::new(gems_until_failure(gems, failure.clone())), &clock).await?;
    bar.finish_and_clear();
    report(arguments, done)?;
    match failure.take() {
        None => Ok(Exit::Fine),
        Some(error) => bail!(
            "{error}; the gems before it are imported. Correct the line and import the file again; releases that exist already are unchanged"
        ),
    }
}

fn report(arguments: &Arguments, done: Imported) -> anyhow::Result<()> {
    let Imported { gems, releases, known, clashing, storing, indexing } = done;
    if arguments.json {
        return output::json(&json!({
            "gems": gems,
            "releases": releases,
            "known": known,
            "clashing": clashing,
            "storing_seconds": storing.as_secs_f64(),
            "indexing_seconds": indexing.as_secs_f64(),
        }));
    }
    let (gems, releases) = (count(gems, "new gem"), count(releases, "release"));
    output::line(&format!("{releases} imported, {gems}; {known} existed already"));
    if clashing > 0 {
        let clashing = count(clashing, "release");
        output::line(&format!(
            "{clashing} skipped: the name of the .gem file would be the same as that of another gem's release"
        ));
    }
    if storing + indexing >= LONG {
        let (storing, indexing) = (storing.as_secs_f64(), indexing.as_secs_f64());
        output::line(&format!("rows stored in {storing:.1} s, index built in {indexing:.1} s"));
    }
    Ok(())
}

type Input = Box<dyn BufRead + Send>;

fn open(path: &Path) -> anyhow::Result<(Input, ProgressBar)> {
    if path == Path::new("-") {
        let bar = ProgressBar::new_spinner();
        let input = bar.wrap_read(std::io::stdin());
        return Ok((Box::new(BufReader::with_capacity(READ_BYTES, input)), bar));
    }
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let style = ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {eta}")?;
    let bar = ProgressBar::new(file.metadata()?.len()).with_style(style);
    let input = bar.wrap_read(file);
    Ok((Box::new(BufReader::with_capacity(READ_BYTES, input)), bar))
}

/// The error that ended an import.
#[derive(Clone, Default)]
struct Failure(Arc<Mutex<Option<ImportFileError>>>);

impl Failure {
    fn take(&self) -> Option<ImportFileError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn record(&self, error: ImportFileError) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }
}

/// Returns the gems up to the first invalid line.
fn gems_until_failure(
    gems: impl Iterator<Item = Result<ImportedGem, ImportFileError>>,
    failure: Failure,
) -> impl Iterator<Item = ImportedGem> {
    // Fused: a store continues to read for the next batch.
    gems.map_while(move |gem| gem.map_err(|error| failure.record(error)).ok()).fuse()
}
