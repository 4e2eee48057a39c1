//! `weir jobs import`: restores exported JSON lines, a batch at a time. The import of a file continues
//! where it was interrupted.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use weir_jobs::view::{JobServerOverview, Pushed, Rejected};

use super::import_input::{ImportInput, InputCheck};
use super::import_progress::ImportProgress;
use crate::admin_client::AdminClient;
use crate::data_dir;
use crate::exit::Exit;
use crate::output;
use crate::target::Target;

/// `weir jobs import`.
#[derive(Debug, Args)]
pub(crate) struct JobsImportArgs {
    #[command(flatten)]
    target: Target,
    /// File to read; `-` for standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Import exported lines also if some are missing or were changed
    #[arg(long)]
    unchecked: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &JobsImportArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let check = if arguments.unchecked { InputCheck::Off } else { InputCheck::On };
    let mut input = ImportInput::open(&arguments.file, check)?;
    let mut progress = match &input.sha256 {
        Some(sha256) => {
            ImportProgress::of_file(&arguments.file, &target_name(&arguments.target)?, sha256)?
        }
        None => ImportProgress::of_stream(),
    };
    if progress.is_new() {
        progress.dead_before = dead(&mut client).await?;
        progress.save()?;
    } else {
        output::note(&format!("continuing after line {}", progress.lines));
        input.skip(progress.lines)?;
    }
    import(&mut client, &mut input, &mut progress).await?;
    input.finish().with_context(|| progress.interrupted())?;
    progress.finished = true;
    progress.save()?;
    report(arguments, &progress)?;
    check_outcome(&mut client, &input, &progress).await?;
    Ok(if progress.pushed.rejected_total == 0 { Exit::Fine } else { Exit::Failed })
}

async fn import(
    client: &mut AdminClient,
    input: &mut ImportInput,
    progress: &mut ImportProgress,
) -> anyhow::Result<()> {
    let bar = match input.bytes {
        Some(bytes) => ProgressBar::new(bytes)
            .with_style(ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {eta}")?),
        None => ProgressBar::new_spinner(),
    };
    // Weir may have stored lines whose confirmation was not saved: until it finds none of them.
    let mut in_doubt = !progress.is_new();
    while let Some(batch) = input.next_batch().with_context(|| progress.interrupted())? {
        bar.inc(u64::try_from(batch.text.len()).unwrap_or_default());
        let path = if in_doubt { "/v1/jobs/import?only_absent=true" } else { "/v1/jobs/import" };
        let pushed: anyhow::Result<Pushed> = client.post_lines(path, batch.text.clone()).await;
        let pushed = pushed.with_context(|| progress.interrupted())?;
        in_doubt &= pushed.present > 0;
        note_rejected(&pushed.rejected, progress.lines);
        progress.add(&batch, &pushed)?;
    }
    bar.finish_and_clear();
    Ok(())
}

fn note_rejected(rejected: &[Rejected], lines_before: u64) {
    for Rejected { line, jid, error } in rejected {
        let jid = output::printable(jid.as_deref().unwrap_or("-"));
        output::note(&format!("line {}: {jid}: {}", line + lines_before, output::printable(error)));
    }
}

fn report(arguments: &JobsImportArgs, progress: &ImportProgress) -> anyhow::Result<()> {
    let Pushed { accepted, present, entries, rejected_total, .. } = progress.pushed;
    if arguments.json {
        output::json(&progress.pushed)?;
    } else {
        // Those that were present come from the interrupted run.
        let imported = output::count(accepted + present, "job");
        output::line(&format!("{imported} imported, {rejected_total} rejected"));
        if entries > 0 {
            let entries = output::count(entries, "line");
            output::line(&format!("{entries} of batches, progress and cron jobs imported"));
        }
    }
    if input_was_empty(progress) {
        output::note(EMPTY_INPUT);
    }
    if let Some(file) = progress.rejected_file().filter(|_| rejected_total > 0) {
        output::note(&format!(
            "the rejected lines are in {0}; correct the cause, then: weir jobs import --unchecked {0}",
            file.display()
        ));
    }
    Ok(())
}

/// An export of nothing still has an end line, so this is the output of a program that failed, or the wrong file.
const EMPTY_INPUT: &str = "warning: the input has no lines; did the program that writes it fail?";

fn input_was_empty(progress: &ImportProgress) -> bool {
    progress.lines == 0
}

/// Compares what Weir confirmed with what was read.
async fn check_outcome(
    client: &mut AdminClient,
    input: &ImportInput,
    progress: &ImportProgress,
) -> anyhow::Result<()> {
    let Pushed { accepted, present, entries, rejected_total, .. } = progress.pushed;
    let (confirmed, read) = (accepted + present + entries + rejected_total, input.jobs());
    if confirmed != read {
        bail!("{read} lines were read, but Weir reported {confirmed}");
    }
    let (expected, found) = (progress.dead_before + input.dead(), dead(client).await?);
    if found + rejected_total < expected {
        bail!(
            "the dead set has {found} jobs, not {expected}: it keeps at most jobs.limits.dead_jobs_max, and none older than jobs.limits.dead_age_max; the file has all of them"
        );
    }
    Ok(())
}

async fn dead(client: &mut AdminClient) -> anyhow::Result<u64> {
    Ok(client.get::<JobServerOverview>("/v1/jobs/overview").await?.dead)
}

/// Returns a name that distinguishes the Weirs into which a file may be imported.
fn target_name(target: &Target) -> anyhow::Result<String> {
    if let Some(url) = &target.url {
        return Ok(url.clone());
    }
    let directory = data_dir::find(&target.settings)?;
    let directory = std::fs::canonicalize(&directory).unwrap_or(directory);
    Ok(directory.display().to_string())
}
