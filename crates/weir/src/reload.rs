//! SIGHUP: applies the settings that can change at run time, and logs the others.

use std::collections::BTreeSet;
use std::fs::File;

use tokio::signal::unix::Signal;

use crate::compose::Weir;
use crate::logging::Logging;
use crate::parent::Handover;
use weir_config::{Change, Loaded, environment};

/// What a reload needs.
#[derive(Debug)]
pub(crate) struct Reload {
    /// Receives the signal.
    pub(crate) hangup: Signal,
    /// The parent writes new settings to it before it sends the signal.
    pub(crate) settings_file: File,
    /// The settings in effect.
    pub(crate) loaded: Loaded,
    pub(crate) log: Logging,
}

impl Reload {
    /// Reads the settings again and applies them, and reopens the logs. An error changes no
    /// setting, but logs are reopened anyway, since log rotation waits for that. Returns false if
    /// the parent passed no new settings.
    pub(crate) async fn run(&mut self, weir: &Weir) -> bool {
        weir.reopen_logs();
        self.try_run(weir).await.unwrap_or_else(|error| {
            tracing::error!("reload failed: {error:#}");
            true
        })
    }

    async fn try_run(&mut self, weir: &Weir) -> anyhow::Result<bool> {
        let handover = Handover::receive(&mut self.settings_file)?;
        if handover.is_previous {
            tracing::info!("only the log files were reopened");
            return Ok(false);
        }
        let fresh = handover.load(&environment::variable)?;
        self.log.set_level(fresh.settings.log.level);
        let mut needing_restart: BTreeSet<String> =
            changed_for_restart(&self.loaded, &fresh).collect();
        // Settings that need a restart keep their old values, so that a later reload reports them
        // again; each part returns those that it kept.
        let timeout = self.loaded.settings.admin.request_timeout;
        let only = handover.only(&fresh.settings)?;
        let reloaded = weir.reload(&fresh.settings, &only);
        needing_restart.extend(tokio::time::timeout(timeout, reloaded).await??);
        for setting in &needing_restart {
            tracing::warn!(
                "{setting} changed: needs {}",
                required_change(setting, &fresh).command()
            );
        }
        let changed = changed_settings(&self.loaded, &fresh)
            .filter(|path| !needing_restart.contains(*path))
            .count();
        tracing::info!(changed, needing_restart = needing_restart.len(), "settings reloaded");
        self.store_applied(&fresh);
        Ok(true)
    }

    fn store_applied(&mut self, fresh: &Loaded) {
        let values = fresh.values.iter().map(|value| {
            let old = self.loaded.values.iter().find(|old| old.path == value.path);
            old.filter(|_| value.change() != Change::Reload).unwrap_or(value).clone()
        });
        self.loaded.values = values.collect();
    }
}

/// Returns what is needed to apply a change of a setting or of a whole table.
fn required_change(setting: &str, loaded: &Loaded) -> Change {
    match loaded.values.iter().find(|value| value.path == setting) {
        Some(value) => value.change(),
        None if matches!(setting, "realtime.apps" | "gems") => Change::Upgrade,
        None => Change::Restart,
    }
}

/// Returns the settings whose displayed values differ.
fn changed_settings<'a>(old: &'a Loaded, new: &'a Loaded) -> impl Iterator<Item = &'a str> {
    let shown = |loaded: &'a Loaded, path: &str| {
        loaded.values.iter().find(|value| value.path == path).map(|value| value.shown.as_str())
    };
    let paths: BTreeSet<&str> =
        old.values.iter().chain(&new.values).map(|value| value.path.as_str()).collect();
    paths.into_iter().filter(move |path| shown(old, path) != shown(new, path))
}

/// Returns the changed settings that need a restart. Secrets are not displayed, so they are
/// compared themselves.
fn changed_for_restart<'a>(old: &'a Loaded, new: &'a Loaded) -> impl Iterator<Item = String> {
    let (gems, gems_after) = (&old.settings.gems.postgres, &new.settings.gems.postgres);
    let secrets = [
        ("gems.postgres.url", gems.url != gems_after.url),
        ("observe", old.settings.observe.secrets() != new.settings.observe.secrets()),
        ("jobs.store", old.settings.jobs.redis_secrets() != new.settings.jobs.redis_secrets()),
        (
            "realtime.broker",
            old.settings.realtime.redis_secrets() != new.settings.realtime.redis_secrets(),
        ),
        ("gems.postgres.password", gems.settings.password != gems_after.settings.password),
    ];
    let secrets = secrets.into_iter().filter(|(_, differs)| *differs).map(|(path, _)| path);
    let needs_restart = move |path: &&str| {
        new.values
            .iter()
            .find(|value| value.path == *path)
            .is_some_and(|value| value.change() != Change::Reload)
    };
    changed_settings(old, new).filter(needs_restart).chain(secrets).map(str::to_owned)
}
