//! `weir gems yank`: yanks a release without a key.

use clap::Args;

use crate::admin_client::AdminClient;
use crate::commands::confirm::confirm;
use crate::exit::Exit;
use crate::output;
use crate::target::Target;
use weir_admin::Done;
use weir_admin::gems::Yank;

/// `weir gems yank`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// The gem's name
    name: String,
    /// The release's version
    version: String,
    /// The release's platform
    #[arg(long, default_value = "ruby")]
    platform: String,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let Arguments { target, name, version, platform, yes, json } = arguments;
    let question = format!("Yank {name} {version} ({platform})? It can't be pushed again.");
    if !confirm(&question, *yes)? {
        output::note("nothing changed");
        return Ok(Exit::Failed);
    }
    let mut client = AdminClient::connect(target).await?;
    let yank =
        Yank { name: name.clone(), number: version.clone(), platform: Some(platform.clone()) };
    let done: Done = client.post("/v1/gems/yank", &yank).await?;
    if *json {
        output::json(&done)?;
    } else {
        output::line(&format!("{name} {version} ({platform}) yanked"));
    }
    Ok(Exit::Fine)
}
