//! Copies files into a backup, or links those that an earlier backup has.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use indicatif::ProgressBar;

use super::manifest::{self, BackupFile, FileIdentity};
use super::marker::sync_folder;
use super::open::open_regular;
use super::pace::Pace;
use super::repository::{KnownFile, KnownFiles, Repository};
use super::sources::{Content, Source};
use crate::output;

/// Bytes that are read and written at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// Written bytes after which the file is synced: a disk that gets gigabytes at once delays the
/// syncs of the job log.
const SYNC_BYTES: u64 = 16 << 20;
/// Each file that earlier backups have is read again with one of as many backups: with hourly ones
/// once a day. Otherwise a bad block of the backup's disk would be in all later backups.
const CHECK_ROUNDS: u64 = 24;
/// The extension of a file that is incomplete.
const UNFINISHED: &str = "unfinished";

/// Copies files into the folder of the backup in progress.
#[derive(Debug)]
pub(crate) struct Copier {
    folder: PathBuf,
    journal: File,
    known: KnownFiles,
    pace: Pace,
    bar: ProgressBar,
    /// Which of the files are read again.
    round: u64,
    pub(crate) totals: CopyTotals,
}

/// How much was copied.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CopyTotals {
    pub(crate) copied_files: u64,
    pub(crate) copied_bytes: u64,
    /// Files that were linked or already there.
    pub(crate) reused_files: u64,
}

impl Copier {
    pub(crate) fn new(
        repository: &Repository,
        pace: Pace,
        bar: ProgressBar,
        sequence: u64,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            folder: repository.partial()?.join(manifest::DATA),
            journal: repository.journal()?,
            known: repository.known_files()?,
            pace,
            bar,
            round: sequence % CHECK_ROUNDS,
            totals: CopyTotals::default(),
        })
    }

    /// Adds a file to the backup. Returns `None` for a `.gem` file that was removed since.
    pub(crate) fn add(&mut self, source: Source) -> anyhow::Result<Option<BackupFile>> {
        let Source { path, content } = source;
        let target = self.folder.join(&path);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)
                .with_context(|| format!("cannot make {}", parent.display()))?;
        }
        match content {
            Content::Sealed(file, bytes) => self.add_unchanging(path, &file, bytes).map(Some),
            Content::Named(from) => match open_regular(&from) {
                Ok(file) => {
                    let bytes = file.metadata()?.len();
                    self.add_unchanging(path, &file, bytes).map(Some)
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error).with_context(|| format!("cannot read {}", from.display())),
            },
            Content::Prefix(file, bytes) => self.copy(path, &file, bytes).map(Some),
            Content::Bytes(bytes) => self.write(path, &bytes).map(Some),
            Content::Database(from) => self.add_database(path, &from).map(Some),
        }
    }

    /// Removes files that are left from an interrupted backup, and makes all names durable.
    pub(crate) fn finish(&self, files: &[BackupFile]) -> anyhow::Result<()> {
        let kept: std::collections::HashSet<PathBuf> =
            files.iter().map(|file| self.folder.join(&file.path)).collect();
        settle_folder(&self.folder, &kept)
            .with_context(|| format!("cannot complete {}", self.folder.display()))
    }

    fn add_unchanging(
        &mut self,
        path: String,
        file: &File,
        bytes: u64,
    ) -> anyhow::Result<BackupFile> {
        let source = Some(FileIdentity::of(&file.metadata()?));
        if let Some(reused) = self.reuse(&path, bytes, source)? {
            self.totals.reused_files += 1;
            self.bar.inc(bytes);
            return Ok(reused);
        }
        let copied = BackupFile { source, ..self.copy(path, file, bytes)? };
        let mut line = serde_json::to_vec(&copied)?;
        line.push(b'\n');
        self.journal.write_all(&line).context("cannot write the journal of the backup")?;
        Ok(copied)
    }

    /// Links a file that was copied before. Without hard links in the folder's file system, it is
    /// copied again.
    fn reuse(
        &mut self,
        path: &str,
        bytes: u64,
        source: Option<FileIdentity>,
    ) -> anyhow::Result<Option<BackupFile>> {
        let target = self.folder.join(path);
        let Some(KnownFile { copy, file, .. }) = self.known.remove(path) else { return Ok(None) };
        let is_same = (file.bytes, file.source) == (bytes, source);
        if !is_same || fs::metadata(&copy).map(|it| it.len()).ok() != Some(bytes) {
            return Ok(None);
        }
        if copy == target {
            return Ok(Some(file));
        }
        let is_due = u64::from(crc32c::crc32c(path.as_bytes())) % CHECK_ROUNDS == self.round;
        if is_due && !self.is_intact(&copy, &file) {
            output::note(&format!(
                "warning: {} is damaged and is copied again; check its disk, and the older backups (weir backup verify)",
                copy.display()
            ));
            return Ok(None);
        }
        remove_if_present(&target)?;
        Ok(fs::hard_link(copy, &target).is_ok().then_some(file))
    }

    /// Reads a copy. Returns whether it is as it was written.
    fn is_intact(&mut self, copy: &Path, file: &BackupFile) -> bool {
        let opened = File::open(copy);
        let read = opened.and_then(|opened| checksum(&opened, |bytes| self.pace.wait_for(bytes)));
        read.is_ok_and(|(bytes, crc32c)| (bytes, crc32c) == (file.bytes, file.crc32c))
    }

    /// Copies the first `bytes` of a file.
    fn copy(&mut self, path: String, file: &File, bytes: u64) -> anyhow::Result<BackupFile> {
        let target = self.folder.join(&path);
        let unfinished = target.with_extension(UNFINISHED);
        let mut out = create(&unfinished)?;
        let mut buffer = vec![0; CHUNK_BYTES];
        let (mut done, mut crc32c, mut unsynced) = (0, 0, 0);
        while done < bytes {
            let wanted = usize::try_from(bytes - done).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
            self.pace.wait_for(wanted as u64);
            let chunk = &mut buffer[..wanted];
            file.read_exact_at(chunk, done).with_context(|| format!("cannot read {path}"))?;
            crc32c = crc32c::crc32c_append(crc32c, chunk);
            out.write_all(chunk).map_err(|error| write_error(error, &target))?;
            done += wanted as u64;
            unsynced += wanted as u64;
            if unsynced >= SYNC_BYTES {
                out.sync_data().map_err(|error| write_error(error, &target))?;
                unsynced = 0;
            }
            self.bar.inc(wanted as u64);
        }
        self.finish_file(path, &out, &unfinished, done, crc32c)
    }

    fn write(&mut self, path: String, bytes: &[u8]) -> anyhow::Result<BackupFile> {
        let target = self.folder.join(&path);
        let unfinished = target.with_extension(UNFINISHED);
        let mut out = create(&unfinished)?;
        out.write_all(bytes).map_err(|error| write_error(error, &target))?;
        self.finish_file(path, &out, &unfinished, bytes.len() as u64, crc32c::crc32c(bytes))
    }

    fn add_database(&mut self, path: String, from: &Path) -> anyhow::Result<BackupFile> {
        let unfinished = self.folder.join(&path).with_extension(UNFINISHED);
        remove_if_present(&unfinished)?;
        weir_gems::store::back_up(from, &unfinished)
            .with_context(|| format!("cannot copy {}", from.display()))?;
        let file = File::open(&unfinished)?;
        let (bytes, crc32c) = checksum(&file, |_| ())?;
        self.finish_file(path, &file, &unfinished, bytes, crc32c)
    }

    /// Makes a file durable and gives it its name.
    fn finish_file(
        &mut self,
        path: String,
        out: &File,
        unfinished: &Path,
        bytes: u64,
        crc32c: u32,
    ) -> anyhow::Result<BackupFile> {
        let target = self.folder.join(&path);
        out.sync_data().map_err(|error| write_error(error, &target))?;
        fs::rename(unfinished, &target).map_err(|error| write_error(error, &target))?;
        self.totals.copied_files += 1;
        self.totals.copied_bytes += bytes;
        Ok(BackupFile { path, bytes, crc32c, source: None })
    }
}

/// Returns the size of a file and the CRC32C of its bytes. `on_read` gets the size of each chunk.
pub(crate) fn checksum(mut file: &File, mut on_read: impl FnMut(u64)) -> io::Result<(u64, u32)> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let (mut bytes, mut crc32c) = (0, 0);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((bytes, crc32c)),
            read => {
                crc32c = crc32c::crc32c_append(crc32c, &buffer[..read]);
                bytes += read as u64;
                on_read(read as u64);
            }
        }
    }
}

fn create(path: &Path) -> anyhow::Result<File> {
    File::create(path).map_err(|error| write_error(error, path))
}

/// Describes an error of the folder of backups, and what to do.
fn write_error(error: io::Error, path: &Path) -> anyhow::Error {
    let what = format!("cannot write {}", path.display());
    let is_full = matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    );
    let advice = "there is no room for the backup; free some (fewer backups: --keep) and run it again, it continues with the files that are complete";
    match is_full {
        true => anyhow::Error::new(error).context(format!("{what}: {advice}")),
        false => anyhow::Error::new(error).context(what),
    }
}

fn remove_if_present(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            bail!("cannot delete {}: {error}", path.display())
        }
        _ => Ok(()),
    }
}

/// Deletes files that are not in `kept`, and syncs the folder with those below it.
fn settle_folder(folder: &Path, kept: &std::collections::HashSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            settle_folder(&path, kept)?;
        } else if !kept.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    sync_folder(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::manifest::Manifest;
    use weir_base::clock::{Clock, Timestamp};

    const PATH: &str = "jobs/0000000001.log";
    const CONTENT: &[u8] = b"a sealed segment";

    /// Makes a backup of one sealed segment. Returns what it has of it, and how much was copied.
    fn back_up(folder: &Path, segment: &Path) -> (Vec<u8>, CopyTotals) {
        let repository = Repository::open_to_write(folder).expect("opened");
        let sequence = repository.next_sequence().expect("read");
        let pace = Pace::new(Clock::system(), 0);
        let mut copier =
            Copier::new(&repository, pace, ProgressBar::hidden(), sequence).expect("made");
        let content = Content::Sealed(File::open(segment).expect("a file"), CONTENT.len() as u64);
        let added = copier.add(Source { path: PATH.to_owned(), content }).expect("copied");
        let mut manifest = Manifest::new(Timestamp::from_millis(1_000), sequence);
        manifest.files.extend(added);
        manifest.write(&repository.partial().expect("made")).expect("written");
        let name = repository.complete(&manifest).expect("named");
        let copy = folder.join(name).join(manifest::DATA).join(PATH);
        (fs::read(copy).expect("a copy"), copier.totals)
    }

    /// A bad block of the backup's disk must not be in all later backups.
    #[test]
    fn a_damaged_copy_is_replaced_within_the_rounds() {
        let (folder, data) =
            (tempfile::tempdir().expect("made"), tempfile::tempdir().expect("made"));
        let segment = data.path().join("segment");
        fs::write(&segment, CONTENT).expect("written");
        back_up(folder.path(), &segment);
        let (_, totals) = back_up(folder.path(), &segment);
        assert_eq!((totals.copied_files, totals.reused_files), (0, 1));
        let repository = Repository::open_to_read(folder.path()).expect("opened");
        let copy = repository.backups().expect("read").complete[0].path(PATH);
        drop(repository);
        fs::write(copy, CONTENT.to_ascii_uppercase()).expect("damaged");
        let is_intact = |_| back_up(folder.path(), &segment).0 == CONTENT;
        let intact = (0..CHECK_ROUNDS).map(is_intact).collect::<Vec<_>>();
        assert_eq!(intact.last(), Some(&true), "{intact:?}");
        assert_eq!(back_up(folder.path(), &segment).1.copied_files, 0);
    }

    /// A kill cuts the journal's last line off; what is copied later must be known all the same.
    #[test]
    fn files_behind_a_torn_line_of_the_journal_are_known() {
        let folder = tempfile::tempdir().expect("made");
        let segment = folder.path().join("segment");
        fs::write(&segment, CONTENT).expect("written");
        let repository = Repository::open_to_write(folder.path()).expect("opened");
        repository.journal().expect("opened").write_all(b"{\"path\":\"jo").expect("written");
        let add = || {
            let pace = Pace::new(Clock::system(), 0);
            let mut copier =
                Copier::new(&repository, pace, ProgressBar::hidden(), 1).expect("made");
            let content = Content::Sealed(File::open(&segment).expect("open"), 5);
            copier.add(Source { path: PATH.to_owned(), content }).expect("copied");
            copier.totals.copied_files
        };
        assert_eq!((add(), add()), (1, 0));
    }
}
