//! The index of gems, as a part of the whole.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use arc_swap::ArcSwap;
use prometheus_client::registry::Registry;
use weir_base::clock::Clock;
use weir_base::switch::Switches;
use weir_base::switchboard::Switchboard;
use weir_gems::settings::GemsSettings;
use weir_gems::store::{SqliteSettings, SqliteStore};
use weir_gems::{Files, GemsMetrics, GemsParts};

use crate::config::{self, Settings};
use crate::gems::{GemsPlaces, Index, Operated};

/// The index, for cores to serve.
#[derive(Debug)]
pub(super) struct Gems {
    index: Arc<Index>,
    settings: Arc<ArcSwap<GemsSettings>>,
    switches: Switchboard,
    mount: Option<Arc<str>>,
}

impl Gems {
    /// Opens the store and the folder of files. Other processes may have them open, too.
    pub(super) async fn open(
        settings: &Settings,
        clock: &Clock,
        registry: &mut Registry,
    ) -> anyhow::Result<Self> {
        let config::Gems { sqlite, settings: in_force, .. } = &settings.gems;
        let (store, files) = open(sqlite.clone(), settings.gems.files_dir(), clock.clone()).await?;
        let off = Arc::<Switches>::default();
        let switches_file = settings.gems.switches_file();
        let switches = Switchboard::open(Arc::clone(&off), clock.clone(), switches_file);
        let in_force = Arc::new(ArcSwap::from_pointee(in_force.clone()));
        let index = Index::new(GemsParts {
            store,
            files,
            settings: Arc::clone(&in_force),
            clock: clock.clone(),
            metrics: GemsMetrics::register(registry),
            switches: off,
        });
        let mount = settings.gems.mount().map(Arc::from);
        Ok(Self { index, settings: in_force, switches, mount })
    }

    /// Where it is, of these listeners.
    pub(super) fn places(&self, own: Option<usize>, front: Option<usize>) -> GemsPlaces {
        let mounted = front.zip(self.mount.clone());
        GemsPlaces { index: Arc::clone(&self.index), own, mounted }
    }

    /// What operators see and do.
    pub(super) fn for_operators(&self) -> Operated {
        Operated { index: Arc::clone(&self.index), switches: self.switches.clone() }
    }

    /// Puts new settings in force.
    pub(super) fn reload(&self, settings: &Settings) {
        self.settings.store(Arc::new(settings.gems.settings.clone()));
    }
}

/// Waits for the disk where it holds up nobody.
async fn open(
    sqlite: SqliteSettings,
    files: PathBuf,
    clock: Clock,
) -> anyhow::Result<(SqliteStore, Files)> {
    let opening = tokio::task::spawn_blocking(move || {
        let store = SqliteStore::open(&sqlite, clock.now())?;
        Ok((store, open_files(&files)?))
    });
    opening.await.context("the gems' store panicked while it was opened")?
}

fn open_files(folder: &Path) -> anyhow::Result<Files> {
    Files::open(folder).with_context(|| {
        format!("gems.files_dir: {} can't be used; make it writable", folder.display())
    })
}
