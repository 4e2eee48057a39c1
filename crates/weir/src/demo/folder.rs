//! The folder of a demo: its settings, its log, its data.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::io::Errno;
use rustix::process::{Pid, geteuid, test_kill_process};
use weir_cli::data_dir::lock::Lock;

/// What settings of a demo begin with. Other files are not overwritten.
const FIRST_LINE: &str = "# The settings of `weir demo`.";
const SETTINGS: &str = "weir.toml";
/// What precedes the process id in the name of a temporary folder.
const PREFIX: &str = "weir-demo-";

/// A folder, which is removed when this is dropped if it is temporary.
#[derive(Debug)]
pub(super) struct DemoFolder {
    pub(super) path: PathBuf,
    pub(super) is_temporary: bool,
}

impl DemoFolder {
    /// Creates the folder that was asked for, or a temporary one.
    pub(super) fn create(chosen: Option<&Path>) -> anyhow::Result<Self> {
        let Some(chosen) = chosen else { return Self::temporary() };
        let how = || format!("cannot create {} (--data-dir)", chosen.display());
        DirBuilder::new().recursive(true).mode(0o700).create(chosen).with_context(how)?;
        let path = chosen.canonicalize().with_context(how)?;
        Ok(Self { path, is_temporary: false })
    }

    fn temporary() -> anyhow::Result<Self> {
        let parent = std::env::temp_dir();
        remove_leftovers(&parent);
        let path = parent.join(format!("{PREFIX}{}", std::process::id()));
        let created = DirBuilder::new().mode(0o700).create(&path);
        created.with_context(|| {
            format!("cannot create {}; name another folder with --data-dir", path.display())
        })?;
        Ok(Self { path, is_temporary: true })
    }

    pub(super) fn settings(&self) -> PathBuf {
        self.path.join(SETTINGS)
    }

    pub(super) fn log(&self) -> PathBuf {
        self.path.join("weir.log")
    }

    /// Writes the settings. Those that are no demo's are left as they are.
    pub(super) fn write_settings(&self, text: &str) -> anyhow::Result<()> {
        let path = self.settings();
        let shown = path.display();
        match std::fs::read_to_string(&path) {
            Ok(present) if !present.starts_with(FIRST_LINE) => {
                bail!("{shown} has settings that are no demo's; choose another --data-dir")
            }
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot read {shown}"));
            }
            Ok(_) | Err(_) => {}
        }
        std::fs::write(&path, text).with_context(|| format!("cannot write {shown}"))
    }
}

/// Removes the folders of demos that were killed.
fn remove_leftovers(folder: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()).filter(|path| is_leftover(path)) {
        if std::fs::remove_dir_all(&path).is_ok() {
            let shown = path.display();
            weir_cli::output::note(&format!("removed {shown}, which an earlier demo has left"));
        }
    }
}

/// Returns whether a path is the folder of a demo of this user, of which no process is left.
fn is_leftover(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let pid = name.and_then(|name| name.strip_prefix(PREFIX)?.parse().ok()).and_then(Pid::from_raw);
    let Some(pid) = pid else { return false };
    let is_ours = std::fs::symlink_metadata(path)
        .is_ok_and(|found| found.is_dir() && found.uid() == geteuid().as_raw());
    let is_dead = test_kill_process(pid) == Err(Errno::SRCH);
    is_ours
        && is_dead
        && std::fs::read_to_string(path.join(SETTINGS)).is_ok_and(|text| text.starts_with(FIRST_LINE))
        // Weir itself ends a moment after the demo that started it.
        && Lock::share(path, Duration::ZERO).is_ok()
}

impl Drop for DemoFolder {
    fn drop(&mut self) {
        if self.is_temporary
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            let path = self.path.display();
            weir_cli::output::note(&format!("cannot remove {path}: {error}; remove it by hand"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_folder_is_removed() {
        let folder = DemoFolder::create(None).unwrap();
        folder.write_settings("# any").unwrap();
        let path = folder.path.clone();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn folders_of_killed_demos_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        // The highest process id that Linux assigns, and this process.
        let names = ["4194304", &std::process::id().to_string(), "other"];
        let folders = names.map(|name| parent.path().join(format!("{PREFIX}{name}")));
        for folder in &folders {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join(SETTINGS), FIRST_LINE).unwrap();
        }
        let locked = Lock::take(&folders[0], Duration::ZERO).unwrap();
        remove_leftovers(parent.path());
        assert!(folders[0].exists(), "its Weir still runs");
        drop(locked);
        std::fs::write(folders[0].join(SETTINGS), "[jobs]\n").unwrap();
        remove_leftovers(parent.path());
        assert!(folders[0].exists(), "these are no settings of a demo");
        std::fs::write(folders[0].join(SETTINGS), FIRST_LINE).unwrap();
        remove_leftovers(parent.path());
        assert_eq!(folders.map(|folder| folder.exists()), [false, true, true]);
    }

    #[test]
    fn settings_of_others_are_not_overwritten() {
        let parent = tempfile::tempdir().unwrap();
        let folder = DemoFolder::create(Some(&parent.path().join("kept"))).unwrap();
        let text = format!("{FIRST_LINE} And more.\n");
        folder.write_settings(&text).unwrap();
        folder.write_settings(&text).unwrap();
        std::fs::write(folder.settings(), "[jobs]\n").unwrap();
        let error = folder.write_settings(&text).unwrap_err().to_string();
        assert!(error.contains("choose another --data-dir"), "{error}");
        let path = folder.path.clone();
        drop(folder);
        assert!(path.exists());
    }
}
