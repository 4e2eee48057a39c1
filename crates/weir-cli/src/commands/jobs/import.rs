//! `weir jobs import`: restores exported JSON lines, a batch at a time.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use weir_jobs::view::Pushed;

use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::target::Target;

/// A batch is sent once it has this many lines or bytes.
const BATCH_LINES: u64 = 1_000;
const BATCH_BYTES: usize = 1 << 20;

/// `weir jobs import`.
#[derive(Debug, Args)]
pub(crate) struct JobsImportArgs {
    #[command(flatten)]
    target: Target,
    /// File to read; `-` for standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &JobsImportArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let (mut input, bytes) = open(&arguments.file)?;
    let progress = match bytes {
        Some(bytes) => ProgressBar::new(bytes)
            .with_style(ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {eta}")?),
        None => ProgressBar::new_spinner(),
    };
    let mut done = Pushed::default();
    let mut lines_before = 0;
    while let Some(batch) = Batch::read(&mut input)? {
        progress.inc(u64::try_from(batch.text.len()).unwrap_or_default());
        let pushed: Pushed =
            client.post_lines("/v1/jobs/import", batch.text).await.with_context(|| {
                format!("stopped after line {lines_before}; the lines up to it are imported")
            })?;
        done.accepted += pushed.accepted;
        for mut rejected in pushed.rejected {
            rejected.line += lines_before;
            done.rejected.push(rejected);
        }
        lines_before += batch.lines;
    }
    progress.finish_and_clear();
    report(arguments, &done)?;
    Ok(if done.rejected.is_empty() { Exit::Fine } else { Exit::Failed })
}

fn report(arguments: &JobsImportArgs, done: &Pushed) -> anyhow::Result<()> {
    if arguments.json {
        return output::json(done);
    }
    for rejected in &done.rejected {
        let jid = rejected.jid.as_deref().unwrap_or("-");
        output::note(&format!("line {}: {jid}: {}", rejected.line, rejected.error));
    }
    let (accepted, rejected) = (done.accepted, done.rejected.len());
    output::line(&format!("{} imported, {rejected} rejected", output::count(accepted, "job")));
    Ok(())
}

type Input = Box<dyn BufRead>;

fn open(path: &Path) -> anyhow::Result<(Input, Option<u64>)> {
    if path == Path::new("-") {
        return Ok((Box::new(BufReader::new(std::io::stdin())), None));
    }
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("cannot read {shown}"))?;
    let bytes = file.metadata()?.len();
    Ok((Box::new(BufReader::new(file)), Some(bytes)))
}

/// Complete lines that are sent together.
struct Batch {
    text: Vec<u8>,
    lines: u64,
}

impl Batch {
    fn read(input: &mut impl BufRead) -> anyhow::Result<Option<Self>> {
        let mut batch = Self { text: Vec::new(), lines: 0 };
        while batch.lines < BATCH_LINES && batch.text.len() < BATCH_BYTES {
            // A line longer than any limit of the server is sent in part, to be refused there.
            let read = input.take(LINE_BYTES_MAX).read_until(b'\n', &mut batch.text)?;
            if read == 0 {
                break;
            }
            batch.lines += 1;
        }
        Ok((batch.lines > 0).then_some(batch))
    }
}

/// Above what `jobs.limits.line_bytes_max` may be set to.
const LINE_BYTES_MAX: u64 = (1 << 30) + 1;
