//! The folder for sockets of workers that run as another user. data_dir stays private to Weir's user.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

/// The system's folder for running programs, which is empty after a boot.
const SYSTEM: &str = "/run";
/// Weir's folder in it, as systemd creates it (`RuntimeDirectory=weir`).
pub const OUTSIDE: &str = "/run/weir";

/// Returns the folder of the Weir with this data_dir.
pub(super) fn outside_folder(data_dir: &Path) -> PathBuf {
    Path::new(OUTSIDE).join(format!("{:016x}", fingerprint(data_dir.as_os_str().as_bytes())))
}

/// Returns why the folder cannot be created or written, if so.
pub(super) fn access_error() -> Option<String> {
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

/// FNV-1a hash: distinguishes folders and is the same in every version.
fn fingerprint(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    bytes.iter().fold(start, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_folders_are_distinct() {
        let (one, other) =
            (outside_folder(Path::new("/srv/a")), outside_folder(Path::new("/srv/b")));
        assert_ne!(one, other);
        assert_eq!(one.parent(), Some(Path::new(OUTSIDE)));
        // It must not change between versions, or an upgrade would leave folders behind.
        assert_eq!(fingerprint(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
