//! Finds the files to read, and the files that they refer to.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::super::text::read_text;

/// Limit of the files of a folder that are read.
const FILES_MAX: usize = 1_000;
pub(in crate::commands) const COMPOSE: [&str; 4] =
    ["compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"];
pub(in crate::commands) const OVERRIDES: [&str; 4] = [
    "compose.override.yaml",
    "compose.override.yml",
    "docker-compose.override.yml",
    "docker-compose.override.yaml",
];

/// The kind of files that define the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Units,
    Compose,
    Procfile,
}

impl Kind {
    pub(super) fn detect(path: &Path, text: &str) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let any = |is: fn(&str) -> bool| text.lines().map(str::trim_end).any(is);
        if name.ends_with(".service") || any(|line| line == "[Service]") {
            Some(Self::Units)
        } else if any(|line| ["services:", "include:"].iter().any(|key| line.starts_with(key))) {
            Some(Self::Compose)
        } else if name.starts_with("Procfile") || text.lines().any(is_procfile_line) {
            Some(Self::Procfile)
        } else {
            None
        }
    }
}

fn is_procfile_line(line: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    line.split_once(": ").is_some_and(|(name, command)| {
        let is_name = !name.is_empty() && name.chars().all(plain);
        is_name && ["sidekiq", "puma", "rails"].iter().any(|it| command.contains(it))
    })
}

/// A folder with its files to read.
#[derive(Clone, Debug, Default)]
pub(super) struct Folder {
    path: PathBuf,
    /// The directory where a process starts (`WorkingDirectory=`), if defined.
    directory: Option<PathBuf>,
    pub(super) files: Vec<PathBuf>,
    /// Files that define the same processes again, which must not be counted twice, or the override
    /// of the only compose file to read.
    others: Vec<PathBuf>,
}

impl Folder {
    /// Opens a folder or a file. None: nothing in it defines processes.
    pub(super) fn open(path: &Path) -> anyhow::Result<Option<(Self, Kind)>> {
        if path.is_dir() {
            return Self::open_folder(path);
        }
        let text = read_text(path)?;
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).to_owned();
        let is_compose = COMPOSE.contains(&name(path).as_str());
        let overrides = OVERRIDES.iter().map(|it| folder.join(it));
        let others = overrides.filter(|it| is_compose && it.is_file()).take(1).collect();
        let one = |kind| {
            let files = vec![path.to_owned()];
            (Self { path: folder, files, others, ..Self::default() }, kind)
        };
        Ok(Kind::detect(path, &text).map(one))
    }

    fn open_folder(path: &Path) -> anyhow::Result<Option<(Self, Kind)>> {
        let entries =
            fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.take(FILES_MAX).collect();
        names.sort();
        let here = |name: &String| path.join(name);
        let units: Vec<_> = names.iter().filter(|it| it.ends_with(".service")).map(here).collect();
        // Docker compose uses the first of these names, and its override.
        let first = COMPOSE.iter().find(|it| names.iter().any(|name| name == *it));
        let overrides = OVERRIDES.iter().filter(|it| names.iter().any(|name| name == *it)).take(1);
        let compose: Vec<_> = first
            .into_iter()
            .chain(overrides.filter(|_| first.is_some()))
            .map(|it| path.join(it))
            .collect();
        let procfile: Vec<_> = names.iter().filter(|it| *it == "Procfile").map(here).collect();
        let mut all = [(Kind::Units, units), (Kind::Compose, compose), (Kind::Procfile, procfile)]
            .into_iter()
            .filter(|(_, files)| !files.is_empty());
        let Some((kind, files)) = all.next() else { return Ok(None) };
        let others = all.flat_map(|(_, files)| files).collect();
        Ok(Some((Self { path: path.to_owned(), files, others, directory: None }, kind)))
    }

    /// Returns a folder of which these files are read.
    pub(super) fn with_files(path: &Path, files: Vec<PathBuf>) -> Self {
        Self { path: path.to_owned(), files, ..Self::default() }
    }

    /// Returns the names of the files that were read.
    pub(super) fn names(&self) -> Vec<String> {
        self.files.iter().map(|file| name(file)).collect()
    }

    pub(super) fn describe_skipped(&self) -> Option<String> {
        let others: Vec<_> = self.others.iter().map(|file| name(file)).collect();
        let first = others.first()?;
        Some(match OVERRIDES.contains(&first.as_str()) {
            true => format!("{first}: give the folder instead of the file to include it"),
            false => format!("{}: another description of the same processes", others.join(", ")),
        })
    }

    /// Returns the folder for a process that starts in `directory`.
    pub(super) fn in_directory(&self, directory: &str) -> Self {
        Self { directory: Some(self.path.join(directory)), ..self.clone() }
    }

    /// Returns whether the process starts in a directory of this name.
    pub(super) fn is_in(&self, name: &str) -> bool {
        self.directory.as_ref().and_then(|it| it.file_name()).is_some_and(|it| it == name)
    }

    /// Returns the text of a file that another one refers to: in the process's directory, here, or
    /// in the parent folder, since units are often in a subfolder of the application. None: not
    /// found.
    pub(super) fn find(&self, name: &str) -> Option<String> {
        let path = Path::new(name);
        let last = path.file_name().map(PathBuf::from).unwrap_or_default();
        let above = self.path.join("..");
        let candidates = match path.is_absolute() {
            true => vec![path.to_owned(), self.path.join(&last), above.join(&last)],
            false => vec![self.path.join(path), above.join(path)],
        };
        let own = self.directory.iter().map(|directory| directory.join(name));
        own.chain(candidates).find_map(|file| read_text(&file).ok())
    }

    /// Returns the template instances that a folder such as `multi-user.target.wants` starts: Returns "4000" for
    /// "app@4000.service".
    pub(super) fn wanted_instances(&self, template: &str) -> Vec<String> {
        let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().take(FILES_MAX);
        let folders = entries(&self.path).filter_map(|entry| Some(entry.ok()?.path()));
        let wanted =
            |it: &PathBuf| it.extension().is_some_and(|it| it == "wants" || it == "requires");
        let names = folders.filter(wanted).flat_map(|folder| {
            entries(&folder)
                .filter_map(|it| it.ok()?.file_name().into_string().ok())
                .collect::<Vec<_>>()
        });
        names.filter_map(|name| Some(instance(&name, template)?.to_owned())).collect()
    }

    /// Returns the drop-ins of a unit: `NAME.service.d/*.conf`.
    pub(super) fn drop_ins(&self, unit: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path.join(format!("{unit}.d"))).into_iter().flatten();
        let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut files: Vec<_> =
            files.filter(|it| it.extension().is_some_and(|it| it == "conf")).collect();
        files.sort();
        files.iter().take(FILES_MAX).filter_map(|file| read_text(file).ok()).collect()
    }
}

/// Returns the files of a folder that may start something, from which the operator must choose.
pub(in super::super) fn candidates(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_yaml = |name: &str| name.ends_with(".yml") || name.ends_with(".yaml");
    let is_one =
        |name: &String| name.starts_with("Procfile") || (name.contains("compose") && is_yaml(name));
    let mut names: Vec<_> = names.take(FILES_MAX).filter(is_one).collect();
    names.sort();
    names
}

/// Returns "4000" of "app@4000.service"; None: it is not an instance of `template` ("app@").
pub(super) fn instance<'a>(unit: &'a str, template: &str) -> Option<&'a str> {
    let name = unit.strip_prefix(template)?.strip_suffix(".service")?;
    (!name.is_empty()).then_some(name)
}

pub(super) fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
