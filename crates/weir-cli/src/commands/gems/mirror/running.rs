//! Synchronization by the running Weir, which mirrors already.

use std::time::Duration;

use anyhow::bail;
use weir_gems::view::{MirrorView, UpstreamView};

use super::arguments::SyncArguments;
use super::bar::Bars;
use super::report;
use crate::admin_client::AdminClient;
use crate::exit::Exit;
use weir_admin::gems::{SyncRequest, SyncStarted};

pub(super) const PATH: &str = "/v1/gems/mirror";
/// Interval of progress queries.
const INTERVAL: Duration = Duration::from_millis(200);

pub(super) async fn synchronize(
    arguments: &SyncArguments,
    mut client: AdminClient,
) -> anyhow::Result<Exit> {
    if arguments.files {
        bail!(
            "--files cannot be used while Weir mirrors: set gems.mirror.files to \"eagerly\", or stop Weir first"
        );
    }
    let before: MirrorView = client.get(PATH).await?;
    reject_unknown(arguments, &before)?;
    let request = SyncRequest { everything: arguments.everything };
    let bars = Bars::new()?;
    let mut view = synchronize_once(&mut client, &request, &bars).await?;
    if has_names_to_retry(&view) {
        let request = SyncRequest { everything: false };
        view = with_earlier_results(synchronize_once(&mut client, &request, &bars).await?, view);
    }
    bars.clear();
    report::print(&view, arguments.json)
}

/// Returns whether names wait for upstreams that have responded meanwhile.
fn has_names_to_retry(view: &MirrorView) -> bool {
    let is_waiting = |it: &UpstreamView| it.last_result.as_ref().is_some_and(|it| it.waiting > 0);
    let first = view.upstreams.iter().position(is_waiting).unwrap_or_default();
    view.upstreams[..first].iter().all(|it| it.last_error.is_none()) && first > 0
}

/// Keeps the earlier result of upstreams without waiting names.
fn with_earlier_results(mut view: MirrorView, before: MirrorView) -> MirrorView {
    for (upstream, before) in view.upstreams.iter_mut().zip(before.upstreams) {
        if before.last_result.as_ref().is_some_and(|it| it.waiting == 0) {
            *upstream = before;
        }
    }
    view
}

/// Synchronizes with all upstreams, and shows progress bars.
async fn synchronize_once(
    client: &mut AdminClient,
    request: &SyncRequest,
    bars: &Bars,
) -> anyhow::Result<MirrorView> {
    let before: MirrorView = client.get(PATH).await?;
    let SyncStarted { round } = client.post(&format!("{PATH}/sync"), request).await?;
    loop {
        let view: MirrorView = client.get(PATH).await?;
        if view.started_at.to_bits() != before.started_at.to_bits() {
            bail!("Weir was restarted during the synchronization; run the command again");
        }
        if view.rounds_done >= round {
            return Ok(view);
        }
        for upstream in &view.upstreams {
            if let Some(at) = &upstream.progress {
                bars.draw(&upstream.name, at);
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

fn reject_unknown(arguments: &SyncArguments, view: &MirrorView) -> anyhow::Result<()> {
    let Some(url) = arguments.upstream.as_ref().map(ToString::to_string) else { return Ok(()) };
    match view.upstreams.iter().any(|upstream| upstream.url == url) {
        true => Ok(()),
        false => bail!(
            "the running Weir mirrors other upstreams: add {url} to gems.mirror.upstreams and run `weir restart`"
        ),
    }
}
