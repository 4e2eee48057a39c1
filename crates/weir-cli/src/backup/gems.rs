//! Where gems are, and where a restore puts them.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::Context;
use weir_config::Settings;

/// The subdirectory of `.gem` files that are incomplete.
const ARRIVING: &str = "arriving";

/// The folder of `.gem` files.
#[derive(Debug)]
pub(crate) struct GemFiles {
    folder: PathBuf,
    /// Its path in `data_dir` after a restore.
    place: String,
}

/// Returns the path of the index in `data_dir`.
pub(crate) fn index_place(settings: &Settings) -> String {
    place(&settings.data_dir, &settings.gems.sqlite.path, "gems/index.db").0
}

/// Returns the folder of `.gem` files, and what an operator must know of it after a restore.
pub(crate) fn files(settings: &Settings) -> (GemFiles, String) {
    let folder = settings.gems.files_dir();
    let (place, is_outside) = place(&settings.data_dir, &folder, "gems/files");
    let note = is_outside.then(|| {
        let path = folder.display();
        format!("; gems.files_dir was {path}: after a restore, move {place} of data_dir there")
    });
    (GemFiles { folder, place }, note.unwrap_or_default())
}

/// Returns the path below `data_dir`, or `default` and true if it is not below.
fn place(data_dir: &Path, path: &Path, default: &str) -> (String, bool) {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (data_dir, path) = (absolute(data_dir), absolute(path));
    let below = path.strip_prefix(&data_dir).ok().filter(|relative| {
        let mut parts = relative.components().peekable();
        parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
    });
    below.map_or_else(
        || (default.to_owned(), true),
        |relative| (relative.to_string_lossy().into_owned(), false),
    )
}

/// Lists the complete `.gem` files: where each is, and its path in `data_dir` after a restore.
pub(crate) fn gem_files(folder: &GemFiles) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let GemFiles { folder, place } = folder;
    let mut found = Vec::new();
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let read = |folder: &Path| {
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))
    };
    for entry in read(folder)? {
        let entry = entry?;
        if entry.file_name() == ARRIVING || !entry.file_type()?.is_dir() {
            continue;
        }
        for file in read(&entry.path())? {
            found.push(file?.path());
        }
    }
    found.sort();
    let placed = |path: PathBuf| {
        let relative = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned();
        (path, format!("{place}/{relative}"))
    };
    Ok(found.into_iter().map(placed).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_where_it_is_below_data_dir_and_is_named_if_it_is_not_there() {
        let place = |path: &str| place(Path::new("/var/lib/weir"), Path::new(path), "gems/files");
        assert_eq!(place("/var/lib/weir/gems/files"), ("gems/files".to_owned(), false));
        assert_eq!(place("/var/lib/weir/own/files"), ("own/files".to_owned(), false));
        for outside in ["/srv/gems", "/var/lib/weir/../gems", "/var/lib/weir"] {
            assert_eq!(place(outside), ("gems/files".to_owned(), true), "{outside}");
        }
        let relative = super::place(Path::new("data"), Path::new("data/gems/files"), "other");
        assert_eq!(relative, ("gems/files".to_owned(), false));
    }
}
