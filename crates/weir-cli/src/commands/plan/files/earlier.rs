//! Files of an earlier plan that are not in this one: left enabled, they would run beside this
//! plan.
//!
//! They are recognised by their first line, so that no other files are reported or removed.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use anyhow::Context;

use super::PlannedFile;
use crate::output;

/// The first line of each unit and of each drop-in.
pub(super) const MARK: &str = "# Written by weir plan. The next --write finds the file by this line, and reports it if it is no longer in the plan.\n";
/// Precedes the names of all units that the file starts, in one of the first lines.
const STARTS: &str = "systemctl restart ";
/// The folder in which systemd records enabled units.
const ENABLED: &str = "multi-user.target.wants";
/// Limit of the first lines of a file, which may have the names of thousands of instances.
const HEAD_BYTES_MAX: u64 = 1 << 16;

/// A unit or drop-in.
struct WrittenFile {
    /// The path within the folder.
    name: String,
    starts: BTreeSet<String>,
}

/// All files of an earlier plan in a folder.
pub(super) struct EarlierFiles(Vec<WrittenFile>);

impl EarlierFiles {
    pub(super) fn read(folder: &Path) -> anyhow::Result<Self> {
        let read = || format!("cannot read {}", folder.display());
        let mut written = Vec::new();
        for entry in fs::read_dir(folder).with_context(read)? {
            let Ok(name) = entry.with_context(read)?.file_name().into_string() else { continue };
            let name =
                if name.ends_with(".service.d") { format!("{name}/weir.conf") } else { name };
            let is_one = name.ends_with(".service") || name.ends_with(".service.d/weir.conf");
            // Unreadable files and those of others are ignored.
            let head = if is_one { read_head(&folder.join(&name)).ok() } else { None };
            if let Some(head) = head.filter(|head| head.starts_with(MARK)) {
                written.push(WrittenFile { name, starts: started_units(&head) });
            }
        }
        written.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Self(written))
    }

    /// Reports the files that are not in `files` and how to stop their units; removes them with
    /// `prune`.
    pub(super) fn resolve(
        &self,
        folder: &Path,
        files: &[PlannedFile],
        prune: bool,
    ) -> anyhow::Result<()> {
        let planned: BTreeSet<String> =
            files.iter().flat_map(|file| started_units(&file.text)).collect();
        let all: BTreeSet<&String> = self.0.iter().flat_map(|it| &it.starts).collect();
        let gone: Vec<&str> =
            all.into_iter().filter(|it| !planned.contains(*it)).map(String::as_str).collect();
        if !gone.is_empty() {
            output::note(
                "units of an earlier plan that are not in this one; if they run, they serve jobs in addition to it:",
            );
            output::note(&format!("  systemctl disable --now {}", gone.join(" ")));
        }
        // A drop-in is in a folder that is named like the unit.
        let is_left = |it: &&WrittenFile| {
            it.name.ends_with(".service") && !files.iter().any(|file| file.name == it.name)
        };
        for left in self.0.iter().filter(is_left) {
            let path = folder.join(&left.name);
            if !prune {
                output::note(&format!("kept: {} (remove it with --prune)", path.display()));
            } else if is_enabled(folder, &left.name) {
                // Without its file, systemd could not disable the unit any more.
                output::note(&format!(
                    "not removed: {} is enabled; disable it first",
                    path.display()
                ));
            } else {
                fs::remove_file(&path)
                    .with_context(|| format!("cannot remove {}", path.display()))?;
                output::note(&format!("removed {}", path.display()));
            }
        }
        Ok(())
    }
}

fn read_head(path: &Path) -> io::Result<String> {
    let mut head = String::new();
    fs::File::open(path)?.take(HEAD_BYTES_MAX).read_to_string(&mut head)?;
    Ok(head)
}

/// Returns the units that a file says it starts. Invalid names are ignored: the file may be edited.
fn started_units(text: &str) -> BTreeSet<String> {
    let comments = text.lines().take_while(|line| line.starts_with('#'));
    let names = comments.filter_map(|line| line.split_once(STARTS)).next();
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_.-@".contains(letter);
    let is_name = |name: &&str| name.chars().all(plain) && !name.starts_with('-');
    let names = names.map_or("", |(_, names)| names).split_whitespace();
    names.filter(is_name).map(str::to_owned).collect()
}

/// Returns whether the unit is enabled from this very folder; for a template, any instance.
fn is_enabled(folder: &Path, unit: &str) -> bool {
    let is_it = |name: &str| match unit.split_once('@') {
        Some((template, _)) => name.split_once('@').is_some_and(|(of, _)| of == template),
        None => name == unit,
    };
    let enabled = fs::read_dir(folder.join(ENABLED)).into_iter().flatten().flatten();
    enabled.into_iter().any(|entry| entry.file_name().to_str().is_some_and(is_it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn started_units_are_read_from_a_file() {
        let of = |text: &str| started_units(text).into_iter().collect::<Vec<_>>();
        let unit =
            format!("{MARK}# systemctl enable a@1 a@2 && systemctl restart a@1 a@2\n[Unit]\n");
        assert_eq!(of(&unit), ["a@1", "a@2"]);
        assert_eq!(of("# systemctl restart a; -x $(b) c\n"), ["c"]);
        assert_eq!(of("[Unit]\n# systemctl restart a\n"), [""; 0], "not among its first lines");
    }
}
