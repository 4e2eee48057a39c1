//! The files and the steps of `weir init` for an application.

use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::findings::Findings;
use crate::output;

/// The steps, for later.
pub(super) const STEPS_FILE: &str = "weir-steps.txt";

/// What an administrator does, in order.
pub(super) struct Step {
    pub(super) title: String,
    /// Commands, and lines of explanation that begin with `#`.
    pub(super) lines: Vec<String>,
    /// What undoes the step.
    pub(super) back: Vec<String>,
}

impl Step {
    pub(super) fn new(title: impl Into<String>, lines: &[&str], back: &[&str]) -> Self {
        let owned = |lines: &[&str]| lines.iter().map(ToString::to_string).collect();
        Self { title: title.into(), lines: owned(lines), back: owned(back) }
    }
}

/// A file to write.
pub(super) struct DraftFile {
    pub(super) name: String,
    pub(super) text: String,
}

/// The result for an application.
pub(super) struct Draft {
    /// "Mastodon 4.4.3, run by systemd".
    pub(super) title: String,
    /// weir.toml.
    pub(super) settings: String,
    /// Further files.
    pub(super) files: Vec<DraftFile>,
    pub(super) findings: Findings,
    /// Tables of processes, today and by plan.
    pub(super) tables: String,
    pub(super) steps: Vec<Step>,
}

impl Draft {
    pub(super) fn add(&mut self, name: &str, text: String) {
        self.files.push(DraftFile { name: name.to_owned(), text });
    }

    /// Returns the steps, and the way back from the last one to the first.
    pub(super) fn steps(&self) -> String {
        let mut text = "STEPS (commands of systemctl need root)\n".to_owned();
        for (number, step) in (1..).zip(&self.steps) {
            let _ = writeln!(text, "{number}. {}", step.title);
            step.lines.iter().for_each(|line| {
                let _ = writeln!(text, "     {line}");
            });
        }
        text.push_str("\nWAY BACK (from any step: begin with its number)\n");
        for (before, step) in self.steps.iter().enumerate().rev() {
            if step.back.is_empty() {
                continue;
            }
            let _ = writeln!(text, "{}. Undo \"{}\"", before + 1, step.title);
            step.back.iter().for_each(|line| {
                let _ = writeln!(text, "     {line}");
            });
        }
        text
    }

    /// Returns the whole report.
    pub(super) fn report(&self) -> String {
        let Self { title, findings, tables, .. } = self;
        format!("{}\n\n{}\n{tables}", output::printable(title), findings.text())
    }

    /// Writes all files; none if one of them exists, unless `force`.
    pub(super) fn write(&self, settings: &Path, force: bool) -> anyhow::Result<Vec<PathBuf>> {
        let folder = settings.parent().unwrap_or(Path::new("."));
        let steps = (folder.join(STEPS_FILE), self.steps());
        let others = self.files.iter().map(|file| (folder.join(&file.name), file.text.clone()));
        let mut all = vec![(settings.to_owned(), self.settings.clone()), steps];
        all.extend(others);
        let is_there = |path: &Path| {
            path.symlink_metadata().err().is_none_or(|error| error.kind() != ErrorKind::NotFound)
        };
        let existing: Vec<String> = all
            .iter()
            .filter(|(path, _)| is_there(path))
            .map(|(path, _)| path.display().to_string())
            .collect();
        if !existing.is_empty() && !force {
            bail!(
                "{} exists; replace it with --force, name another folder with --output FOLDER/weir.toml, or print \
                 the settings with --output -",
                existing.join(", ")
            );
        }
        for (path, text) in &all {
            if let Some(folder) = path.parent() {
                let shown = folder.display();
                fs::create_dir_all(folder).with_context(|| format!("cannot make {shown}"))?;
            }
            fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(all.into_iter().map(|(path, _)| path).collect())
    }
}
