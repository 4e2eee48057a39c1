//! Actions on all matching jobs, in steps: with progress, a stop (Ctrl-C) and a cursor to continue.

use anyhow::Context as _;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
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
    /// Whether all jobs were examined.
    pub(super) is_complete: bool,
}

/// Runs all steps of an action. Ctrl-C stops it between two steps.
pub(super) async fn run(
    client: &mut AdminClient,
    mut query: StepQuery,
) -> anyhow::Result<StepTotals> {
    let bar = ProgressBar::new_spinner()
        .with_style(ProgressStyle::with_template("{spinner} {msg} ({elapsed})")?);
    let (mut totals, mut scanned) = (StepTotals::default(), 0);
    loop {
        let step: StepView = tokio::select! {
            step = client.post(PATH, &query) => match step {
                Ok(step) => step,
                Err(error) => return Err(error).with_context(|| stopped(&query, totals.count)),
            },
            _ = tokio::signal::ctrl_c() => {
                bar.finish_and_clear();
                output::note(&stopped(&query, totals.count));
                return Ok(totals);
            }
        };
        totals.count += step.count;
        scanned += step.scanned;
        let left_out = step.matched - step.count.min(step.matched);
        if left_out > 0 {
            bar.suspend(|| {
                output::note(&format!("{} left meanwhile", output::count(left_out, "job")))
            });
        }
        if let Some(missing) = step.missing {
            bar.suspend(|| output::note(&format!("not complete: {missing}")));
        }
        bar.set_message(format!("{} of {scanned} examined", output::count(totals.count, "job")));
        bar.tick();
        match step.next {
            Some(next) => query.cursor = Some(next),
            None => break,
        }
    }
    bar.finish_and_clear();
    Ok(StepTotals { is_complete: true, ..totals })
}

fn stopped(query: &StepQuery, count: u64) -> String {
    let done = output::count(count, "job");
    match &query.cursor {
        Some(cursor) => format!("stopped after {done}; continue with --cursor '{cursor}'"),
        None => format!("stopped after {done}"),
    }
}
