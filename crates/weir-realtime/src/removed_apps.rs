//! Apps that a reload removed, until the shared log has no subscriptions of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::app::App;

/// Apps that are remembered. Subscriptions of earlier ones stay in the log until this node ends.
const APPS_MAX: usize = 64;

/// The removed apps, the oldest first. A lock of std: held to copy the list, never across an await.
#[derive(Debug, Default)]
pub(crate) struct RemovedApps(Mutex<Vec<Arc<App>>>);

impl RemovedApps {
    /// Adds an app.
    pub(crate) fn add(&self, app: &Arc<App>) {
        let mut apps = self.lock();
        if apps.len() >= APPS_MAX {
            apps.remove(0);
        }
        apps.push(Arc::clone(app));
    }

    /// Returns all of them.
    pub(crate) fn all(&self) -> Vec<Arc<App>> {
        self.lock().clone()
    }

    /// Forgets those without connections and channels, and without users that the log still has.
    pub(crate) fn forget_unused(&self) {
        let is_used = |app: &App| {
            app.connections() > 0 || app.channels.len() > 0 || !app.directory.is_all_sent()
        };
        self.lock().retain(|app| is_used(app));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<App>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
