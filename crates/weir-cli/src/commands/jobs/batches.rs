//! `weir jobs batches`: batches of jobs with callbacks.

use clap::{Args, Subcommand};
use weir_jobs::view::{BatchListPage, BatchView};

use super::show::time;
use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::output::{printable, seconds};
use crate::target::Target;

/// The verbs of `weir jobs batches`.
#[derive(Debug, Subcommand)]
pub(crate) enum JobsBatchesCommand {
    /// List the batches, oldest id first
    List(JobsBatchesListArgs),
    /// Show one batch
    Show(JobsBatchesShowArgs),
}

/// `weir jobs batches list`.
#[derive(Debug, Args)]
pub(crate) struct JobsBatchesListArgs {
    #[command(flatten)]
    target: Target,
    /// Continue after the batch with this id
    #[arg(long, value_name = "BID")]
    after: Option<String>,
    /// Maximum number of batches
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `weir jobs batches show`.
#[derive(Debug, Args)]
pub(crate) struct JobsBatchesShowArgs {
    #[command(flatten)]
    target: Target,
    /// The id of the batch
    bid: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(command: &JobsBatchesCommand) -> anyhow::Result<Exit> {
    match command {
        JobsBatchesCommand::List(arguments) => list(arguments).await,
        JobsBatchesCommand::Show(arguments) => show(arguments).await,
    }
}

async fn list(arguments: &JobsBatchesListArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let mut parameters = form_urlencoded::Serializer::new(String::new());
    parameters.append_pair("limit", &arguments.limit.to_string());
    if let Some(after) = &arguments.after {
        parameters.append_pair("after", after);
    }
    let page: BatchListPage =
        client.get(&format!("/v1/jobs/batches?{}", parameters.finish())).await?;
    if arguments.json {
        output::json(&page)?;
        return Ok(Exit::Fine);
    }
    let rows: Vec<Vec<String>> = page.batches.iter().map(|it| row(it, page.now)).collect();
    output::table(
        &["BID", "STATE", "AGE", "JOBS", "SUCCEEDED", "FAILED", "CALLBACKS", "DESCRIPTION"],
        &rows,
    );
    let shown = page.batches.len();
    output::note(&match &page.next {
        Some(next) => format!("{shown} of {}; continue with --after {next}", page.total),
        None => format!("{shown} of {}", page.total),
    });
    Ok(Exit::Fine)
}

async fn show(arguments: &JobsBatchesShowArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let bid: String = form_urlencoded::byte_serialize(arguments.bid.as_bytes()).collect();
    let batch: BatchView = client.get(&format!("/v1/jobs/batches/{bid}")).await?;
    if arguments.json {
        output::json(&batch)?;
        return Ok(Exit::Fine);
    }
    for (name, value) in facts(&batch) {
        output::line(&format!("{name:<12} {value}"));
    }
    Ok(Exit::Fine)
}

fn row(batch: &BatchView, now: f64) -> Vec<String> {
    vec![
        batch.bid.clone(),
        batch.state.clone(),
        seconds((now - batch.created_at).max(0.0)),
        batch.total.to_string(),
        batch.succeeded.to_string(),
        batch.failed.to_string(),
        callbacks(batch),
        printable(&batch.description),
    ]
}

/// Returns how far the callbacks are that the batch has.
fn callbacks(batch: &BatchView) -> String {
    let named = [("complete", &batch.complete), ("success", &batch.success)];
    let present = named.into_iter().filter(|(_, state)| *state != "none");
    let texts: Vec<String> = present.map(|(name, state)| format!("{name} {state}")).collect();
    texts.join(", ")
}

fn facts(batch: &BatchView) -> Vec<(&'static str, String)> {
    let jobs = format!(
        "{}: {} succeeded, {} pending, {} failed, {} of them lost",
        batch.total, batch.succeeded, batch.pending, batch.failed, batch.lost
    );
    vec![
        ("bid", batch.bid.clone()),
        ("parent", batch.parent_bid.clone().unwrap_or_else(|| "-".to_owned())),
        ("description", printable(&batch.description)),
        ("state", batch.state.clone()),
        ("created", time(batch.created_at)),
        ("kept until", time(batch.expires_at)),
        ("jobs", jobs),
        ("callbacks", callbacks(batch)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_shown_with_its_jobs_and_callbacks() {
        let batch = BatchView {
            bid: "b-1".to_owned(),
            state: "waiting".to_owned(),
            description: "nightly \u{1b}[2J".to_owned(),
            created_at: 10.0,
            total: 5,
            pending: 2,
            failed: 2,
            succeeded: 3,
            complete: "succeeded".to_owned(),
            success: "none".to_owned(),
            ..BatchView::default()
        };
        let shown = row(&batch, 70.0);
        assert_eq!(shown[..7], ["b-1", "waiting", "1m 0s", "5", "3", "2", "complete succeeded"]);
        assert!(!shown[7].contains('\u{1b}'));
        let facts = facts(&batch);
        assert!(
            facts.contains(&(
                "jobs",
                "5: 3 succeeded, 2 pending, 2 failed, 0 of them lost".to_owned()
            ))
        );
    }
}
