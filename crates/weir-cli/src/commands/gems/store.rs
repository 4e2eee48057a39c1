//! The store, for commands that open it themselves.

use std::io;
use std::os::unix::fs::MetadataExt;

use anyhow::{Context, bail};
use prometheus_client::registry::Registry;
use weir_base::clock::Clock;
use weir_gems::store::{GemStore, PostgresMetrics, PostgresStore, SqliteSettings, SqliteStore};

use crate::data_dir::{self, lock};
use crate::target::SettingsArguments;
use weir_config::{Settings, StoreKind};

/// Returns the settings, or an error if gems are not enabled.
pub(super) fn settings(arguments: &SettingsArguments) -> anyhow::Result<Settings> {
    let settings = data_dir::settings(arguments)?;
    // With --data-dir the settings file is not read.
    if arguments.data_dir.is_none() && !settings.gems.is_enabled {
        bail!(
            "gems are not enabled: add a table [gems] to weir.toml, or name a data_dir with --data-dir"
        );
    }
    Ok(settings)
}

/// Opens the store, which must exist.
pub(super) async fn open_existing(settings: &Settings, clock: &Clock) -> anyhow::Result<GemStore> {
    let path = &settings.gems.sqlite.path;
    if settings.gems.store == StoreKind::Sqlite {
        match std::fs::metadata(path) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(
                "there is no gem index at {}; name its data_dir with --data-dir or --config",
                path.display()
            ),
            Err(error) => bail!(
                "cannot access {}: {error}; run the command as the user that runs Weir",
                path.display()
            ),
        }
    }
    open(settings, clock).await
}

/// Opens or creates the store, so that the user that runs Weir can use it.
pub(super) async fn open(settings: &Settings, clock: &Clock) -> anyhow::Result<GemStore> {
    match settings.gems.store {
        StoreKind::Sqlite => open_file(settings, clock).map(GemStore::from),
        StoreKind::Postgres => {
            let postgres = &settings.gems.postgres.settings;
            // Unused: a command ends before a scrape.
            let metrics = PostgresMetrics::register(&mut Registry::default());
            let store = PostgresStore::open(postgres, clock.clone(), metrics)?;
            store.prepare().await.context("cannot use the database at gems.postgres.url")?;
            Ok(GemStore::from(store))
        }
    }
}

/// Rejects another user than the owner of data_dir: files created there must belong to the user
/// that runs Weir.
pub(super) fn reject_other_user(settings: &Settings) -> anyhow::Result<()> {
    let folder = &settings.data_dir;
    let owner = std::fs::metadata(folder)?.uid();
    if owner != rustix::process::geteuid().as_raw() {
        bail!(
            "{} belongs to the user {owner}, who could not use files created by this user; run the command as {owner}",
            folder.display()
        );
    }
    Ok(())
}

fn open_file(settings: &Settings, clock: &Clock) -> anyhow::Result<SqliteStore> {
    let path = &settings.gems.sqlite.path;
    lock::make_folder(&settings.data_dir)?;
    if !path.is_file() {
        reject_other_user(settings)?;
    }
    // The file is not mapped: reading all of it should not count as memory of this process, and if the disk fails to
    // read, `verify` must say so and not die of a signal.
    let sqlite = SqliteSettings { mapped_bytes: 0, ..settings.gems.sqlite.clone() };
    SqliteStore::open(&sqlite, clock.now())
        .with_context(|| format!("cannot open {}", path.display()))
}
