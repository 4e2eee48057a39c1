//! Where the sockets of workers lie that run as another user. data_dir is open to Weir's own user
//! alone, and stays so.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

/// What the system keeps for running programs; emptied when it starts.
const SYSTEM: &str = "/run";
/// Ours in it, as systemd makes it, too (`RuntimeDirectory=weir`).
pub const OUTSIDE: &str = "/run/weir";

/// The folder of the Weir with this data_dir.
pub(super) fn outside_of(data_dir: &Path) -> PathBuf {
    Path::new(OUTSIDE).join(format!("{:016x}", fingerprint(data_dir.as_os_str().as_bytes())))
}

/// Why nothing can be made there, if so.
pub(super) fn problem() -> Option<String> {
    let existing = [OUTSIDE, SYSTEM].into_iter().find(|folder| Path::new(folder).is_dir());
    let outcome = match existing {
        Some(folder) => rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK),
        None => Err(rustix::io::Errno::NOENT),
    };
    outcome.err().map(|error| {
        format!(
            "workers of another user have their sockets in {OUTSIDE}, which is not writable ({error}); create that folder (systemd: RuntimeDirectory=weir), or leave out user"
        )
    })
}

/// FNV-1a: tells folders apart, and is the same in every version.
fn fingerprint(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    bytes.iter().fold(start, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_data_dir_has_a_folder_of_its_own() {
        let (one, other) = (outside_of(Path::new("/srv/a")), outside_of(Path::new("/srv/b")));
        assert_ne!(one, other);
        assert_eq!(one.parent(), Some(Path::new(OUTSIDE)));
        // As published: it must not change with a version, or an upgrade leaves folders behind.
        assert_eq!(fingerprint(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
