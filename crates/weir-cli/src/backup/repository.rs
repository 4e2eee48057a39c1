//! The folder that holds backups.

use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::manifest::{self, BackupFile, Manifest};
use super::marker::sync_folder;
use crate::output;

/// Held by the backup in progress.
const LOCK: &str = "lock";
/// Shared by commands that read backups: none is deleted meanwhile.
const READERS: &str = "readers";
/// Created and removed to see which user owns new files in the folder.
const PROBE: &str = ".owner";
const PARTIAL: &str = ".partial";
/// A folder of this prefix is being deleted.
const PRUNED: &str = ".pruned-";
/// The files that the backup in progress has copied, one JSON line each.
const JOURNAL: &str = "journal";

/// A folder of backups, locked.
#[derive(Debug)]
pub(crate) struct Repository {
    folder: PathBuf,
    /// A reader has none if the folder has no lock: then no backup is ever deleted from it.
    _lock: Option<File>,
}

/// What was deleted because of `--keep`, and what not.
#[derive(Debug, Default)]
pub(crate) struct Pruned {
    pub(crate) deleted: Vec<String>,
    /// Excess backups that stay, and why.
    pub(crate) left: Vec<(String, String)>,
}

/// A folder with a manifest.
#[derive(Debug)]
pub(crate) struct Backup {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) manifest: Manifest,
}

/// A folder with a manifest that can't be used.
#[derive(Debug)]
pub(crate) struct DamagedBackup {
    pub(crate) name: String,
    pub(crate) error: anyhow::Error,
}

/// The backups of a folder, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Backups {
    pub(crate) complete: Vec<Backup>,
    pub(crate) damaged: Vec<DamagedBackup>,
}

/// The newest copies of files that need not be copied again, by path.
pub(crate) type KnownFiles = HashMap<String, KnownFile>;

/// A copy of a file.
#[derive(Debug)]
pub(crate) struct KnownFile {
    pub(crate) copy: PathBuf,
    pub(crate) file: BackupFile,
    sequence: u64,
}

impl Backup {
    /// Returns where the file of this path in `data_dir` is.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.join(manifest::DATA).join(path)
    }

    /// Returns the names of the parts that are in it.
    fn parts(&self) -> impl Iterator<Item = String> + '_ {
        let included = self.manifest.parts.iter().filter(|part| part.is_included);
        included.map(|part| part.part.clone())
    }
}

impl Repository {
    /// Creates the folder if needed, for this user only, and locks it for one writer.
    pub(crate) fn open_to_write(folder: &Path) -> anyhow::Result<Self> {
        let shown = folder.display();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .with_context(|| format!("cannot make {shown}"))?;
        if folder.join(manifest::FILE).exists() {
            bail!("{shown} is a single backup; name the folder that holds it");
        }
        check_owner(folder)?;
        let lock = open_lock(&folder.join(LOCK))?;
        // Readers can't create it on a medium that is read-only.
        open_lock(&folder.join(READERS))?;
        if !try_lock(&lock, FlockOperation::NonBlockingLockExclusive, folder)? {
            bail!("{shown} is in use by another backup; wait for it");
        }
        let repository = Self { folder: folder.to_owned(), _lock: Some(lock) };
        if let Err(error) = repository.remove_pruned() {
            // The backup is worth more than the space.
            output::note(&format!("warning: {error:#}"));
        }
        Ok(repository)
    }

    /// Opens a folder of backups, or a single backup, for reading, so that nothing in it is deleted
    /// meanwhile.
    pub(crate) fn open_to_read(folder: &Path) -> anyhow::Result<Self> {
        let found = folder.canonicalize();
        let found = found.with_context(|| format!("cannot open {}", folder.display()))?;
        let is_single = found.join(manifest::FILE).exists();
        let locked = if is_single { found.parent().unwrap_or(&found) } else { &found };
        let lock = File::open(locked.join(READERS)).ok();
        if let Some(lock) = &lock {
            // A backup holds it while it deletes, for a moment.
            rustix::fs::flock(lock, FlockOperation::LockShared)
                .with_context(|| format!("cannot lock {}", locked.join(READERS).display()))?;
        }
        if !found.is_dir() {
            bail!("{} is no folder of backups, or is deleted", folder.display());
        }
        Ok(Self { folder: found, _lock: lock })
    }

    /// Returns the backups in the folder, or the one that the folder is.
    pub(crate) fn backups(&self) -> anyhow::Result<Backups> {
        let mut found = Backups::default();
        for (name, folder) in self.folders()? {
            match Manifest::read(&folder) {
                Ok(manifest) => found.complete.push(Backup { name, folder, manifest }),
                Err(error) => found.damaged.push(DamagedBackup { name, error }),
            }
        }
        // Names are times of a clock that may have been wrong.
        found.complete.sort_by_key(|backup| backup.manifest.sequence);
        Ok(found)
    }

    /// Returns the complete backups without their lists of files, which may be long.
    fn summaries(&self) -> anyhow::Result<Vec<Backup>> {
        let mut found = Vec::new();
        for (name, folder) in self.folders()? {
            if let Ok(mut manifest) = Manifest::read(&folder) {
                manifest.files = Vec::new();
                found.push(Backup { name, folder, manifest });
            }
        }
        found.sort_by_key(|backup| backup.manifest.sequence);
        Ok(found)
    }

    /// Returns the names and folders of backups, ordered by name.
    fn folders(&self) -> anyhow::Result<Vec<(String, PathBuf)>> {
        if self.folder.join(manifest::FILE).exists() {
            let name = self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Ok(vec![(name, self.folder.clone())]);
        }
        let entries = fs::read_dir(&self.folder)
            .with_context(|| format!("cannot read {}", self.folder.display()))?;
        let mut folders = Vec::new();
        for entry in entries {
            let (folder, name) = entry.map(|it| (it.path(), it.file_name()))?;
            let name = name.to_string_lossy().into_owned();
            if !name.starts_with('.') && folder.join(manifest::FILE).exists() {
                folders.push((name, folder));
            }
        }
        folders.sort();
        Ok(folders)
    }

    /// Returns the sequence number of the next backup.
    pub(crate) fn next_sequence(&self) -> anyhow::Result<u64> {
        Ok(self.summaries()?.last().map_or(0, |newest| newest.manifest.sequence) + 1)
    }

    /// Returns the folder of the backup in progress, which is created if there is none.
    pub(crate) fn partial(&self) -> anyhow::Result<PathBuf> {
        let folder = self.folder.join(PARTIAL);
        fs::create_dir_all(folder.join(manifest::DATA))
            .with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }

    /// Opens the list of the files that the backup in progress has copied.
    pub(crate) fn journal(&self) -> anyhow::Result<File> {
        let path = self.partial()?.join(JOURNAL);
        let opened = OpenOptions::new().create(true).append(true).open(&path);
        let cannot = || format!("cannot write {}", path.display());
        let mut journal = opened.with_context(cannot)?;
        // Ends a line that a kill has cut off.
        journal.write_all(b"\n").with_context(cannot)?;
        Ok(journal)
    }

    /// Returns the files that need not be copied again: those of earlier backups, and those of an
    /// interrupted one.
    pub(crate) fn known_files(&self) -> anyhow::Result<KnownFiles> {
        let mut known = KnownFiles::new();
        let mut add = |folder: &Path, sequence: u64, file: BackupFile| {
            let is_older = |it: &KnownFile| it.sequence > sequence;
            if file.source.is_some() && !known.get(&file.path).is_some_and(is_older) {
                let copy = folder.join(manifest::DATA).join(&file.path);
                known.insert(file.path.clone(), KnownFile { copy, file, sequence });
            }
        };
        for (_, folder) in self.folders()? {
            // A damaged backup has no known files.
            let Ok(manifest) = Manifest::read(&folder) else { continue };
            manifest.files.into_iter().for_each(|file| add(&folder, manifest.sequence, file));
        }
        let partial = self.partial()?;
        let journal = fs::read_to_string(partial.join(JOURNAL)).unwrap_or_default();
        // A line that was cut off by a kill is no JSON.
        let lines = journal.lines().filter_map(|line| serde_json::from_str(line).ok());
        lines.for_each(|file| add(&partial, u64::MAX, file));
        Ok(known)
    }

    /// Gives the backup in progress, whose manifest is written, its name.
    pub(crate) fn complete(&self, manifest: &Manifest) -> anyhow::Result<String> {
        let partial = self.partial()?;
        let _ = fs::remove_file(partial.join(JOURNAL));
        sync_folder(&partial)?;
        let time = manifest.at.get(..19).unwrap_or(&manifest.at).replace(':', "-");
        let numbered = (2..).map(|number| format!("{time}Z-{number}"));
        let mut names = std::iter::once(format!("{time}Z")).chain(numbered);
        let is_free = |name: &String| !self.folder.join(name).exists();
        let name = names.find(is_free).context("no name is free")?;
        fs::rename(&partial, self.folder.join(&name))
            .with_context(|| format!("cannot name the backup {name}"))?;
        sync_folder(&self.folder)?;
        Ok(name)
    }

    /// Deletes the oldest backups beyond `keep`, except those that have a part which no later one
    /// has. Deletes nothing while a command reads backups.
    pub(crate) fn prune(&self, keep: usize) -> anyhow::Result<Pruned> {
        let mut complete = self.summaries()?;
        let kept = complete.split_off(complete.len().saturating_sub(keep.max(1)));
        let mut pruned = Pruned::default();
        if complete.is_empty() {
            return Ok(pruned);
        }
        let readers = open_lock(&self.folder.join(READERS))?;
        if !try_lock(&readers, FlockOperation::NonBlockingLockExclusive, &self.folder)? {
            let why = "backups are being read; the next backup deletes it";
            pruned.left = complete.into_iter().map(|it| (it.name, why.to_owned())).collect();
            return Ok(pruned);
        }
        let mut parts: HashSet<String> = kept.iter().flat_map(Backup::parts).collect();
        for backup in complete.into_iter().rev() {
            let only: Vec<String> = backup.parts().filter(|part| !parts.contains(part)).collect();
            if only.is_empty() {
                self.mark_pruned(&backup)?;
                pruned.deleted.push(backup.name);
            } else {
                pruned.left.push((backup.name, format!("no later one has {}", only.join(", "))));
                parts.extend(only);
            }
        }
        pruned.deleted.reverse();
        sync_folder(&self.folder)?;
        self.remove_pruned()?;
        Ok(pruned)
    }

    /// Renames a backup before it is deleted: a kill must not leave half of one with its manifest.
    fn mark_pruned(&self, backup: &Backup) -> anyhow::Result<()> {
        fs::rename(&backup.folder, self.folder.join(format!("{PRUNED}{}", backup.name)))
            .with_context(|| format!("cannot delete {}", backup.folder.display()))
    }

    fn remove_pruned(&self) -> anyhow::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(PRUNED) {
                let path = entry.path();
                fs::remove_dir_all(&path)
                    .with_context(|| format!("cannot delete {}", path.display()))?;
            }
        }
        Ok(())
    }
}

fn open_lock(path: &Path) -> anyhow::Result<File> {
    let mut options = OpenOptions::new();
    let opened = options.write(true).create(true).truncate(false).mode(0o600).open(path);
    opened.with_context(|| format!("cannot write {}", path.display()))
}

fn try_lock(file: &File, operation: FlockOperation, folder: &Path) -> anyhow::Result<bool> {
    match rustix::fs::flock(file, operation) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot lock {}", folder.display())),
    }
}

/// Returns an error if root would make files in a folder of another user, who could then neither
/// read nor delete them: the backups of that user would fail. File systems that map root to another
/// user are no problem.
fn check_owner(folder: &Path) -> anyhow::Result<()> {
    let shown = folder.display();
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let probe = folder.join(PROBE);
    // Never through a link of the folder's owner. One of an earlier run may be left.
    let _ = fs::remove_file(&probe);
    let created = File::options().write(true).create_new(true).open(&probe);
    let made = created.and_then(|file| file.metadata());
    let made = made.with_context(|| format!("cannot write into {shown}"))?.uid();
    fs::remove_file(&probe).with_context(|| format!("cannot write into {shown}"))?;
    let owner = fs::metadata(folder).with_context(|| format!("cannot read {shown}"))?.uid();
    if made != owner {
        bail!(
            "{shown} belongs to another user, whose backups would fail on files of root; run the \
             command as that user (setpriv --reuid {owner} --clear-groups weir backup ..), or name \
             another folder"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_base::clock::Timestamp;

    fn back_up(folder: &Path, second: u64) -> String {
        let repository = Repository::open_to_write(folder).expect("opened");
        let sequence = repository.next_sequence().expect("read");
        let mut manifest = Manifest::new(Timestamp::from_millis(second * 1_000), sequence);
        manifest.write(&repository.partial().expect("made")).expect("written");
        repository.complete(&manifest).expect("named")
    }

    #[test]
    fn the_oldest_backup_is_the_first_made_whatever_its_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let (ahead, middle, newest) =
            (back_up(folder.path(), 9_000), back_up(folder.path(), 50), back_up(folder.path(), 60));
        let repository = Repository::open_to_write(folder.path()).expect("opened");
        assert_eq!(repository.prune(2).expect("deleted").deleted, [ahead]);
        let names = repository.backups().expect("read").complete.into_iter().map(|it| it.name);
        assert_eq!(names.collect::<Vec<_>>(), [middle, newest]);
    }

    /// A check of all files takes long: backups must go on meanwhile.
    #[test]
    fn a_reader_defers_deletions_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = back_up(folder.path(), 50);
        for read in [folder.path().to_owned(), folder.path().join(&first)] {
            let reader = Repository::open_to_read(&read).expect("opened");
            back_up(folder.path(), 60);
            let repository = Repository::open_to_write(folder.path()).expect("opened");
            let pruned = repository.prune(1).expect("not now");
            assert!(pruned.deleted.is_empty(), "{pruned:?}");
            assert!(pruned.left[0].1.contains("being read"), "{pruned:?}");
            assert_eq!(reader.backups().expect("read").complete[0].name, first);
        }
        let repository = Repository::open_to_write(folder.path()).expect("opened");
        assert_eq!(repository.prune(1).expect("deleted").deleted.len(), 2);
    }
}
