//! The gem index in the service process.

mod mirror;
mod webhooks;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use arc_swap::ArcSwap;
use prometheus_client::registry::Registry;
use weir_base::clock::Clock;
use weir_base::switch::Switches;
use weir_base::switchboard::Switchboard;
use weir_gems::settings::GemsSettings;
use weir_gems::store::{GemStore, PostgresMetrics, PostgresStore, SqliteStore};
use weir_gems::webhooks::WebhookMetrics;
use weir_gems::{Files, GemsMetrics, GemsParts};

use self::mirror::Mirroring;
use self::webhooks::Webhooks;
use crate::gems::GemsMounts;
use weir_admin::gems::OperatedGems;
use weir_config::{Settings, StoreKind};

/// The gem index and its tasks.
#[derive(Debug)]
pub(super) struct Gems {
    index: Arc<weir_gems::Gems>,
    settings: Arc<ArcSwap<GemsSettings>>,
    switches: Switchboard,
    mount: Option<Arc<str>>,
    webhooks: Webhooks,
    /// None: it has no upstreams.
    mirror: Option<Mirroring>,
}

impl Gems {
    /// Opens the store and the folder of files. Other processes may have them open, too.
    pub(super) async fn open(
        settings: &Settings,
        clock: &Clock,
        registry: &mut Registry,
    ) -> anyhow::Result<Self> {
        let weir_config::Gems { settings: current, webhooks, .. } = &settings.gems;
        let (store, files) = open(&settings.gems, clock, registry).await?;
        store.register_metrics(registry);
        let webhooks = Webhooks::new(
            store.clone(),
            webhooks.clone(),
            clock.clone(),
            WebhookMetrics::register(registry),
        );
        let disabled = Arc::<Switches>::default();
        let switches_file = settings.gems.switches_file();
        let switches = Switchboard::open(Arc::clone(&disabled), clock.clone(), switches_file);
        let current = Arc::new(ArcSwap::from_pointee(current.clone()));
        let index = weir_gems::Gems::new(GemsParts {
            store,
            files: files.clone(),
            settings: Arc::clone(&current),
            clock: clock.clone(),
            metrics: GemsMetrics::register(registry),
            switches: disabled,
        });
        let mirror = Mirroring::open(settings, &index, files, clock, registry).await?;
        let mount = settings.gems.mount().map(Arc::from);
        Ok(Self { index, settings: current, switches, mount, webhooks, mirror })
    }

    /// Returns the paths of the index on its own listener and on the front's.
    pub(super) fn mounts(&self, own_listener: Option<usize>, front: Option<usize>) -> GemsMounts {
        let mounted = front.zip(self.mount.clone());
        GemsMounts { index: Arc::clone(&self.index), own_listener, mounted }
    }

    /// Returns the handles for the admin API and the console.
    pub(super) fn admin_handles(&self) -> OperatedGems {
        OperatedGems { index: Arc::clone(&self.index), switches: self.switches.clone() }
    }

    /// Applies new settings; returns the setting that needs a restart, if any.
    pub(super) fn reload(&self, settings: &Settings) -> Option<String> {
        self.settings.store(Arc::new(settings.gems.settings.clone()));
        self.webhooks.reload(settings.gems.webhooks.clone());
        match &self.mirror {
            Some(mirror) => mirror.reload(settings),
            None => settings.gems.mirror.is_enabled.then(|| "gems.mirror".to_owned()),
        }
    }

    /// Starts sending webhooks and synchronizing with upstreams.
    pub(super) fn start(&mut self, data_dir: &Path) -> anyhow::Result<()> {
        self.webhooks.start();
        match &mut self.mirror {
            Some(mirror) => mirror.start(data_dir),
            None => Ok(()),
        }
    }

    /// Resolves when one of its tasks has ended by itself.
    pub(super) async fn ended(&self) -> String {
        match &self.mirror {
            Some(mirror) => mirror.ended().await,
            None => std::future::pending().await,
        }
    }

    /// Stops webhooks and the mirror, and waits at most `time_left` for what is in progress. The
    /// next process continues with the rest.
    pub(super) async fn finish(self, time_left: Duration) {
        let mirror = async {
            if let Some(mirror) = self.mirror {
                mirror.finish(time_left).await;
            }
        };
        tokio::join!(self.webhooks.finish(time_left), mirror);
    }
}

/// Opens the store without blocking the runtime on the disk. Does not wait for Postgres, which may
/// become available later.
async fn open(
    gems: &weir_config::Gems,
    clock: &Clock,
    registry: &mut Registry,
) -> anyhow::Result<(GemStore, Files)> {
    let (gems, clock) = (gems.clone(), clock.clone());
    let metrics = match gems.store {
        StoreKind::Sqlite => None,
        StoreKind::Postgres => Some(PostgresMetrics::register(registry)),
    };
    let opening = tokio::task::spawn_blocking(move || {
        let store = match metrics {
            None => GemStore::from(SqliteStore::open(&gems.sqlite, clock.now())?),
            Some(metrics) => {
                // Switches are stored there, too.
                make_folder(&gems.folder)?;
                let settings = &gems.postgres.settings;
                GemStore::from(PostgresStore::open(settings, clock, metrics)?)
            }
        };
        Ok((store, open_files(&gems.files_dir())?))
    });
    opening.await.context("the gems' store panicked while it was opened")?
}

fn make_folder(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make {}; make data_dir writable", folder.display()))
}

fn open_files(folder: &Path) -> anyhow::Result<Files> {
    Files::open(folder).with_context(|| {
        format!("gems.files_dir: {} can't be used; make it writable", folder.display())
    })
}
