//! `weir jobs push`.

use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use weir_jobs::view::Pushed;

use super::reschedule::due_time;
use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::target::Target;
use weir_config::units;

/// `weir jobs push`.
#[derive(Debug, Args)]
pub(crate) struct JobsPushArgs {
    #[command(flatten)]
    target: Target,
    /// Type of the job, which selects the code that runs it
    jobtype: String,
    /// Arguments of the job: a JSON array
    #[arg(default_value = "[]", value_name = "JSON")]
    args: String,
    /// Queue of the job
    #[arg(long, default_value = "default")]
    queue: String,
    /// Id of the job [default: a random one]
    #[arg(long)]
    jid: Option<String>,
    /// Run it after this long, for example 5m
    #[arg(long = "in", value_name = "DURATION", value_parser = units::parse_duration)]
    after: Option<Duration>,
    /// Number of retries; 0: none, -1: a failed job moves to the dead set at once
    #[arg(long, allow_negative_numbers = true)]
    retry: Option<i32>,
    /// Seconds until the job's reservation expires
    #[arg(long, value_name = "SECONDS")]
    reserve_for: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &JobsPushArgs) -> anyhow::Result<Exit> {
    let jid = arguments.jid.clone().unwrap_or_else(random_jid);
    let job = job(arguments, &jid)?;
    let mut client = AdminClient::connect(&arguments.target).await?;
    let pushed: Pushed = client.post_lines("/v1/jobs/push", job).await?;
    if let Some(rejected) = pushed.rejected.first() {
        bail!("not pushed: {}", rejected.error);
    }
    if arguments.json {
        output::json(&json!({ "jid": jid }))?;
    } else {
        output::line(&jid);
    }
    Ok(Exit::Fine)
}

/// The job as a client would write it; the arguments keep every digit.
#[derive(Serialize)]
struct Job<'a> {
    jid: &'a str,
    jobtype: &'a str,
    queue: &'a str,
    args: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reserve_for: Option<u32>,
}

fn job(arguments: &JobsPushArgs, jid: &str) -> anyhow::Result<Vec<u8>> {
    let how = "write the arguments as a JSON array, for example '[1, \"two\"]'";
    let args: &RawValue = serde_json::from_str(&arguments.args).context(how)?;
    if !args.get().starts_with('[') {
        bail!("{how}");
    }
    let JobsPushArgs { jobtype, queue, retry, reserve_for, .. } = arguments;
    let at = arguments.after.map(due_time).transpose()?;
    let (retry, reserve_for) = (*retry, *reserve_for);
    Ok(serde_json::to_vec(&Job { jid, jobtype, queue, args, at, retry, reserve_for })?)
}

/// Returns 24 random hex digits: 96 bits, so no two jobs get the same.
fn random_jid() -> String {
    format!("{:08x}{:016x}", fastrand::u32(..), fastrand::u64(..))
}
