//! The paths of one group's sockets: `RUN_FOLDER/GROUP/GENERATION.sock` and `.notify`. The folder
//! is `RUN_FOLDER/GROUP.UID` for workers with a configured user: when the user changes, workers of
//! the previous one keep their sockets.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};

use super::spec::GroupName;
use crate::system::Identity;

/// The kernel's limit for the path of a unix socket without its NUL (`unix(7)`).
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// Other users may traverse the run folder but not list it.
const RUN_FOLDER_MODE: u32 = 0o711;
/// Only the workers' user (and root) can access the sockets of a group.
const GROUP_FOLDER_MODE: u32 = 0o700;

const SOCKET: &str = "sock";
const NOTIFY: &str = "notify";

/// The folder of one group's sockets.
#[derive(Clone, Debug)]
pub(crate) struct GroupFolder(PathBuf);

impl GroupFolder {
    /// Returns the folder of `group`. `owner` is the identity of the workers; None: the parent's.
    pub(crate) fn new(run_folder: &Path, group: &GroupName, owner: Option<&Identity>) -> Self {
        Self(match owner {
            // Names of groups have no dot.
            Some(owner) => run_folder.join(format!("{}.{}", group.as_str(), owner.uid)),
            None => run_folder.join(group.as_str()),
        })
    }

    /// Returns the path of a generation's listening socket.
    pub(crate) fn socket(&self, generation: u64) -> PathBuf {
        self.0.join(format!("{generation}.{SOCKET}"))
    }

    /// Returns the path of a generation's `NOTIFY_SOCKET`.
    pub(crate) fn notify(&self, generation: u64) -> PathBuf {
        self.0.join(format!("{generation}.{NOTIFY}"))
    }

    /// Returns an error text if the socket paths would be too long.
    pub(crate) fn too_long(&self) -> Option<String> {
        let longest = self.notify(u64::MAX);
        let bytes = longest.as_os_str().len();
        (bytes > SOCKET_PATH_BYTES_MAX).then(|| {
            let excess = bytes - SOCKET_PATH_BYTES_MAX;
            let folder = self.0.display();
            format!(
                "socket paths in {folder} would be {excess} bytes too long; use a shorter folder"
            )
        })
    }

    /// Creates the folder and removes sockets of earlier parents, except those of `running`
    /// generations.
    pub(crate) fn prepare(
        &self,
        owner: Option<&Identity>,
        running: &BTreeSet<u64>,
    ) -> io::Result<()> {
        if let Some(run_folder) = self.0.parent() {
            DirBuilder::new().recursive(true).mode(RUN_FOLDER_MODE).create(run_folder)?;
        }
        DirBuilder::new().recursive(true).mode(GROUP_FOLDER_MODE).create(&self.0)?;
        if let Some(owner) = owner {
            chown(&self.0, Some(owner.uid), Some(owner.gid))?;
        }
        for entry in std::fs::read_dir(&self.0)? {
            let path = entry?.path();
            if generation(&path).is_some_and(|generation| !running.contains(&generation)) {
                std::fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

/// Returns the generation of a socket. None: it is not a socket of Weir's.
fn generation(path: &Path) -> Option<u64> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let is_ours = matches!(extension, Some(SOCKET | NOTIFY));
    path.file_stem().filter(|_| is_ours)?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_sockets_are_removed_and_those_of_running_workers_kept() {
        let run_folder = tempfile::tempdir().expect("a folder");
        let folder = GroupFolder::new(run_folder.path(), &"shop".parse().expect("a name"), None);
        folder.prepare(None, &BTreeSet::new()).expect("made");
        for name in ["1.sock", "1.notify", "2.sock", "2.notify", "app.sock", "3.log"] {
            std::fs::write(run_folder.path().join("shop").join(name), "").expect("written");
        }
        folder.prepare(None, &BTreeSet::from([2])).expect("prepared");
        let left = std::fs::read_dir(run_folder.path().join("shop")).expect("a folder");
        let mut left: Vec<_> = left.map(|entry| entry.expect("one").file_name()).collect();
        left.sort();
        assert_eq!(left, ["2.notify", "2.sock", "3.log", "app.sock"]);
    }

    #[test]
    fn each_user_has_a_folder_that_no_group_name_can_collide_with() {
        let of = |group: &str, owner: Option<&Identity>| {
            GroupFolder::new(Path::new("/run"), &group.parse().expect("a name"), owner).0
        };
        let root = Identity::find(Some("root"), None).expect("found");
        assert_eq!(of("shop", None), Path::new("/run/shop"));
        assert_eq!(of("shop", Some(&root)), Path::new("/run/shop.0"));
        assert!("shop.0".parse::<GroupName>().is_err());
    }
}
