//! Unix sockets whose path is longer than the kernel's 107 bytes.
//!
//! The kernel copies the path into a field of 108 bytes. For a longer path, the folder is opened
//! and the socket is named `/proc/self/fd/N/NAME`, which is short however deep the folder is. Only
//! the file's own name has to be short.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// `sun_path` holds 108 bytes, the last of them the terminating zero.
pub const PATH_BYTES_MAX: usize = 107;

/// A path that fits the kernel's field, valid while this value lives.
#[derive(Debug)]
pub struct ShortPath {
    path: PathBuf,
    _folder: Option<OwnedFd>,
}

impl ShortPath {
    /// Returns a short form of `path`. Neither needs to exist, but a long path's folder must.
    pub fn for_path(path: &Path) -> io::Result<Self> {
        if path.as_os_str().len() <= PATH_BYTES_MAX {
            return Ok(Self { path: path.to_owned(), _folder: None });
        }
        let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(invalid(format!("{} names no socket", path.display())));
        };
        let folder = rustix::fs::open(
            parent,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let short = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
        let bytes = short.as_os_str().len();
        if bytes > PATH_BYTES_MAX {
            let name = name.display();
            return Err(invalid(format!(
                "the socket's name {name} is too long for the kernel ({bytes} bytes with its \
                 folder, at most {PATH_BYTES_MAX}); choose a shorter name"
            )));
        }
        Ok(Self { path: short, _folder: Some(folder) })
    }

    /// Returns the path for bind or connect.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.path
    }
}

/// Connects to the unix socket at `path`, which may have any length.
pub fn connect(path: &Path) -> io::Result<std::os::unix::net::UnixStream> {
    std::os::unix::net::UnixStream::connect(ShortPath::for_path(path)?.as_path())
}
