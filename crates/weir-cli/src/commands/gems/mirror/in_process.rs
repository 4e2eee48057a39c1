//! Synchronization by this process, directly into the store.

use std::sync::Arc;

use anyhow::Context;
use prometheus_client::registry::Registry;
use weir_base::clock::Clock;
use weir_gems::mirror::progress::{Progress, SyncProgress};
use weir_gems::mirror::{MirrorParts, Scope};
use weir_gems::view::ProgressView;
use weir_gems::{Files, MirrorMetrics};

use super::arguments::{KnownUpstream, SyncArguments};
use super::bar::Bars;
use super::{policy, report, store};
use crate::exit::Exit;
use crate::output;
use weir_config::Settings;
use weir_gems::mirror::Mirror;

pub(super) async fn synchronize(
    arguments: &SyncArguments,
    settings: &Settings,
    known_upstream: KnownUpstream,
) -> anyhow::Result<Exit> {
    let mirror = open(arguments, settings, known_upstream).await?;
    let bars = Bars::new()?;
    let draw = |at: SyncProgress| bars.draw(&at.upstream, &ProgressView::of(&at));
    let scope = if arguments.everything { Scope::Everything } else { Scope::Changes };
    let looked = tokio::select! {
        looked = mirror.sync_once(scope, Progress(&draw)) => looked,
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
    for (upstream, looked) in view.upstreams.iter_mut().zip(looked) {
        upstream.last_error = looked.err().map(|error| error.problem.to_string());
    }
    let exit = report::print(&view, arguments.json)?;
    if known_upstream == KnownUpstream::No && exit == Exit::Fine {
        suggest_schedule(settings);
    }
    Ok(exit)
}

async fn open(
    arguments: &SyncArguments,
    settings: &Settings,
    known_upstream: KnownUpstream,
) -> anyhow::Result<Arc<Mirror>> {
    let clock = Clock::system();
    let folder = settings.gems.files_dir();
    let store = store::open(settings, &clock).await?;
    let policy = policy::select_policy(arguments, settings, known_upstream, &store).await?;
    let mirror = Mirror::new(MirrorParts {
        store: Arc::new(store),
        files: Files::open(&folder).with_context(|| format!("cannot use {}", folder.display()))?,
        settings: settings.gems.mirror.settings.clone(),
        policy,
        package: settings.gems.settings.limits.package.clone(),
        clock,
        // Unused: a command ends before a scrape.
        metrics: MirrorMetrics::register(&mut Registry::default()),
    })?;
    mirror.prepare().await?;
    Ok(mirror)
}

/// Suggests how to keep the mirror up to date.
fn suggest_schedule(settings: &Settings) {
    let Some(upstream) = settings.gems.mirror.settings.upstreams.first() else { return };
    output::note(&format!(
        "To keep the mirror up to date and to fetch .gem files on demand, add to weir.toml:\n\
         [[gems.mirror.upstreams]]\nname = \"{}\"\nurl = \"{}\"",
        upstream.name, upstream.url
    ));
}
