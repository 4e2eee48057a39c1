//! Compares the files of a backup with its manifest, and the records of its job log with their
//! checksums.

use std::fs::File;
use std::io;

use anyhow::Context;
use indicatif::ProgressBar;
use weir_log::RealDisk;

use super::copier::checksum;
use super::manifest::BackupFile;
use super::repository::Backup;
use super::sources::log_path;

/// A file of a backup that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DamagedFile {
    pub(crate) path: String,
    pub(crate) why: String,
}

/// Reads all files of a backup. Returns those that are damaged or missing.
///
/// # Errors
/// A file can't be read for another reason than its absence.
pub(crate) fn check(backup: &Backup, bar: &ProgressBar) -> anyhow::Result<Vec<DamagedFile>> {
    let mut damaged = Vec::new();
    for file in &backup.manifest.files {
        if let Some(why) = check_file(backup, file)? {
            damaged.push(DamagedFile { path: file.path.clone(), why });
        }
        bar.inc(file.bytes);
    }
    if backup.manifest.jobs.is_some() && damaged.is_empty() {
        damaged.extend(check_log(backup)?);
    }
    Ok(damaged)
}

/// Returns why a file is not the one in the manifest.
fn check_file(backup: &Backup, file: &BackupFile) -> anyhow::Result<Option<String>> {
    let path = backup.path(&file.path);
    let opened = match File::open(&path) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Some("it is missing".to_owned()));
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let (bytes, crc32c) =
        checksum(&opened, |_| ()).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(if bytes != file.bytes {
        Some(format!("it has {bytes} bytes instead of {}", file.bytes))
    } else {
        (crc32c != file.crc32c).then(|| "its checksum does not match".to_owned())
    })
}

/// Checks each record of the job log: the backup may be a true copy of a damaged log.
fn check_log(backup: &Backup) -> anyhow::Result<Vec<DamagedFile>> {
    let disk = RealDisk::read_only(&backup.path(&log_path("")));
    let verification = weir_log::verify(&disk, &mut |_| {}).context("cannot check the job log")?;
    let damages = verification.damages.iter();
    Ok(damages
        .map(|damage| DamagedFile {
            path: log_path(&damage.file),
            why: format!(
                "it was damaged when it was copied, at offset {}: {}",
                damage.offset, damage.why
            ),
        })
        .collect())
}
