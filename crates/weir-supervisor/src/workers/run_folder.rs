//! Where the sockets of one group lie: `RUN_FOLDER/GROUP/GENERATION.sock` and `.notify`. Of workers that
//! run as somebody it is `RUN_FOLDER/GROUP.UID`: when a group gets another user, those of the one before
//! still have theirs.

use std::collections::BTreeSet;
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
    /// `owner`: whom the workers run as; None: as the parent.
    pub(crate) fn of(run_folder: &Path, group: &GroupName, owner: Option<&Identity>) -> Self {
        Self(match owner {
            // No name of a group has a dot in it.
            Some(owner) => run_folder.join(format!("{}.{}", group.as_str(), owner.uid)),
            None => run_folder.join(group.as_str()),
        })
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

    /// Makes the folder, empty of sockets that earlier parents left: those of `running` generations
    /// stay.
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

/// The worker of a socket. None: it is not one of Weir's.
fn generation(path: &Path) -> Option<u64> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let is_ours = matches!(extension, Some(SOCKET | NOTIFY));
    path.file_stem().filter(|_| is_ours)?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_earlier_parents_left_goes_and_the_sockets_of_those_that_run_stay() {
        let run_folder = tempfile::tempdir().expect("a folder");
        let folder = GroupFolder::of(run_folder.path(), &"shop".parse().expect("a name"), None);
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
    fn each_user_has_a_folder_and_no_group_can_be_called_like_it() {
        let of = |group: &str, owner: Option<&Identity>| {
            GroupFolder::of(Path::new("/run"), &group.parse().expect("a name"), owner).0
        };
        let root = Identity::find(Some("root"), None).expect("found");
        assert_eq!(of("shop", None), Path::new("/run/shop"));
        assert_eq!(of("shop", Some(&root)), Path::new("/run/shop.0"));
        assert!("shop.0".parse::<GroupName>().is_err());
    }
}
