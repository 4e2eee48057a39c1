//! The folder of a demo: its settings, its log, its data.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// What settings of a demo begin with. Other files are not overwritten.
const FIRST_LINE: &str = "# The settings of `weir demo`.";

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
        let path = std::env::temp_dir().join(format!("weir-demo-{}", std::process::id()));
        let created = DirBuilder::new().mode(0o700).create(&path);
        created.with_context(|| {
            format!("cannot create {}; name another folder with --data-dir", path.display())
        })?;
        Ok(Self { path, is_temporary: true })
    }

    pub(super) fn settings(&self) -> PathBuf {
        self.path.join("weir.toml")
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
