//! Locks for resources that only one service process may use at a time during a replacement: the
//! job log with the admin API and the console, realtime's histories, and the mirror of gems (also
//! used by a command).
//!
//! Each is a locked file in `data_dir`. The kernel unlocks it when its holder ends for any reason.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

/// A held lock, released when dropped.
#[derive(Debug)]
pub struct HeldLock {
    _locked: File,
}

/// A lock that is not held yet.
#[derive(Debug)]
pub struct HandoverLock {
    resource: LockedResource,
    file: File,
}

/// The resource.
#[derive(Clone, Copy, Debug)]
pub enum LockedResource {
    /// Publishing on realtime's channels.
    Histories,
    /// Serving jobs, the admin API and the console.
    JobsAndPages,
    /// Synchronizing with upstreams of gems.
    Mirror,
}

impl HandoverLock {
    /// Opens the lock file without locking it.
    pub fn open(resource: LockedResource, data_dir: &Path) -> anyhow::Result<Self> {
        let path = resource.path(data_dir);
        let mut options = OpenOptions::new();
        let open = options.write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = open.with_context(|| format!("cannot open {}", path.display()))?;
        Ok(Self { resource, file })
    }

    /// Locks it if it is free; None: another process holds it.
    pub fn try_acquire(self) -> anyhow::Result<Option<HeldLock>> {
        let Self { resource, file } = self;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(HeldLock { _locked: file })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => {
                Err(error).with_context(|| format!("cannot lock {}", resource.file_name()))
            }
        }
    }

    /// Waits for the lock without a limit.
    pub async fn acquire(self) -> anyhow::Result<HeldLock> {
        let Self { resource, file } = self;
        let locked = match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(file),
            Err(Errno::WOULDBLOCK) => {
                tracing::info!(of = ?resource, "waiting for the previous process to release the lock");
                tokio::task::spawn_blocking(move || lock(&file).map(|()| file)).await?
            }
            Err(error) => Err(error),
        };
        let _locked = locked.with_context(|| format!("cannot lock {}", resource.file_name()))?;
        Ok(HeldLock { _locked })
    }
}

impl LockedResource {
    fn path(self, data_dir: &Path) -> PathBuf {
        data_dir.join(self.file_name())
    }

    fn file_name(self) -> &'static str {
        match self {
            Self::Histories => "realtime.lock",
            Self::JobsAndPages => "service.lock",
            Self::Mirror => "mirror.lock",
        }
    }
}

fn lock(file: &File) -> rustix::io::Result<()> {
    loop {
        match rustix::fs::flock(file, FlockOperation::LockExclusive) {
            Err(Errno::INTR) => {}
            ended => return ended,
        }
    }
}
