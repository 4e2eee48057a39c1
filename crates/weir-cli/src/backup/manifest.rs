//! What a backup holds. The manifest is written last: a folder without one is no backup.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use weir_log::RecordPosition;

/// The file's name.
pub(crate) const FILE: &str = "manifest.json";
/// The folder beside it with the files, laid out like `data_dir`.
pub(crate) const DATA: &str = "data";
/// The version of the format: the one that is written, and the highest that is read.
const FORMAT: u32 = 1;
pub(crate) const MILLIS_PER_SECOND: u64 = 1_000;

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) format: u32,
    /// CRC32C of this document with 0 in this place.
    crc32c: u32,
    /// Ascends with each backup in a folder.
    pub(crate) sequence: u64,
    /// The version of Weir that wrote it.
    pub(crate) version: String,
    /// The time of the state that it holds, as RFC 3339.
    pub(crate) at: String,
    /// The same in milliseconds since the Unix epoch.
    pub(crate) at_ms: u64,
    /// `None`: the job log is not in it.
    pub(crate) jobs: Option<JobLogPart>,
    pub(crate) parts: Vec<PartNote>,
    pub(crate) files: Vec<BackupFile>,
}

/// The job log in a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobLogPart {
    /// 16 hexadecimal digits.
    pub(crate) log_id: String,
    /// The segment and the offset at which the copy ends.
    pub(crate) segment: u32,
    pub(crate) offset: u32,
    /// The first second (since the Unix epoch) to which this backup alone can be restored. `None`:
    /// only to its own time.
    pub(crate) restorable_from: Option<u64>,
    /// The last such second: that of the backup, unless the index of times has lost its last marks.
    pub(crate) restorable_until: Option<u64>,
    /// What restores discarded from the log, oldest first.
    pub(crate) discarded: Vec<Discarded>,
}

/// A restore continued the log as of `from` (in seconds since the Unix epoch) at `until`: what was
/// appended in between is only in backups of that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Discarded {
    pub(crate) from: u64,
    pub(crate) until: u64,
}

/// What the backup has of a part of Weir.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartNote {
    pub(crate) part: String,
    pub(crate) is_included: bool,
    /// What is in it, or why it is not.
    pub(crate) note: String,
}

/// A file in a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BackupFile {
    /// Relative to `data_dir`.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) crc32c: u32,
    /// The file that was copied, if it never changes: the next backup need not copy it.
    pub(crate) source: Option<FileIdentity>,
}

/// Tells whether a file is still the one that was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileIdentity {
    device: u64,
    inode: u64,
    modified_s: i64,
    modified_ns: i64,
}

impl FileIdentity {
    pub(crate) fn of(metadata: &fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            modified_s: metadata.mtime(),
            modified_ns: metadata.mtime_nsec(),
        }
    }
}

impl JobLogPart {
    pub(crate) const fn new(log_id: String, segment: u32, offset: u32) -> Self {
        let (restorable_from, restorable_until) = (None, None);
        let discarded = Vec::new();
        Self { log_id, segment, offset, restorable_from, restorable_until, discarded }
    }

    pub(crate) fn end(&self) -> RecordPosition {
        RecordPosition { segment: self.segment, offset: self.offset }
    }

    /// Returns the log's id as a number.
    pub(crate) fn id(&self) -> anyhow::Result<u64> {
        u64::from_str_radix(&self.log_id, 16).context("the manifest's log_id is not a number")
    }
}

impl Manifest {
    pub(crate) fn new(at: weir_base::clock::Timestamp, sequence: u64) -> Self {
        Self {
            format: FORMAT,
            crc32c: 0,
            sequence,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            at: weir_jobs::stamp::rfc3339(at),
            at_ms: at.as_millis(),
            jobs: None,
            parts: Vec::new(),
            files: Vec::new(),
        }
    }

    /// Returns the bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Returns the last whole second that the backup covers.
    pub(crate) fn last_second(&self) -> u64 {
        self.at_ms / MILLIS_PER_SECOND
    }

    pub(crate) fn file(&self, path: &str) -> Option<&BackupFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Writes the manifest into `folder` and makes it durable.
    pub(crate) fn write(&mut self, folder: &Path) -> anyhow::Result<()> {
        self.crc32c = 0;
        self.crc32c = crc32c::crc32c(&serde_json::to_vec_pretty(self)?);
        let path = folder.join(FILE);
        let write = || {
            let mut file = fs::File::create(&path)?;
            file.write_all(&serde_json::to_vec_pretty(self)?)?;
            file.sync_all()
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads the manifest of the backup in `folder`.
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(FILE);
        let shown = path.display();
        let bytes = fs::read(&path).with_context(|| format!("cannot read {shown}"))?;
        Self::parse(&bytes).with_context(|| format!("{shown} can't be used"))
    }

    fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let Version { format } = serde_json::from_slice(bytes).context("it is damaged")?;
        if format != FORMAT {
            bail!("it has format {format}, this Weir reads {FORMAT}; use the Weir that wrote it");
        }
        let mut manifest: Self = serde_json::from_slice(bytes).context("it is damaged")?;
        let expected = std::mem::take(&mut manifest.crc32c);
        if crc32c::crc32c(&serde_json::to_vec_pretty(&manifest)?) != expected {
            bail!("it is damaged: its checksum does not match");
        }
        if let Some(file) = manifest.files.iter().find(|file| !is_below(&file.path)) {
            bail!("it names {:?}, which is no path below data_dir", file.path);
        }
        manifest.crc32c = expected;
        Ok(manifest)
    }
}

/// Returns whether a path stays below the folder that it is relative to.
fn is_below(path: &str) -> bool {
    let mut parts = Path::new(path).components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_base::clock::Timestamp;

    fn manifest(path: &str) -> Manifest {
        let mut manifest = Manifest::new(Timestamp::from_millis(1_700_000_000_500), 1);
        let file = BackupFile { path: path.to_owned(), bytes: 3, crc32c: 9, source: None };
        manifest.files.push(file);
        manifest
    }

    #[test]
    fn a_manifest_is_read_again_and_a_changed_byte_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut written = manifest("jobs/0000000001.log");
        written.write(folder.path()).expect("written");
        assert_eq!(Manifest::read(folder.path()).expect("read"), written);
        let bytes = fs::read(folder.path().join(FILE)).expect("read");
        for (at, byte) in bytes.iter().enumerate().filter(|(_, byte)| byte.is_ascii_digit()) {
            let mut changed = bytes.clone();
            changed[at] = if *byte == b'9' { b'8' } else { byte + 1 };
            assert!(Manifest::parse(&changed).is_err(), "byte {at}");
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = Manifest::parse(&bytes);
        }
    }

    #[test]
    fn paths_outside_of_data_dir_are_rejected() {
        for path in ["../weir.toml", "/etc/passwd", "jobs/../../x", ""] {
            let folder = tempfile::tempdir().expect("a folder");
            manifest(path).write(folder.path()).expect("written");
            let error = Manifest::read(folder.path()).expect_err("rejected");
            assert!(format!("{error:#}").contains("no path below data_dir"), "{path}: {error:#}");
        }
    }
}
