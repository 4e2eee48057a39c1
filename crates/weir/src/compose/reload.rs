//! Applying new settings at run time.

use weir_front::AppSettings;

use super::{Weir, gems_are_wanted};
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
        let mut kept = match &self.jobs {
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
                kept.push("realtime.apps".to_owned());
            }
            None => {}
        }
        kept.extend(self.gems.as_ref().and_then(|gems| gems.reload(settings)));
        if gems_are_wanted(settings, only) != self.gems.is_some() {
            kept.push("gems".to_owned());
        }
        kept.extend(self.reload_apps(settings));
        Ok(kept)
    }

    /// Reloads the apps. Workers of apps change at run time; a new app or other limits need a
    /// restart. The processes of an app that has some stay with it, regardless of the new settings.
    fn reload_apps(&self, settings: &Settings) -> Option<String> {
        let mut is_new = false;
        let has_none = |app: &&App| app.processes.is_none();
        let is_steered = |app: &&App| self.steered.contains(&app.settings.name);
        for app in settings.front.apps.iter().filter(|app| has_none(app) && !is_steered(app)) {
            let AppSettings { name, workers, .. } = &app.settings;
            is_new |= self.apps.set_workers(name, workers).is_err();
        }
        is_new.then(|| "front.apps".to_owned())
    }
}
