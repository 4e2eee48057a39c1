//! Copies the files of a plan into an empty data directory, and checks the result.

use std::fs::{self, DirBuilder, File};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, lchown};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use indicatif::ProgressBar;
use weir_config::Settings;
use weir_log::RealDisk;
use weir_realtime::SavedError;

use super::discarded;
use super::manifest::{BackupFile, Discarded};
use super::marker::{self, sync_folder};
use super::plan::{JobLogPlan, PlannedFile, RestorePlan};
use super::sources::log_path;
use crate::output;

const CHUNK_BYTES: usize = 1 << 20;
/// What may be in a directory that counts as empty: the lock that the restore itself takes, and the
/// folder that a new file system has.
const IGNORED: [&str; 2] = ["weir.lock", "lost+found"];

/// Checks that a restore would replace nothing in `data_dir`. What an incomplete restore has left
/// does not count.
pub(crate) fn check_empty(data_dir: &Path) -> anyhow::Result<()> {
    if marker::is_in(data_dir) || !data_dir.exists() {
        return Ok(());
    }
    let shown = data_dir.display();
    for entry in fs::read_dir(data_dir).with_context(|| format!("cannot read {shown}"))? {
        let name = entry?.file_name();
        if !IGNORED.iter().any(|ignored| name == *ignored) {
            bail!(
                "{shown} is not empty (it has {}); move it away (mv {shown} {shown}.old), or name another directory with --data-dir",
                name.to_string_lossy()
            );
        }
    }
    Ok(())
}

/// Fills `data_dir`, which is locked and empty or has an incomplete restore. `now_s` is the time in
/// seconds since the Unix epoch.
///
/// # Errors
/// A file of the backup is damaged or can't be copied. The directory then stays marked as
/// incomplete.
pub(crate) fn fill(
    plan: &RestorePlan<'_>,
    settings: &Settings,
    now_s: u64,
    bar: &ProgressBar,
) -> anyhow::Result<()> {
    let data_dir = &settings.data_dir;
    marker::create(data_dir)?;
    clear(data_dir)?;
    let target = Target { folder: data_dir, owner: owner_to_set(data_dir)? };
    for file in planned_files(plan) {
        target.copy(&file, bar)?;
    }
    begin_new_epochs(&settings.histories_file(), &settings.durable_histories_folder())?;
    if let Some(jobs) = &plan.jobs {
        let index = weir_log::time_marks_file(&jobs.marks, jobs.log_id);
        target.write(&log_path(weir_log::TIMES_FILE), &index)?;
        let from = plan.at.unwrap_or(plan.rest.manifest.last_second());
        let text = discarded::text(&jobs.discarded, Discarded { from, until: now_s });
        target.write(&log_path(discarded::FILE), text.as_bytes())?;
        check_log(jobs, &settings.jobs.settings.directory)?;
    }
    target.settle(data_dir)?;
    marker::remove(data_dir).context("cannot complete the restore")
}

/// Gives the restored histories of realtime new epochs. Damaged ones, which Weir would not read
/// either, must not make jobs unrestorable.
fn begin_new_epochs(path: &Path, log: &Path) -> anyhow::Result<()> {
    match weir_realtime::begin_new_epochs(path, log) {
        Err(error @ SavedError::Damaged { .. }) => {
            output::note(&format!("warning: {error}"));
            fs::remove_file(path).with_context(|| format!("cannot delete {}", path.display()))?;
            begin_new_epochs(path, log)
        }
        Err(error @ SavedError::Log(_)) if log.exists() => {
            let aside = log.with_extension("damaged");
            if aside.exists() {
                // The log is there already, and this folder is the one that was to replace it.
                output::note(&format!(
                    "warning: {error}; the log is now {}, and its channels begin without a history",
                    aside.display()
                ));
                fs::remove_dir_all(log)
                    .with_context(|| format!("cannot delete {}", log.display()))?;
                return begin_new_epochs(path, log);
            }
            output::note(&format!(
                "warning: {error}; the folder is now {}, and its channels begin without a history",
                aside.display()
            ));
            fs::rename(log, &aside).with_context(|| format!("cannot rename {}", log.display()))?;
            begin_new_epochs(path, log)
        }
        result => result.map(|_| ()).map_err(Into::into),
    }
}

/// Lists the files of a plan: those of the job log, and of the other backup all others.
pub(crate) fn planned_files(plan: &RestorePlan<'_>) -> Vec<PlannedFile> {
    let is_of_log = |file: &&BackupFile| file.path.starts_with(&log_path(""));
    let of_rest = |file: &BackupFile| PlannedFile {
        from: plan.rest.path(&file.path),
        file: file.clone(),
        bytes: file.bytes,
    };
    let rest = plan.rest.manifest.files.iter().filter(|file| !is_of_log(file)).map(of_rest);
    let jobs = plan.jobs.iter().flat_map(|jobs| &jobs.files).map(|planned| PlannedFile {
        from: planned.from.clone(),
        file: planned.file.clone(),
        bytes: planned.bytes,
    });
    jobs.chain(rest).collect()
}

/// Checks every record of the restored log, and that it ends where it should.
fn check_log(jobs: &JobLogPlan, directory: &Path) -> anyhow::Result<()> {
    let disk = RealDisk::read_only(directory);
    let extent = weir_log::extent(&disk).context("the restored job log can't be read")?;
    let extent = extent.context("the restored job log is empty")?;
    if (extent.log_id, extent.end) != (jobs.log_id, jobs.end) {
        bail!("the restored job log ends at {} instead of {}", extent.end, jobs.end);
    }
    let verification = weir_log::verify(&disk, &mut |_| {})?;
    if let Some(damage) = verification.damages.first() {
        let weir_log::Damage { file, offset, why, .. } = damage;
        let backup = &jobs.backup;
        bail!(
            "{file} in the backup {backup} was damaged when it was copied, at offset {offset}: {why}; restore an earlier backup, or copy its data folder by hand and start Weir, which repairs what can be"
        );
    }
    Ok(())
}

/// Deletes what an incomplete restore has left.
fn clear(data_dir: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(data_dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == marker::FILE || IGNORED.iter().any(|ignored| name == *ignored) {
            continue;
        }
        let path = entry.path();
        let removed = match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(&path),
            false => fs::remove_file(&path),
        };
        removed.with_context(|| format!("cannot delete {}", path.display()))?;
    }
    Ok(())
}

/// Returns the owner that the files get: that of the directory, if root restores for another user.
fn owner_to_set(data_dir: &Path) -> anyhow::Result<Option<(u32, u32)>> {
    let metadata = fs::metadata(data_dir)?;
    let is_root = rustix::process::geteuid().is_root();
    Ok((is_root && metadata.uid() != 0).then(|| (metadata.uid(), metadata.gid())))
}

/// The directory that is filled.
struct Target<'a> {
    folder: &'a Path,
    owner: Option<(u32, u32)>,
}

impl Target<'_> {
    fn copy(&self, planned: &PlannedFile, bar: &ProgressBar) -> anyhow::Result<()> {
        let PlannedFile { from, file, bytes } = planned;
        let shown = from.display();
        let read = || format!("cannot read {shown}");
        let mut input = File::open(from).with_context(read)?;
        let (path, mut out) = self.create(&file.path)?;
        let mut buffer = vec![0; CHUNK_BYTES];
        let (mut done, mut crc32c) = (0, 0);
        loop {
            let chunk = match input.read(&mut buffer).with_context(read)? {
                0 => break,
                read => &buffer[..read],
            };
            crc32c = crc32c::crc32c_append(crc32c, chunk);
            let wanted = usize::try_from(bytes.saturating_sub(done)).unwrap_or(chunk.len());
            out.write_all(&chunk[..wanted.min(chunk.len())])
                .with_context(|| format!("cannot write {}", path.display()))?;
            done += chunk.len() as u64;
            bar.inc(chunk.len() as u64);
        }
        if (done, crc32c) != (file.bytes, file.crc32c) {
            bail!(
                "{shown} is damaged: its size or checksum is not that of the manifest; restore an earlier backup (weir backup list)"
            );
        }
        out.sync_data().with_context(|| format!("cannot write {}", path.display()))
    }

    fn write(&self, path: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let (path, mut out) = self.create(path)?;
        out.write_all(bytes)
            .and_then(|()| out.sync_data())
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Creates a file, and the folders above it, for this user or the owner of the directory.
    fn create(&self, path: &str) -> anyhow::Result<(PathBuf, File)> {
        let path = self.folder.join(path);
        let parent = path.parent().unwrap_or(self.folder);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)
            .with_context(|| format!("cannot make {}", parent.display()))?;
        let mut options = File::options();
        let created = options.write(true).create_new(true).mode(0o600).open(&path);
        let file = created.with_context(|| format!("cannot write {}", path.display()))?;
        Ok((path, file))
    }

    /// Makes the names durable and sets the owner of all files.
    fn settle(&self, folder: &Path) -> anyhow::Result<()> {
        let entries = fs::read_dir(folder);
        for entry in entries.with_context(|| format!("cannot read {}", folder.display()))? {
            let entry = entry?;
            // Of the file system, and readable by root only.
            if IGNORED.iter().any(|name| entry.file_name() == *name) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                self.settle(&entry.path())?;
            }
            if let Some((user, group)) = self.owner {
                lchown(entry.path(), Some(user), Some(group)).with_context(|| {
                    format!("cannot change the owner of {}", entry.path().display())
                })?;
            }
        }
        sync_folder(folder).with_context(|| format!("cannot sync {}", folder.display()))
    }
}
