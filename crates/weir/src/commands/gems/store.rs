//! The store itself, for commands that do not ask the running Weir.

use std::os::unix::fs::MetadataExt;

use anyhow::{Context, bail};
use weir_base::clock::Timestamp;
use weir_gems::store::SqliteStore;

use crate::cli::SettingsArguments;
use crate::config::Settings;
use crate::parent;

/// The settings, where they are for gems.
pub(super) fn settings(arguments: &SettingsArguments) -> anyhow::Result<Settings> {
    let settings = parent::settings(arguments)?;
    // With --data-dir there is no file that could say so.
    if arguments.data_dir.is_none() && !settings.gems.is_enabled {
        bail!(
            "gems are not switched on: write a table [gems] into weir.toml, or name a data_dir with --data-dir"
        );
    }
    Ok(settings)
}

/// Opens it; it must be there.
pub(super) fn open_existing(settings: &Settings, now: Timestamp) -> anyhow::Result<SqliteStore> {
    let path = &settings.gems.sqlite.path;
    if !path.is_file() {
        bail!(
            "there are no gems at {}; name its data_dir with --data-dir or --config",
            path.display()
        );
    }
    open(settings, now)
}

/// Opens it, or makes it, where whoever runs Weir can use it.
pub(super) fn open(settings: &Settings, now: Timestamp) -> anyhow::Result<SqliteStore> {
    let path = &settings.gems.sqlite.path;
    let folder = &settings.data_dir;
    parent::make_folder(folder)?;
    let owner = std::fs::metadata(folder)?.uid();
    if !path.is_file() && owner != rustix::process::geteuid().as_raw() {
        bail!(
            "{} belongs to the user {owner}, who could not use what is made there now; run this as that user",
            folder.display()
        );
    }
    SqliteStore::open(&settings.gems.sqlite, now)
        .with_context(|| format!("cannot open {}", path.display()))
}
