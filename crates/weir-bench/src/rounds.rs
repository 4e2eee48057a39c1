//! The same load on several servers, interleaved, because only figures of the same minutes compare: in each
//! round every server runs once, and the order rotates from round to round.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::{Value, json};

use crate::checks::ROUNDS_MAX;
use crate::envelope::Envelope;
use crate::floor;
use crate::output::Output;

/// The figure that the servers are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JudgedBy {
    Rate,
    /// For loads with a fixed rate.
    P99,
    /// Seconds until all clients of a storm were back.
    AllBack,
}

impl JudgedBy {
    pub(crate) const ALL: [Self; 3] = [Self::Rate, Self::P99, Self::AllBack];

    /// Its name in an envelope.
    pub(crate) fn figure(self) -> &'static str {
        match self {
            Self::Rate => "operations_per_second",
            Self::P99 => "p99_us",
            Self::AllBack => "all_back_s",
        }
    }

    /// Returns the figure of a run. It is missing or 0 if the run did not finish.
    pub(crate) fn of(self, run: &Value) -> Option<f64> {
        run[self.figure()].as_f64().filter(|value| *value > 0.0)
    }
}

/// Flags of every comparison.
#[derive(Debug, Args)]
pub(crate) struct RoundFlags {
    /// Runs per server; the table shows medians.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Print one JSON object per run instead of the tables.
    #[arg(long)]
    pub(crate) json: bool,
    /// Append each run to this file, with the floor of its round, for `weir-bench report`.
    #[arg(long, value_name = "FILE", requires = "title")]
    record: Option<PathBuf>,
    /// Heading of these loads in the report.
    #[arg(long, requires = "record")]
    title: Option<String>,
}

/// What all servers get.
#[derive(Debug)]
pub(crate) struct ComparedLoad<'a> {
    pub(crate) label: &'a str,
    pub(crate) judged_by: JudgedBy,
    /// The servers, the one that the others are compared with first.
    pub(crate) names: &'a [&'a str],
}

impl RoundFlags {
    /// Checks the number of rounds and that no server is given twice.
    pub(crate) fn validate(&self, names: &[&str]) -> Result<()> {
        ensure!((1..=ROUNDS_MAX).contains(&self.rounds), "--rounds: between 1 and {ROUNDS_MAX}");
        if let Some((_, name)) =
            names.iter().enumerate().find(|(at, name)| names[..*at].contains(name))
        {
            bail!("--peer {name} is given twice");
        }
        Ok(())
    }

    /// Returns the runs of every server, one per round. `run` receives the server's index.
    pub(crate) fn run(
        &self,
        load: &ComparedLoad<'_>,
        output: &mut Output,
        mut run: impl FnMut(usize) -> Result<Envelope>,
    ) -> Result<Vec<Vec<Envelope>>> {
        let names = load.names;
        let mut runs: Vec<Vec<Envelope>> = vec![Vec::new(); names.len()];
        for round in 0..self.rounds {
            let mut record = self.record.as_deref().map(Record::open).transpose()?;
            for offset in 0..names.len() {
                let index = (offset + round) % names.len();
                let name = names[index];
                let mut envelope = run(index).with_context(|| name.to_owned())?;
                envelope.extra.insert("peer".to_owned(), name.into());
                envelope.extra.insert("round".to_owned(), (round + 1).into());
                let rate = envelope.operations_per_second;
                output.note(&format!("round {}: {name} {rate:.0} operations/s", round + 1))?;
                if self.json {
                    output.print(&(envelope.to_json_line() + "\n"))?;
                }
                if let Some(record) = &mut record {
                    record.append(self.title.as_deref().unwrap_or_default(), load, &envelope)?;
                }
                runs[index].push(envelope);
            }
        }
        Ok(runs)
    }
}

/// The file of all comparisons, in one round of one of them.
struct Record {
    file: File,
    floor: Value,
}

impl Record {
    fn open(path: &Path) -> Result<Self> {
        let file = fs::OpenOptions::new().create(true).append(true).open(path);
        let file = file.with_context(|| path.display().to_string())?;
        let floor = floor::measure()?;
        Ok(Self { file, floor: serde_json::to_value(floor)? })
    }

    fn append(&mut self, title: &str, load: &ComparedLoad<'_>, run: &Envelope) -> Result<()> {
        let mut line = serde_json::to_value(run)?;
        line["title"] = title.into();
        line["load"] = load.label.into();
        line["judged_by"] = load.judged_by.figure().into();
        line["client_cpu_us_per_operation"] = json!(run.client_cpu_us_per_operation());
        line["floor"] = self.floor.clone();
        Ok(writeln!(self.file, "{line}")?)
    }
}
