//! The folder that commands and services share: where it is, the settings of what is in it, and its
//! locks.

pub mod lock;
pub mod turn;

use std::path::PathBuf;

use anyhow::Context;
use weir_config::{Settings, Source, environment};

use crate::target::SettingsArguments;

/// The folder in which the other commands find the running Weir. Nothing else of the settings file
/// matters to them, so it may have mistakes; with `--data-dir` it may be absent.
pub(crate) fn find(flags: &SettingsArguments) -> anyhow::Result<PathBuf> {
    if let Some(data_dir) = &flags.data_dir {
        return Ok(data_dir.clone());
    }
    let source = Source::find(flags.config.as_deref(), None)?;
    weir_config::data_dir(&source, &environment::variable)
        .context("data_dir can't be read; name it with --data-dir")
}

/// The settings by which commands find a store that they open themselves. With `--data-dir` the
/// settings file has no say, so it may be broken or absent.
pub(crate) fn settings(flags: &SettingsArguments) -> anyhow::Result<Settings> {
    if let Some(data_dir) = &flags.data_dir {
        return Ok(Settings::in_data_dir(data_dir));
    }
    settings_of_both(flags)
}

/// The same, where the settings file has its say beside `--data-dir`, too.
pub(crate) fn settings_of_both(flags: &SettingsArguments) -> anyhow::Result<Settings> {
    let source = Source::find(flags.config.as_deref(), flags.data_dir.as_deref())?;
    Ok(weir_config::parse_without_secrets(&source, &environment::variable)?.settings)
}
