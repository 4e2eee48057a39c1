//! `weir restore DIR`: a backup into an empty data directory.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use weir_base::clock::Clock;
use weir_config::Settings;

use crate::backup::manifest::{DATA, MILLIS_PER_SECOND};
use crate::backup::plan::{self, RestorePlan, stamp};
use crate::backup::repository::Repository;
use crate::backup::restore;
use crate::data_dir::{self, lock, lock::Lock};
use crate::exit::Exit;
use crate::output::{self, count};
use crate::target::SettingsArguments;

/// `weir restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArguments {
    /// Folder of backups, or one backup in it
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Restore jobs as they were when this second began, such as 2026-11-28T12:00:05Z [default: the
    /// time of the newest backup]
    #[arg(long, value_name = "TIME", value_parser = parse_second)]
    at: Option<u64>,
    /// Settings file [default: $WEIR_CONFIG, or weir.toml in the current folder if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Data directory to restore into, which must be empty; overrides data_dir of the settings file
    #[arg(long, visible_alias = "data", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &RestoreArguments) -> anyhow::Result<Exit> {
    let (config, data_dir) = (arguments.config.clone(), arguments.data_dir.clone());
    let flags = SettingsArguments { config, data_dir };
    let settings = Settings::in_data_dir(&data_dir::find(&flags)?);
    let clock = Clock::system();
    let started = clock.now();
    let repository = Repository::open_to_read(&arguments.folder)?;
    let backups = repository.backups()?;
    // A backup that can't be read may be the one that is meant.
    for damaged in &backups.damaged {
        let note = format!("{} is left out: {:#}", damaged.name, damaged.error);
        output::note(&note);
    }
    if let (None, Some(newest)) = (arguments.at, backups.damaged.last())
        && backups.complete.last().is_none_or(|complete| complete.name < newest.name)
    {
        bail!(
            "the newest backup {} can't be used; name an earlier one, such as DIR/NAME (weir backup list)",
            newest.name
        );
    }
    let plan = plan::plan(&backups.complete, arguments.at)?;
    restore::check_empty(&settings.data_dir)?;
    lock::make_folder(&settings.data_dir)?;
    let lock = Lock::take(&settings.data_dir, Duration::ZERO)?;
    let bytes = restore::planned_files(&plan).iter().map(|planned| planned.file.bytes).sum();
    let style = ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {eta}")?;
    let bar = ProgressBar::new(bytes).with_style(style);
    restore::fill(&plan, &settings, started.as_millis() / MILLIS_PER_SECOND, &bar)?;
    bar.finish_and_clear();
    drop(lock);
    let took = clock.now().since(started);
    if arguments.json {
        print_json(&plan, &settings, took)?;
    } else {
        print(&plan, &settings, took);
    }
    Ok(Exit::Fine)
}

/// Parses a time in whole seconds. Returns seconds since the Unix epoch.
fn parse_second(text: &str) -> Result<u64, String> {
    let how = "write a time in whole seconds with its offset from UTC, such as 2026-11-28T12:00:05Z or 2026-11-28T13:00:05+01:00";
    let time: jiff::Timestamp = text.parse().map_err(|_| how.to_owned())?;
    match u64::try_from(time.as_second()) {
        Ok(second) if time.subsec_nanosecond() == 0 => Ok(second),
        _ => Err(how.to_owned()),
    }
}

/// Returns the time of the restored jobs, and that of everything else.
fn times(plan: &RestorePlan<'_>) -> (String, String) {
    let rest = plan.rest.manifest.at.clone();
    (plan.at.map_or_else(|| rest.clone(), stamp), rest)
}

fn print(plan: &RestorePlan<'_>, settings: &Settings, took: Duration) {
    let (jobs_at, rest_at) = times(plan);
    let shown = settings.data_dir.display();
    match &plan.jobs {
        Some(jobs) => {
            let files = count(jobs.files.len() as u64, "file");
            output::line(&format!(
                "restored jobs as of {jobs_at} into {shown}: {files} of backup {}, up to {}, every checksum matches",
                jobs.backup, jobs.end
            ));
        }
        None => output::line("restored no jobs: the backup has none"),
    }
    let others = plan.rest.manifest.parts.iter().filter(|part| part.part != "jobs");
    for part in others {
        let state = if part.is_included { format!("as of {rest_at}: ") } else { String::new() };
        let missing = if part.is_included { "" } else { "NOT IN THE BACKUP: " };
        output::line(&format!("{}: {state}{missing}{}", part.part, part.note));
    }
    output::line(&format!(
        "It took {:.1} s. Start Weir with `weir up`; jobs that were reserved then are in their queues again.",
        took.as_secs_f64()
    ));
}

fn print_json(plan: &RestorePlan<'_>, settings: &Settings, took: Duration) -> anyhow::Result<()> {
    let (jobs_at, rest_at) = times(plan);
    let jobs = plan.jobs.as_ref().map(|jobs| {
        json!({
            "at": jobs_at,
            "backup": jobs.backup,
            "segment": jobs.end.segment,
            "offset": jobs.end.offset,
        })
    });
    output::json(&json!({
        "data_dir": settings.data_dir,
        "jobs": jobs,
        "rest": { "at": rest_at, "backup": plan.rest.name, "folder": plan.rest.folder.join(DATA) },
        "seconds": took.as_secs_f64(),
    }))
    .context("cannot print the result")
}

#[cfg(test)]
mod tests {
    use super::parse_second;

    #[test]
    fn a_time_is_a_whole_second_with_an_offset() {
        assert_eq!(parse_second("2026-11-28T12:00:05Z"), Ok(1_795_867_205));
        assert_eq!(parse_second("2026-11-28T13:00:05+01:00"), Ok(1_795_867_205));
        for text in
            ["2026-11-28T12:00:05", "2026-11-28T12:00:05.5Z", "12:00", "1969-01-01T00:00:00Z"]
        {
            assert!(parse_second(text).is_err(), "{text}");
        }
    }
}
