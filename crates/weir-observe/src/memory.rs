//! Determines the memory available to a program from the kernel's data.

use std::fs;
use std::path::Path;

/// Maximum number of processes that are read.
const PROCESSES_MAX: usize = 20_000;

/// Returns the machine's memory without the private memory of processes with names other than
/// `names`.
pub(crate) fn left_for(proc: &Path, names: &[&str]) -> Option<u64> {
    let total = total(proc)?;
    let others: u64 = processes(proc)
        .filter_map(|pid| fs::read_to_string(proc.join(pid.to_string()).join("status")).ok())
        .filter(|status| !field(status, "Name:").is_some_and(|name| names.contains(&name)))
        .filter_map(|status| kilobytes(&status, "RssAnon:"))
        .sum();
    Some(total.saturating_sub(others))
}

/// Returns the machine's memory.
pub(crate) fn total(proc: &Path) -> Option<u64> {
    kilobytes(&fs::read_to_string(proc.join("meminfo")).ok()?, "MemTotal:")
}

/// Returns the lowest memory limit of a process' control groups (version 2), or `None` if there is
/// no limit.
pub(crate) fn group_limit(proc: &Path, pid: u32, mount: &Path) -> Option<u64> {
    let groups = fs::read_to_string(proc.join(pid.to_string()).join("cgroup")).ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let folders = Path::new(own).ancestors().map(|folder| mount.join(folder).join("memory.max"));
    folders.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok()).min()
}

/// Returns the process IDs of all processes.
pub(crate) fn processes(proc: &Path) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(proc).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).take(PROCESSES_MAX)
}

/// Returns the value of a field of `meminfo` or `status` in bytes.
pub(crate) fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let number: u64 = field(text, name)?.strip_suffix(" kB")?.parse().ok()?;
    number.checked_mul(1024)
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, file: &str, text: &str) {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn what_others_hold_is_not_left() {
        let proc = tempfile::tempdir().unwrap();
        write(proc.path(), "meminfo", "MemTotal:        8000 kB\nMemFree: 1 kB\n");
        write(proc.path(), "7/status", "Name:\tpostgres\nRssAnon:\t   500 kB\n");
        write(proc.path(), "8/status", "Name:\truby\nRssAnon:\t  1000 kB\n");
        write(proc.path(), "9/status", "Name:\tkthreadd\n");
        write(proc.path(), "self/status", "Name:\truby\nRssAnon:\t  1000 kB\n");
        assert_eq!(left_for(proc.path(), &["postgres"]), Some(7000 * 1024));
        assert_eq!(left_for(&proc.path().join("7"), &[]), None);
    }

    #[test]
    fn the_narrowest_control_group_counts() {
        let folder = tempfile::tempdir().unwrap();
        let mount = folder.path().join("mount");
        write(folder.path(), "7/cgroup", "0::/system.slice/postgresql.service\n");
        write(&mount, "system.slice/postgresql.service/memory.max", "max\n");
        assert_eq!(group_limit(folder.path(), 7, &mount), None);
        write(&mount, "system.slice/memory.max", "1000000\n");
        write(&mount, "memory.max", "2000000\n");
        assert_eq!(group_limit(folder.path(), 7, &mount), Some(1_000_000));
        assert_eq!(group_limit(folder.path(), 8, &mount), None);
    }
}
