//! `weir restart`, `weir upgrade`: makes a running Weir replace itself, and reports the outcome.

use std::time::Duration;

use anyhow::bail;
use clap::Args;
use serde::Serialize;
use serde::de::IgnoredAny;
use weir_base::clock::Clock;

use crate::admin_client::{self, AdminClient};
use crate::exit::Exit;
use crate::output;
use crate::target::Target;
use weir_admin::status::Status;

/// Interval of checks whether the new process serves everything.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The previous process may finish requests for as long as shutdown_deadline allows (an hour at
/// most) before the new one responds to commands.
const RESTART_TIMEOUT: Duration = Duration::from_secs(65 * 60);

/// `weir restart`, `weir upgrade`.
#[derive(Debug, Args)]
pub(crate) struct RestartArguments {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The outcome.
#[derive(Debug, Serialize)]
struct RestartResult {
    old_pid: u32,
    new_pid: u32,
    old_version: String,
    new_version: String,
    seconds: f64,
}

pub(crate) fn run(arguments: &RestartArguments, path: &str) -> anyhow::Result<Exit> {
    admin_client::block_on(async {
        let result = restart(&arguments.target, path).await?;
        if arguments.json {
            output::json(&result)?;
        } else {
            let RestartResult { old_pid, new_pid, new_version, seconds, .. } = result;
            output::line(&format!(
                "replaced service process {old_pid} by {new_pid} (weir {new_version}) after {seconds:.1} s"
            ));
        }
        Ok(Exit::Fine)
    })
}

async fn restart(target: &Target, path: &str) -> anyhow::Result<RestartResult> {
    let clock = Clock::system();
    let began = clock.now();
    let old = status(target).await?;
    let mut client = AdminClient::connect(target).await?;
    let _: IgnoredAny = client.post(path, &serde_json::json!({})).await?;
    loop {
        // During the handover there may be no response.
        if let Ok(new) = status(target).await
            && new.pid != old.pid
        {
            return Ok(RestartResult {
                old_pid: old.pid,
                new_pid: new.pid,
                old_version: old.version,
                new_version: new.version,
                seconds: clock.now().since(began).as_secs_f64(),
            });
        }
        if clock.now().since(began) > RESTART_TIMEOUT {
            bail!("the new process has taken over but does not respond; see the log");
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn status(target: &Target) -> anyhow::Result<Status> {
    AdminClient::connect(target).await?.get("/v1/status").await
}
