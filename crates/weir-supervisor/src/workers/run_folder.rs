//! Where the sockets of one group lie: `RUN_FOLDER/GROUP/GENERATION.sock` and `.notify`.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};

use super::spec::GroupName;
use crate::system::Identity;

/// The kernel's limit for the path of a unix socket, its NUL aside (`unix(7)`).
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// Others may pass through the run folder but not look into it.
const RUN_FOLDER_MODE: u32 = 0o711;
/// Only the workers (and root) get at the sockets of a group.
const GROUP_FOLDER_MODE: u32 = 0o700;

const SOCKET: &str = "sock";
const NOTIFY: &str = "notify";

/// The folder of one group's sockets.
#[derive(Clone, Debug)]
pub(crate) struct GroupFolder(PathBuf);

impl GroupFolder {
    pub(crate) fn of(run_folder: &Path, group: &GroupName) -> Self {
        Self(run_folder.join(group.as_str()))
    }

    /// Where a generation listens.
    pub(crate) fn socket(&self, generation: u64) -> PathBuf {
        self.0.join(format!("{generation}.{SOCKET}"))
    }

    /// Where a generation says `READY=1`.
    pub(crate) fn notify(&self, generation: u64) -> PathBuf {
        self.0.join(format!("{generation}.{NOTIFY}"))
    }

    /// Why no socket can be bound here, if so.
    pub(crate) fn too_long(&self) -> Option<String> {
        let longest = self.notify(u64::MAX);
        let bytes = longest.as_os_str().len();
        (bytes > SOCKET_PATH_BYTES_MAX).then(|| {
            let spare = bytes - SOCKET_PATH_BYTES_MAX;
            let shown = self.0.display();
            format!("socket paths in {shown} would be {spare} bytes too long; use a shorter folder")
        })
    }

    /// Makes the folder, empty of sockets that earlier parents left.
    pub(crate) fn prepare(&self, owner: Option<&Identity>) -> io::Result<()> {
        if let Some(run_folder) = self.0.parent() {
            DirBuilder::new().recursive(true).mode(RUN_FOLDER_MODE).create(run_folder)?;
        }
        DirBuilder::new().recursive(true).mode(GROUP_FOLDER_MODE).create(&self.0)?;
        if let Some(owner) = owner {
            chown(&self.0, Some(owner.uid), Some(owner.gid))?;
        }
        for entry in std::fs::read_dir(&self.0)? {
            let path = entry?.path();
            let extension = path.extension().and_then(|extension| extension.to_str());
            if matches!(extension, Some(SOCKET | NOTIFY)) {
                std::fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}
