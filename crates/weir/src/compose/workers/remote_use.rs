//! The use of the same workers by several service processes. A replaced process continues its
//! streams and requests and reports them; the others count them against the workers' slots.

use std::io;

use weir_front::ExternalLoad;
use weir_supervisor::control::{ParentCommand, Used};

use super::Workers;

impl Workers {
    /// Records what another process uses of a worker.
    pub(super) fn record_remote_use(&mut self, generation: u64, used: Used) {
        let Used { requests, streams } = used;
        self.remote_use.insert(generation, ExternalLoad { requests, streams });
        if let Some(worker) = self.known.get(&generation) {
            let app = worker.app.clone();
            self.apply_remote_use(&app);
        }
    }

    /// Applies the recorded use to all workers of an app.
    pub(super) fn apply_remote_use(&self, app: &str) {
        for (generation, worker) in self.known.iter().filter(|(_, worker)| worker.app == app) {
            let remote_use = self.remote_use.get(generation).copied().unwrap_or_default();
            if let Some(address) = worker.address()
                && let Err(error) = self.apps.set_external_load(app, address, remote_use)
            {
                tracing::debug!(%error, "workers of an app that is not served here");
            }
        }
    }

    /// Reports what this process still uses, where that has changed.
    pub(super) async fn report_use(&mut self) -> io::Result<()> {
        for (generation, used) in self.own_use() {
            let previous = self.reported_use.insert(generation, used).unwrap_or_default();
            if previous != used {
                self.send_command(ParentCommand::Used { generation, used }).await?;
            }
        }
        Ok(())
    }

    fn own_use(&self) -> Vec<(u64, Used)> {
        let mut all = Vec::new();
        for app in self.processes.keys() {
            let app_use = self.apps.used(app);
            for (generation, worker) in self.known.iter().filter(|(_, it)| it.app == *app) {
                // A worker that was removed and added again is listed twice.
                let entries =
                    app_use.iter().filter(|(address, _)| Some(address) == worker.address());
                let used = entries.fold(Used::default(), |sum, (_, one)| Used {
                    requests: sum.requests + one.requests,
                    streams: sum.streams + one.streams,
                });
                all.push((generation.to_owned(), used));
            }
        }
        all
    }
}
