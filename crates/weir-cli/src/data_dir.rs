//! The data directory that commands and services share: its path, the settings of its content, and
//! its locks.

pub mod handover_lock;
pub mod lock;

use std::path::PathBuf;

use anyhow::Context;
use weir_config::{Settings, Source, environment};

pub use crate::backup::marker::check as check_restored;
use crate::target::SettingsArguments;

/// Returns the data directory of the running Weir, for commands that need no other setting. The
/// rest of the settings file may have errors; with `--data-dir` it may be absent.
pub(crate) fn find(flags: &SettingsArguments) -> anyhow::Result<PathBuf> {
    if let Some(data_dir) = &flags.data_dir {
        return Ok(data_dir.clone());
    }
    let source = Source::find(flags.config.as_deref(), None)?;
    weir_config::data_dir(&source, &environment::variable)
        .context("data_dir can't be read; name it with --data-dir")
}

/// Returns the settings for commands that open a store themselves. With `--data-dir` the settings
/// file is not read, so it may be invalid or absent.
pub(crate) fn settings(flags: &SettingsArguments) -> anyhow::Result<Settings> {
    if let Some(data_dir) = &flags.data_dir {
        return Ok(Settings::in_data_dir(data_dir));
    }
    settings_from_file(flags)
}

/// Returns the settings of the file even if `--data-dir` is given.
pub(crate) fn settings_from_file(flags: &SettingsArguments) -> anyhow::Result<Settings> {
    let source = Source::find(flags.config.as_deref(), flags.data_dir.as_deref())?;
    Ok(weir_config::parse_without_secrets(&source, &environment::variable)?.settings)
}
