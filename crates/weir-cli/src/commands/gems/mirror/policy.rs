//! The namespace policy for a synchronization by this process: that of the index. Without it, an
//! upstream could provide names that are private.

use std::path::Path;

use anyhow::{Context, anyhow, bail};
use weir_gems::mirror::policy::Policy;
use weir_gems::store::GemStore;

use super::arguments::{KnownUpstream, SyncArguments};
use super::store;
use crate::target::SettingsArguments;
use crate::{data_dir, output};
use weir_config::{Settings, read_policy_file};

/// Limit of names in an error.
const NAMES_MAX: usize = 3;

/// Returns the settings of the index. Unlike other commands, this one also reads the settings file
/// beside `--data-dir` if it is of the same index, since it may have a policy.
pub(super) fn settings(arguments: &SettingsArguments) -> anyhow::Result<Settings> {
    let Some(data_dir) = &arguments.data_dir else { return store::settings(arguments) };
    if arguments.config.is_some() {
        return data_dir::settings_from_file(arguments);
    }
    let found = data_dir::settings_from_file(&SettingsArguments::default()).with_context(|| {
        format!(
            "the settings file in this folder has errors, and may contain the policy of {}; correct it, or run the command in another folder",
            data_dir.display()
        )
    })?;
    match is_same(&found.data_dir, data_dir) {
        true if found.gems.is_enabled => Ok(found),
        _ => Ok(Settings::in_data_dir(data_dir)),
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    let absolute = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
    absolute(one).is_some_and(|one| absolute(other) == Some(one))
}

/// Returns the policy. Upstreams in the settings use the policy in the settings; others use the
/// given policy, or the last one of this index.
pub(super) async fn select_policy(
    arguments: &SyncArguments,
    settings: &Settings,
    known_upstream: KnownUpstream,
    store: &GemStore,
) -> anyhow::Result<Policy> {
    if known_upstream == KnownUpstream::Yes {
        return Ok(settings.gems.mirror.policy.clone());
    }
    if let Some(path) = &arguments.policy {
        return read_policy_file(path)
            .map_err(|problem| anyhow!("--policy {}: {problem}", path.display()));
    }
    if let Some(rules) = store.policy().await? {
        output::note(
            "using the policy that was last used for this index; --policy FILE selects another",
        );
        return rules.parse().context("the policy stored in this index");
    }
    let mut local_names = store.local_names(NAMES_MAX + 1).await?;
    if local_names.is_empty() {
        return Ok(Policy::default());
    }
    if local_names.len() > NAMES_MAX {
        local_names[NAMES_MAX] = "..".to_owned();
    }
    bail!(
        "the index has gems of your own ({}), but no policy that says which names never come from an upstream. Write a policy and name it with --policy FILE, for example with the line `private acme-*`, or with the line `none` if all other names may come from upstreams",
        local_names.join(", ")
    )
}
