//! Limits of apps' connections over all nodes: what the client of a shared log calls.

use std::sync::Arc;

use super::Hub;
use crate::shared_log::{ConnectionGrant, ConnectionUse};

impl Hub {
    /// Begins an exchange with the log: returns what this node uses of the limits of its apps, and gives back
    /// the rest. Apps without a limit are not included.
    #[must_use]
    pub fn begin_connection_exchange(&self) -> Vec<ConnectionUse> {
        let apps = self.apps();
        let limited = apps.iter().filter(|app| app.settings().connections_max < usize::MAX);
        let used = limited.map(|app| {
            let settings = app.settings();
            let id = Arc::clone(&settings.id);
            app.share.begin_exchange(id, settings.connections_max, || app.connections())
        });
        used.collect()
    }

    /// Applies what the log grants this node of an app's limit.
    pub fn grant_connections(&self, app: &str, grant: ConnectionGrant) {
        if let Some(app) = self.app_by_id(app) {
            app.share.grant(grant);
        }
    }

    /// Notes that there is no connection to the log: each limit holds for this node.
    pub fn end_connection_grants(&self) {
        for app in self.apps() {
            app.share.end();
        }
    }
}
