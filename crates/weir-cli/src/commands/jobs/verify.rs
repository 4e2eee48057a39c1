//! `weir jobs verify`: every checksum of the job store, while no Weir has it open. Changes nothing.

use std::path::Path;

use anyhow::{Context, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use weir_log::{Damage, RealDisk, SegmentCheck, Verification};

use crate::data_dir::{self, lock::Lock};
use crate::exit::Exit;
use crate::output;
use crate::target::SettingsArguments;
use weir_config::Settings;

/// `weir jobs verify`.
#[derive(Debug, Args)]
pub(crate) struct JobsVerifyArgs {
    #[command(flatten)]
    settings: SettingsArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &JobsVerifyArgs) -> anyhow::Result<Exit> {
    let settings = Settings::in_data_dir(&data_dir::find(&arguments.settings)?);
    let directory = &settings.jobs.settings.directory;
    if !directory.is_dir() {
        bail!(
            "there is no job store at {}; name its data_dir with --data-dir or --config",
            directory.display()
        );
    }
    let _lock = Lock::share(&settings.data_dir, settings.supervisor.orphan_wait)
        .context("cannot check a job store that is in use")?;
    let verification = verify(directory)?;
    if arguments.json {
        print_json(directory, &verification)?;
    } else {
        print(&verification);
    }
    Ok(if verification.is_sound() { Exit::Fine } else { Exit::FoundProblem })
}

fn verify(directory: &Path) -> anyhow::Result<Verification> {
    let shown = directory.display();
    let disk = RealDisk::new(directory).with_context(|| format!("cannot open {shown}"))?;
    let bar = ProgressBar::no_length()
        .with_style(ProgressStyle::with_template("{wide_bar} {pos}/{len} segments {eta}")?);
    let verification = weir_log::verify(&disk, &mut |progress| {
        bar.set_length(progress.segments as u64);
        bar.set_position(progress.segments_done as u64);
    });
    bar.finish_and_clear();
    verification.with_context(|| format!("cannot check {shown}"))
}

fn print(verification: &Verification) {
    let row = |segment: &SegmentCheck| {
        let (records, bytes) = (segment.records.to_string(), segment.bytes.to_string());
        vec![segment.file.clone(), records, bytes, checksums(segment)]
    };
    let rows: Vec<_> = verification.segments.iter().map(row).collect();
    output::table(&["SEGMENT", "RECORDS", "BYTES", "CHECKSUMS"], &rows);
    for Damage { file, offset, bytes, why, .. } in &verification.damages {
        output::line(&format!("{file} is damaged at offset {offset} ({bytes} bytes): {why}"));
    }
    let unlisted = verification.damages_total - verification.damages.len() as u64;
    if unlisted > 0 {
        output::line(&format!("and {} more", count(unlisted, "damaged place")));
    }
    for Damage { file, offset, bytes, why, .. } in &verification.set_aside {
        let what = format!("{file}, offset {offset} ({bytes} bytes)");
        output::line(&format!("set aside, not acknowledged: {what}: {why}"));
    }
    output::line(&verdict(verification));
    if verification.damages_total > 0 {
        output::line(ADVICE);
    } else if !verification.set_aside.is_empty() {
        output::line(ADVICE_SET_ASIDE);
    }
}

const ADVICE: &str = "Restore the store from a backup, or start Weir: it keeps every record with a matching checksum, sets the others aside and reports them; with `weir up --salvage` it repairs the whole store at once.";
const ADVICE_SET_ASIDE: &str = "Print the jobs in it with `weir jobs salvage`; end this report with `weir jobs damage --acknowledge`.";

fn verdict(verification: &Verification) -> String {
    let records = count(verification.records(), "record");
    let segments = count(verification.segments.len() as u64, "segment");
    if verification.is_sound() {
        return format!("intact: {records} in {segments}");
    }
    if verification.damages_total == 0 {
        let aside = count(verification.set_aside.len() as u64, "damaged place");
        return format!("REPAIRED: {aside} set aside; the checksums of {records} match");
    }
    let damages = count(verification.damages_total, "damaged place");
    format!("DAMAGED: {damages}; the checksums of {records} in {segments} match")
}

/// Describes the state of a segment's checksums.
fn checksums(segment: &SegmentCheck) -> String {
    let mut said = match segment.damages {
        0 => "hold".to_owned(),
        damages => count(damages, "damaged place"),
    };
    if segment.torn_bytes > 0 {
        let torn = count(segment.torn_bytes, "torn byte");
        said += &format!(", then {torn} (never acknowledged, removed at the next start)");
    }
    if segment.gap_bytes > 0 {
        said += &format!(", {} lost by a repair", count(segment.gap_bytes, "byte"));
    }
    said
}

fn print_json(directory: &Path, verification: &Verification) -> anyhow::Result<()> {
    let segments = verification.segments.iter().map(|segment| {
        json!({
            "file": segment.file,
            "records": segment.records,
            "bytes": segment.bytes,
            "damages": segment.damages,
            "torn_bytes": segment.torn_bytes,
            "gap_bytes": segment.gap_bytes,
        })
    });
    let place = |damage: &Damage| {
        json!({
            "file": damage.file,
            "offset": damage.offset,
            "bytes": damage.bytes,
            "why": damage.why,
        })
    };
    let damages: Vec<_> = verification.damages.iter().map(place).collect();
    let set_aside: Vec<_> = verification.set_aside.iter().map(place).collect();
    output::json(&json!({
        "directory": directory,
        "sound": verification.is_sound(),
        "records": verification.records(),
        "torn_bytes": verification.torn_bytes(),
        "gap_bytes": verification.gap_bytes(),
        "damages_total": verification.damages_total,
        "damages": damages,
        "set_aside": set_aside,
        "segments": segments.collect::<Vec<_>>(),
    }))
}

/// Formats a count: `1 record`, `5 records`.
fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
