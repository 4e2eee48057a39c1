//! `weir gems mirror accept`: accepts a file that an upstream has replaced.

use clap::Args;
use weir_gems::view::{MirrorView, ReplacedView};

use super::running::PATH;
use crate::admin_client::AdminClient;
use crate::commands::confirm::confirm;
use crate::exit::Exit;
use crate::output;
use crate::target::Target;
use weir_admin::gems::Accept;

/// `weir gems mirror accept`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// The gem's name
    name: String,
    /// The version whose new file is accepted
    version: String,
    /// The version's platform
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
    let mut client = AdminClient::connect(target).await?;
    let question = question(&client.get(PATH).await?, arguments);
    if !confirm(&question, *yes)? {
        output::note("nothing changed");
        return Ok(Exit::Failed);
    }
    let accept =
        Accept { name: name.clone(), number: version.clone(), platform: Some(platform.clone()) };
    let accepted: ReplacedView = client.post(&format!("{PATH}/accept"), &accept).await?;
    if *json {
        output::json(&accepted)?;
    } else {
        let sum = &accepted.offered_sha256;
        output::line(&format!(
            "{name} {version} ({platform}) with SHA-256 {sum} accepted; the mirror adds it now"
        ));
    }
    Ok(Exit::Fine)
}

/// Returns the question, with the digests to compare with the author's, if they are listed.
fn question(view: &MirrorView, arguments: &Arguments) -> String {
    let Arguments { name, version, platform, .. } = arguments;
    let all = view.upstreams.iter().flat_map(|upstream| &upstream.replaced_releases);
    let is_it =
        |it: &&ReplacedView| (&it.name, &it.number, &it.platform) == (name, version, platform);
    let digests = all.clone().find(is_it).map_or_else(String::new, |it| {
        format!("\n  first: {}\n  now:   {}\n", it.pinned_sha256, it.offered_sha256)
    });
    format!("Accept the new file of {name} {version} ({platform})?{digests}")
}
