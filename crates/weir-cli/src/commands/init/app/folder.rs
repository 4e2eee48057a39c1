//! The application's folder: files of limited size, and remarks on those that cannot be read.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::findings::Findings;
use crate::commands::plan::check::text::read_text;

/// The folder of an application.
pub(super) struct AppFolder {
    pub(super) path: PathBuf,
}

impl AppFolder {
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let path = path.canonicalize().with_context(|| format!("cannot open {shown}"))?;
        if !path.is_dir() {
            bail!("{shown} is not a folder; name the folder of the application");
        }
        let text = path.to_str().unwrap_or_default();
        let is_odd = |letter: char| {
            letter.is_whitespace() || letter.is_control() || "%\"'\\$`;".contains(letter)
        };
        if text.is_empty() || text.contains(is_odd) {
            bail!(
                "{:?} cannot be written to units and commands: it contains white space, quotes, %, $, ; or \\",
                path.display().to_string()
            );
        }
        Ok(Self { path })
    }

    pub(super) fn shown(&self) -> String {
        self.path.display().to_string()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.path.join(name).exists()
    }

    /// Returns the text of a file. None: it is not there, or it cannot be read, of which a remark says why.
    pub(super) fn read(&self, name: &str, findings: &mut Findings) -> Option<String> {
        let path = self.path.join(name);
        let metadata = fs::metadata(&path).ok()?;
        // A pipe would block.
        if !metadata.is_file() {
            findings.not_read.push(format!("{name}: it is not a file"));
            return None;
        }
        match read_text(&path) {
            Ok(text) => Some(text),
            Err(error) => {
                findings.not_read.push(format!("{name}: {}", error.root_cause()));
                None
            }
        }
    }

    /// Returns the first of several names that exists.
    pub(super) fn first(&self, names: &[&'static str]) -> Option<&'static str> {
        names.iter().copied().find(|name| self.path.join(name).is_file())
    }
}
