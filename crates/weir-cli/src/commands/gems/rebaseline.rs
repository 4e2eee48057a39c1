//! `weir gems rebaseline`: rewrites `/versions` and `/names`.

use clap::Args;
use serde_json::json;

use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::target::Target;
use weir_admin::Done;

/// `weir gems rebaseline`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let done: Done = client.post("/v1/gems/rebaseline", &json!({})).await?;
    if arguments.json {
        output::json(&done)?;
    } else {
        output::line("/versions and /names were rewritten");
    }
    Ok(Exit::Fine)
}
