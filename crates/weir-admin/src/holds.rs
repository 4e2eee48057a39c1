//! What an operator has held up, over a restart too: apps that are paused or in maintenance.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use weir_base::kept;
use weir_front::Apps;

/// The apps with the file. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Holds(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    apps: Arc<Apps>,
    path: PathBuf,
    /// Held for a write: the file never goes back.
    writing: Mutex<()>,
}

/// What the file holds: the names of apps.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Stored {
    paused: Vec<String>,
    in_maintenance: Vec<String>,
}

impl Holds {
    /// Over the file at `path`.
    pub fn new(apps: Arc<Apps>, path: PathBuf) -> Self {
        Self(Arc::new(Inner { apps, path, writing: Mutex::default() }))
    }

    /// Holds up what the file says. One that can't be read is told to the log. Waits for the disk.
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
            // It is there.
            let _ = if is_paused { apps.pause(name) } else { apps.resume(name) };
            let _ = apps.set_maintenance(name, is_in_maintenance);
        }
    }

    /// Writes down how things are. Waits for the disk.
    pub fn keep(&self) -> io::Result<()> {
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
