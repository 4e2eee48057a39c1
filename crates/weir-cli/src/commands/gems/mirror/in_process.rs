//! Synchronization by this process, directly into the store.

use std::sync::Arc;

use anyhow::Context;
use prometheus_client::registry::Registry;
use weir_base::clock::Clock;
use weir_gems::mirror::progress::{Progress, SyncProgress};
use weir_gems::mirror::{MirrorParts, Scope};
use weir_gems::view::ProgressView;
use weir_gems::{Files, MirrorMetrics};

use super::arguments::SyncArguments;
use super::bar::Bars;
use super::{report, store};
use crate::exit::Exit;
use crate::output;
use weir_config::Settings;
use weir_gems::mirror::Mirror;

pub(super) async fn synchronize(
    arguments: &SyncArguments,
    settings: &Settings,
) -> anyhow::Result<Exit> {
    let mirror = open(settings).await?;
    let bars = Bars::new()?;
    let draw = |at: SyncProgress| bars.draw(&at.upstream, &ProgressView::of(&at));
    let scope = if arguments.everything { Scope::Everything } else { Scope::Changes };
    let results = tokio::select! {
        results = mirror.sync_once(scope, Progress(&draw)) => results,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            bars.clear();
            output::note("interrupted; the index is consistent. Run the same command again to continue");
            return Ok(Exit::Failed);
        }
    };
    bars.clear();
    let mut view = mirror.view().await?;
    // If only files failed, the index was synchronized.
    for (upstream, result) in view.upstreams.iter_mut().zip(results) {
        upstream.last_error = result.err().map(|error| error.problem.to_string());
    }
    report::print(&view, arguments.json)
}

async fn open(settings: &Settings) -> anyhow::Result<Arc<Mirror>> {
    let clock = Clock::system();
    let folder = settings.gems.files_dir();
    let store = store::open(settings, &clock).await?;
    let mirror = Mirror::new(MirrorParts {
        store: Arc::new(store),
        files: Files::open(&folder).with_context(|| format!("cannot use {}", folder.display()))?,
        settings: settings.gems.mirror.settings.clone(),
        policy: settings.gems.mirror.policy.clone(),
        package: settings.gems.settings.limits.package.clone(),
        clock,
        // Unused: a command ends before a scrape.
        metrics: MirrorMetrics::register(&mut Registry::default()),
    })?;
    mirror.prepare().await?;
    Ok(mirror)
}
