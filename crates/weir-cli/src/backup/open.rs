//! Opens files of a data directory that belongs to another user.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, bail};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors besides those of the segments.
const DESCRIPTORS_SPARE: u64 = 64;

/// Opens a file, or returns `None` if there is none.
pub(crate) fn open_if_present(path: &Path) -> anyhow::Result<Option<File>> {
    match open_regular(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let user = "run the command as the user that runs Weir, or as root";
            Err(error).with_context(|| format!("cannot read {}; {user}", path.display()))
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Opens a file of `data_dir`. Root must not read what a symbolic link of another user names, nor
/// wait for the other end of a pipe.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let opened = File::options().read(true).custom_flags(flags).open(path);
    let is_link = |error: &io::Error| error.raw_os_error() == Some(Errno::LOOP.raw_os_error());
    let file = match opened {
        Err(error) if is_link(&error) => {
            return Err(io::Error::other("it is a symbolic link; replace it by the file"));
        }
        opened => opened?,
    };
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file; move it out of data_dir")),
    }
}

/// Allows to open as many segments, and what the command itself needs.
pub(crate) fn raise_descriptor_limit(segments: u64) -> anyhow::Result<()> {
    let needed = segments + DESCRIPTORS_SPARE;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        bail!(
            "the job log has {segments} segments; allow {needed} open files (ulimit -n {needed})"
        );
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum })
        .context("cannot raise the limit of open files")
}
