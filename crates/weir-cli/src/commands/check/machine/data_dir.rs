//! The data directory, its disk, and the clock as its files show it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::Access;
use weir_base::clock::{Clock, Timestamp};

use super::machine_check::MachineCheck;

const NAME: &str = "data directory";
/// With less space, a segment of the job log and its successor (256 MiB each) no longer fit beside what an index of gems
/// needs for one migration.
const FREE_BYTES_MIN: u64 = 1 << 30;
/// A sync on a disk with a power-loss-safe cache takes 0.1 - 1 ms, on others 1 - 10 ms; each push waits for one.
const SYNC_TIME_MAX: Duration = Duration::from_millis(50);
/// Files written a moment ago may have a time that is rounded up.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(2);
/// Entries of the directory whose times are read.
const ENTRIES_MAX: usize = 10_000;
/// 2026-01-01: a clock that shows an earlier time was never set.
const CLOCK_MIN: Timestamp = Timestamp::from_millis(1_767_225_600_000);
/// `TMPFS_MAGIC` and `NFS_SUPER_MAGIC` of linux/magic.h.
const TMPFS: u64 = 0x0102_1994;
const NFS: u64 = 0x6969;

pub(super) fn check(data_dir: &Path, clock: &Clock) -> Vec<MachineCheck> {
    let Ok(metadata) = fs::metadata(data_dir) else {
        return vec![absent(data_dir), set_clock(data_dir, clock)];
    };
    if !metadata.is_dir() {
        let text = format!("{} is not a directory; change data_dir", data_dir.display());
        return vec![MachineCheck::problem(NAME, text)];
    }
    let usable = match write_and_sync(data_dir, clock) {
        Err(error) => not_writable(data_dir, &error),
        Ok(_) if metadata.uid() != rustix::process::geteuid().as_raw() => {
            other_owner(data_dir, metadata.uid())
        }
        Ok(_) if metadata.mode() & 0o077 != 0 => readable_by_others(data_dir, metadata.mode()),
        Ok(taken) if taken > SYNC_TIME_MAX => slow(data_dir, taken),
        Ok(taken) => {
            let text =
                format!("{} is writable; a sync took {}", data_dir.display(), milliseconds(taken));
            MachineCheck::fine(NAME, text)
        }
    };
    vec![usable, disk(data_dir), set_clock(data_dir, clock)]
}

/// Weir creates the directory at its start.
fn absent(data_dir: &Path) -> MachineCheck {
    let parents = data_dir.ancestors().skip(1);
    let is_relative = |path: &&Path| path.as_os_str().is_empty();
    let existing = parents.map(|path| if is_relative(&path) { Path::new(".") } else { path });
    let Some(parent) = existing.into_iter().find(|path| path.exists()) else {
        return MachineCheck::problem(NAME, format!("{} has no parent", data_dir.display()));
    };
    let (shown, parent_shown) = (data_dir.display(), parent.display());
    match rustix::fs::access(parent, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => MachineCheck::fine(NAME, format!("`weir up` will create {shown}")),
        Err(error) => MachineCheck::problem(
            NAME,
            format!(
                "{shown} does not exist, and this user cannot create it in {parent_shown}: {error}. Create it for the user that runs Weir"
            ),
        ),
    }
}

/// Returns how long the sync of a small file took.
fn write_and_sync(data_dir: &Path, clock: &Clock) -> io::Result<Duration> {
    let path = data_dir.join(format!(".weir-check-{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    let written = sync(&mut file, clock);
    fs::remove_file(&path)?;
    written
}

fn sync(file: &mut File, clock: &Clock) -> io::Result<Duration> {
    file.write_all(b"weir check\n")?;
    let start = clock.now();
    file.sync_all()?;
    Ok(clock.now().since(start))
}

fn not_writable(data_dir: &Path, error: &io::Error) -> MachineCheck {
    let shown = data_dir.display();
    MachineCheck::problem(
        NAME,
        format!(
            "this user cannot write in {shown}: {error}. Run the check as the user that runs Weir (sudo -u weir), or change the owner"
        ),
    )
}

fn other_owner(data_dir: &Path, owner: u32) -> MachineCheck {
    let shown = data_dir.display();
    MachineCheck::warning(
        NAME,
        format!(
            "{shown} belongs to user {owner}, so this says nothing about that user; run the check as the user that runs Weir (sudo -u weir)"
        ),
    )
}

fn readable_by_others(data_dir: &Path, mode: u32) -> MachineCheck {
    let (shown, mode) = (data_dir.display(), mode & 0o777);
    MachineCheck::warning(
        NAME,
        format!("other users may enter {shown} (mode {mode:o}): chmod 700 {shown}"),
    )
}

fn slow(data_dir: &Path, taken: Duration) -> MachineCheck {
    let (shown, taken) = (data_dir.display(), milliseconds(taken));
    MachineCheck::warning(
        NAME,
        format!(
            "a sync in {shown} took {taken}, and each acknowledged push waits for one; use a faster disk"
        ),
    )
}

fn milliseconds(taken: Duration) -> String {
    format!("{:.1} ms", taken.as_secs_f64() * 1_000.0)
}

fn disk(data_dir: &Path) -> MachineCheck {
    let name = "disk";
    let (space, kind) = match (rustix::fs::statvfs(data_dir), rustix::fs::statfs(data_dir)) {
        (Ok(space), Ok(system)) => (space, system.f_type.cast_unsigned()),
        (Err(error), _) | (_, Err(error)) => {
            return MachineCheck::warning(name, format!("unknown: {error}"));
        }
    };
    let free = space.f_bavail * space.f_frsize;
    let shown = format!("{:.1} GiB free", free as f64 / f64::from(1 << 30));
    match kind {
        TMPFS => MachineCheck::warning(
            name,
            "data_dir is on a tmpfs: everything is lost when the machine restarts",
        ),
        NFS => MachineCheck::warning(
            name,
            "data_dir is on NFS: syncs are slow, and two nodes could use the same directory; use a local disk",
        ),
        _ if free < FREE_BYTES_MIN => {
            MachineCheck::warning(name, format!("only {shown}; without space, pushes are rejected"))
        }
        _ => MachineCheck::fine(name, shown),
    }
}

/// Schedules, retries and histories need a clock that was set and does not go back.
fn set_clock(data_dir: &Path, clock: &Clock) -> MachineCheck {
    let name = "clock";
    let now = clock.now();
    if now < CLOCK_MIN {
        return MachineCheck::problem(name, "the clock was not set: it shows a year before 2026");
    }
    let Some(newest) = newest(data_dir) else {
        return MachineCheck::fine(name, "was set");
    };
    let ahead = newest.since(now);
    if ahead > CLOCK_TOLERANCE {
        let seconds = ahead.as_secs();
        let text = format!(
            "a file in data_dir was written {seconds} s in the future: the clock was set back. Scheduled jobs run late by that time; check the time synchronization"
        );
        return MachineCheck::warning(name, text);
    }
    MachineCheck::fine(name, "later than all files in data_dir")
}

/// Returns when the newest file of the directory was written.
fn newest(data_dir: &Path) -> Option<Timestamp> {
    let entries = fs::read_dir(data_dir).ok()?.take(ENTRIES_MAX).flatten();
    let times = entries.filter_map(|entry| entry.metadata().ok()?.modified().ok());
    let newest = times.max()?.duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp::from_micros(u64::try_from(newest.as_micros()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named<'a>(checks: &'a [MachineCheck], name: &str) -> &'a MachineCheck {
        checks.iter().find(|check| check.name == name).expect("the check")
    }

    #[test]
    fn directory_of_this_user_is_fine_and_keeps_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let checks = check(folder.path(), &Clock::system());
        assert!(!checks.iter().any(MachineCheck::has_problem), "{checks:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_is_open_to_others_is_a_warning() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let checks = check(folder.path(), &Clock::system());
        assert!(named(&checks, NAME).text.contains("(mode 755): chmod 700"), "{checks:?}");
    }

    #[test]
    fn absent_directory_needs_a_parent_to_create_it_in() {
        let folder = tempfile::tempdir().unwrap();
        let checks = check(&folder.path().join("a/b"), &Clock::system());
        assert!(named(&checks, NAME).text.starts_with("`weir up` will create"), "{checks:?}");
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        for unusable in [file.join("a"), file] {
            let checks = check(&unusable, &Clock::system());
            assert!(named(&checks, NAME).has_problem(), "{checks:?}");
        }
    }

    #[test]
    fn a_clock_before_the_files_was_set_back() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("weir.lock"), "").unwrap();
        let now = Clock::system().now();
        let hour_ago = Timestamp::from_micros(now.as_micros() - 3_600_000_000);
        let text = set_clock(folder.path(), &Clock::manual(hour_ago)).text;
        assert!(text.contains("s in the future: the clock was set back"), "{text}");
        assert!(set_clock(folder.path(), &Clock::manual(Timestamp::default())).has_problem());
    }
}
