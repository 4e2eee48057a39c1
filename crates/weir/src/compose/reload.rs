//! Applying new settings at run time.

use weir_front::AppSettings;

use super::{Weir, are_gems_enabled};
use weir_config::part::Part;
use weir_config::{App, Settings};

impl Weir {
    /// Reopens the log files, which may have been moved away.
    pub(crate) fn reopen_logs(&self) {
        if let Some(log) = &self.access_log {
            log.reopen();
        }
    }

    /// Applies new settings; returns those that need a restart. `only` are the enabled parts
    /// (empty: all).
    pub(crate) async fn reload(
        &self,
        settings: &Settings,
        only: &[Part],
    ) -> anyhow::Result<Vec<String>> {
        let mut needing_restart = match &self.jobs {
            Some(jobs) => jobs.reload(settings).await?,
            None => Vec::new(),
        };
        if let Some(cores) = &self.cores {
            cores.reload(settings)?;
        }
        self.stream_drain.set(settings.front.stream_drain);
        match &self.realtime {
            Some(realtime) => realtime.reload(settings),
            // Its sockets are bound when Weir starts.
            None if Part::Realtime.is_among(only) && settings.has_front() => {
                needing_restart.push("realtime.apps".to_owned());
            }
            None => {}
        }
        needing_restart.extend(self.gems.as_ref().and_then(|gems| gems.reload(settings)));
        if are_gems_enabled(settings, only) != self.gems.is_some() {
            needing_restart.push("gems".to_owned());
        }
        let accounts = self.accounts.as_ref();
        needing_restart.extend(accounts.and_then(|it| it.reload(&settings.console)));
        needing_restart.extend(self.reload_apps(settings));
        Ok(needing_restart)
    }

    /// Reloads the apps. Workers of apps change at run time; a new app or other limits need a
    /// restart. The processes of an app that has some stay with it, regardless of the new settings.
    fn reload_apps(&self, settings: &Settings) -> Option<String> {
        let mut is_new = false;
        let has_no_processes = |app: &&App| app.processes.is_none();
        let is_managed = |app: &&App| self.managed_apps.contains(&app.settings.name);
        for app in
            settings.front.apps.iter().filter(|app| has_no_processes(app) && !is_managed(app))
        {
            let AppSettings { name, workers, .. } = &app.settings;
            is_new |= self.apps.set_workers(name, workers).is_err();
        }
        is_new.then(|| "front.apps".to_owned())
    }
}
