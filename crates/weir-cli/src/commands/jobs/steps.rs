//! Actions on all matching jobs, in steps: with progress, a stop (Ctrl-C) and a cursor to continue.

use std::pin::pin;

use anyhow::{Context as _, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::signal::unix::{Signal, SignalKind, signal};
use weir_jobs::handle::{StepAction, StepQuery};
use weir_jobs::view::StepView;

use super::query;
use crate::admin_client::AdminClient;
use crate::output;

const PATH: &str = "/v1/jobs/act/step";

/// The jobs that an action is about.
#[derive(Clone, Debug, Args)]
pub(super) struct MatchArguments {
    /// Only jobs whose JSON matches this glob; plain text matches anywhere in it
    #[arg(long, value_name = "GLOB")]
    pub(super) search: Option<String>,
    /// Only jobs of this type
    #[arg(long)]
    pub(super) jobtype: Option<String>,
    /// Continue an action that was stopped
    #[arg(long)]
    pub(super) cursor: Option<String>,
}

impl MatchArguments {
    /// Returns the first step of `action` in a place.
    pub(super) fn query(&self, place: &str, action: StepAction) -> StepQuery {
        StepQuery {
            place: query::place_name(place),
            search: self.search.clone(),
            jobtype: self.jobtype.clone(),
            action,
            cursor: self.cursor.clone(),
        }
    }
}

/// What an action has done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StepTotals {
    /// Jobs that were changed.
    pub(super) count: u64,
    /// Whether all jobs were examined: it was not stopped, and no part of the place was away.
    pub(super) is_complete: bool,
}

/// Runs all steps of an action. Ctrl-C stops it after the step in progress, whose jobs are counted; a second one at
/// once.
pub(super) async fn run(
    client: &mut AdminClient,
    mut query: StepQuery,
) -> anyhow::Result<StepTotals> {
    let bar = ProgressBar::new_spinner()
        .with_style(ProgressStyle::with_template("{spinner} {msg} ({elapsed})")?);
    let mut totals = StepTotals { is_complete: true, ..StepTotals::default() };
    let mut interrupts = signal(SignalKind::interrupt())?;
    let (mut scanned, mut is_stopping) = (0, false);
    loop {
        let step = match step(client, &query, &bar, &mut interrupts, &mut is_stopping).await {
            Ok(Some(step)) => step,
            Ok(None) => bail!("{}; the last step may have been run", stopped(&query, totals.count)),
            Err(error) => return Err(error).with_context(|| stopped(&query, totals.count)),
        };
        totals.count += step.count;
        scanned += step.scanned;
        let unchanged = step.matched - step.count.min(step.matched);
        if unchanged > 0 {
            let unchanged = output::count(unchanged, "job");
            let text = format!(
                "{unchanged} not changed: no longer in {}, or there is nothing to change",
                query.place
            );
            bar.suspend(|| output::note(&text));
        }
        if let Some(missing) = step.missing {
            totals.is_complete = false;
            bar.suspend(|| output::note(&format!("not complete: {missing}")));
        }
        bar.set_message(format!("{} of {scanned} examined", output::count(totals.count, "job")));
        bar.tick();
        match step.next {
            Some(next) => query.cursor = Some(next),
            None => break,
        }
        if is_stopping {
            bar.finish_and_clear();
            output::note(&stopped(&query, totals.count));
            return Ok(StepTotals { is_complete: false, ..totals });
        }
    }
    bar.finish_and_clear();
    Ok(totals)
}

/// Runs one step. Ctrl-C sets `is_stopping`, and the step goes on: what it changes is counted. Returns `None` if
/// Ctrl-C comes again.
async fn step(
    client: &mut AdminClient,
    query: &StepQuery,
    bar: &ProgressBar,
    interrupts: &mut Signal,
    is_stopping: &mut bool,
) -> anyhow::Result<Option<StepView>> {
    let mut response = pin!(client.post(PATH, query));
    loop {
        tokio::select! {
            step = &mut response => return Ok(Some(step?)),
            _ = interrupts.recv() => {
                if std::mem::replace(is_stopping, true) {
                    return Ok(None);
                }
                bar.suspend(|| output::note("stopping after this step; Ctrl-C again stops at once"));
            }
        }
    }
}

fn stopped(query: &StepQuery, count: u64) -> String {
    let done = output::count(count, "job");
    match &query.cursor {
        Some(cursor) => format!("stopped after {done}; continue with --cursor '{cursor}'"),
        None => format!("stopped after {done}"),
    }
}
