//! Ensures one Weir per data directory: an advisory lock on `weir.lock`, which contains its
//! holder's pid.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::fs::FlockOperation;
use rustix::io::Errno;

/// The name of its descriptor.
pub const DESCRIPTOR: &str = "lock";

const FILE_NAME: &str = "weir.lock";

/// Interval of attempts to take a held lock.
const ORPHAN_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The least number of its descriptor. When a process is killed, the kernel closes its descriptors
/// in numeric order: whoever then gets the lock must find all listening sockets closed.
const NUMBER_MIN: i32 = 512;

/// The lock, held until it is dropped and every service that inherited it has ended.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Creates the directory, private to this user, and locks it. `orphan_wait` is how long to wait
    /// for a service whose parent was killed.
    pub fn take(data_dir: &Path, orphan_wait: Duration) -> anyhow::Result<Self> {
        make_folder(data_dir)?;
        let path = data_dir.join(FILE_NAME);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .with_context(|| unusable("cannot open", &path))?;
        lock(&mut file, FlockOperation::NonBlockingLockExclusive, data_dir, orphan_wait)?;
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
        let descriptor = rustix::io::fcntl_dupfd_cloexec(&file, NUMBER_MIN)?;
        Ok(Self(File::from(descriptor)))
    }

    /// Takes a shared lock for reading, and writes nothing. Returns None without a lock file: such
    /// a directory was never used by a Weir (a copy, for example), and the reader may be another
    /// user than the one that runs Weir.
    pub fn share(data_dir: &Path, orphan_wait: Duration) -> anyhow::Result<Option<Self>> {
        let path = data_dir.join(FILE_NAME);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot open {}", path.display()));
            }
        };
        lock(&mut file, FlockOperation::NonBlockingLockShared, data_dir, orphan_wait)?;
        Ok(Some(Self(file)))
    }

    /// Restores a lock that an earlier program of this process has taken.
    pub fn resume(file: OwnedFd) -> Self {
        Self(file.into())
    }

    /// Returns a duplicate of its descriptor.
    pub fn descriptor(&self) -> std::io::Result<OwnedFd> {
        self.0.try_clone().map(OwnedFd::from)
    }
}

/// Returns the process that runs Weir with this directory, as far as this user may read the lock.
pub(crate) fn running(data_dir: &Path) -> Option<i32> {
    let mut file = File::open(data_dir.join(FILE_NAME)).ok()?;
    let is_free = try_lock(&file, FlockOperation::NonBlockingLockShared).ok()?;
    if is_free { None } else { holder(&mut file) }
}

/// Creates the directory, private to this user, if it does not exist.
pub fn make_folder(data_dir: &Path) -> anyhow::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(data_dir)
        .with_context(|| unusable("cannot make data_dir", data_dir))
}

/// Returns the message for a path that this user cannot use, with the way out.
fn unusable(what: &str, path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let shown = path.display();
    format!(
        "{what} {shown} (name a directory that this user may write with --data-dir or data_dir)"
    )
}

/// Locks the file. Waits for a service whose parent was killed, but not for a living parent.
fn lock(
    file: &mut File,
    operation: FlockOperation,
    data_dir: &Path,
    orphan_wait: Duration,
) -> anyhow::Result<()> {
    let mut waited = Duration::ZERO;
    while !try_lock(file, operation)? {
        let living = holder(file).filter(|pid| is_alive(*pid));
        if living.is_some() || waited >= orphan_wait {
            let owner =
                living.map_or_else(|| "another process".to_owned(), |pid| format!("pid {pid}"));
            let shown = data_dir.display();
            bail!(
                "data_dir {shown} is in use by {owner}; stop that process, or choose another data_dir"
            );
        }
        std::thread::sleep(ORPHAN_POLL_INTERVAL);
        waited += ORPHAN_POLL_INTERVAL;
    }
    Ok(())
}

fn try_lock(file: &File, operation: FlockOperation) -> anyhow::Result<bool> {
    match rustix::fs::flock(file, operation) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error).context("cannot lock weir.lock"),
    }
}

fn holder(file: &mut File) -> Option<i32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn is_alive(pid: i32) -> bool {
    let Some(pid) = rustix::process::Pid::from_raw(pid) else {
        return false;
    };
    !matches!(rustix::process::test_kill_process(pid), Err(Errno::SRCH))
}
