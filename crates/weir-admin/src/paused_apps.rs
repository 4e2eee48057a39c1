//! Apps that operators have paused or put in maintenance, kept across restarts.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use weir_base::kept;
use weir_front::Apps;

/// The apps with their file. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PausedApps(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    apps: Arc<Apps>,
    path: PathBuf,
    /// Held during a write, so that writes are in order.
    writing: Mutex<()>,
}

/// The content of the file: names of apps.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Stored {
    paused: Vec<String>,
    in_maintenance: Vec<String>,
}

impl PausedApps {
    /// Stores the state in the file at `path`.
    pub fn new(apps: Arc<Apps>, path: PathBuf) -> Self {
        Self(Arc::new(Inner { apps, path, writing: Mutex::default() }))
    }

    /// Restores the state in the file. An unreadable file is logged. Blocks on the disk.
    pub fn restore(&self) {
        let Inner { apps, path, .. } = &*self.0;
        let stored: Stored = kept::read(path).unwrap_or_else(|error| {
            tracing::error!(
                path = %path.display(), %error,
                "cannot read which apps are paused or in maintenance, so none is; correct or remove the file"
            );
            Stored::default()
        });
        for app in apps.view() {
            let name = &app.name;
            let (is_paused, is_in_maintenance) =
                (stored.paused.contains(name), stored.in_maintenance.contains(name));
            if is_paused == app.is_paused && is_in_maintenance == app.is_in_maintenance {
                continue;
            }
            tracing::warn!(
                app = name,
                is_paused,
                is_in_maintenance,
                "restored the state from before the restart"
            );
            // It exists.
            let _ = if is_paused { apps.pause(name) } else { apps.resume(name) };
            let _ = apps.set_maintenance(name, is_in_maintenance);
        }
    }

    /// Writes the current state. Blocks on the disk.
    pub fn save(&self) -> io::Result<()> {
        let Inner { apps, path, writing } = &*self.0;
        let _writing = writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stored = Stored::default();
        for app in apps.view() {
            if app.is_paused {
                stored.paused.push(app.name.clone());
            }
            if app.is_in_maintenance {
                stored.in_maintenance.push(app.name);
            }
        }
        kept::write(path, &stored)
    }

    pub fn path(&self) -> &Path {
        &self.0.path
    }
}
