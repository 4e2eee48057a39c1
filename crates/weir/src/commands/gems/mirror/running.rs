//! A look by the running Weir, which mirrors already.

use std::time::Duration;

use anyhow::bail;
use weir_gems::view::MirrorView;

use super::bar::Bar;
use super::{LookArguments, report};
use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::gems_admin::{Asked, Look};

pub(super) const PATH: &str = "/v1/gems/mirror";
/// How often is asked how far it is.
const INTERVAL: Duration = Duration::from_millis(200);

pub(super) async fn look(
    arguments: &LookArguments,
    mut client: AdminClient,
) -> anyhow::Result<Exit> {
    if arguments.files {
        bail!(
            "the running Weir mirrors, and fetches files as gems.mirror.files says: set it to \"eagerly\", or stop Weir for --files"
        );
    }
    if arguments.policy.is_some() {
        bail!("the running Weir mirrors by its own policy, gems.mirror.policy; leave --policy out");
    }
    let before: MirrorView = client.get(PATH).await?;
    reject_unknown(arguments, &before)?;
    let wanted = Look { everything: arguments.everything };
    let Asked { round } = client.post(&format!("{PATH}/sync"), &wanted).await?;
    let bar = Bar::new()?;
    loop {
        let view: MirrorView = client.get(PATH).await?;
        if view.started_at.to_bits() != before.started_at.to_bits() {
            bail!("Weir was restarted meanwhile; run this again");
        }
        if view.rounds_done >= round {
            bar.end();
            return report::print(&view, arguments.json);
        }
        let mut busy = view.upstreams.iter();
        if let Some((upstream, at)) = busy.find_map(|it| Some((&it.name, it.progress.as_ref()?))) {
            bar.draw(upstream, at);
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

fn reject_unknown(arguments: &LookArguments, view: &MirrorView) -> anyhow::Result<()> {
    let Some(url) = arguments.upstream.as_ref().map(ToString::to_string) else { return Ok(()) };
    match view.upstreams.iter().any(|upstream| upstream.url == url) {
        true => Ok(()),
        false => bail!(
            "a Weir with this data_dir mirrors other upstreams: add {url} to gems.mirror.upstreams and run weir restart"
        ),
    }
}
