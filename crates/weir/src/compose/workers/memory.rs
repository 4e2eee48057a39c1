//! A worker's memory: the proportional set size of its process and of all its descendants, so that
//! shared pages count once (`proc(5)`, `smaps_rollup`).

use std::fs;

/// Limit of the processes of one worker that are measured.
const PROCESSES_MAX: usize = 1_000;

/// Returns the bytes of a worker; None: the system does not report them, or it has ended.
pub(super) fn pss_bytes(pid: i32) -> Option<u64> {
    let mut bytes = process_pss_bytes(pid)?;
    let mut pending = children(pid);
    for _ in 0..PROCESSES_MAX {
        let Some(child) = pending.pop() else { break };
        // A process that has ended meanwhile uses nothing.
        bytes += process_pss_bytes(child).unwrap_or_default();
        pending.extend(children(child));
    }
    Some(bytes)
}

fn process_pss_bytes(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// Returns the children of all threads of `parent`.
fn children(pid: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let listed = threads.filter_map(|it| fs::read_to_string(it.path().join("children")).ok());
    let numbers = |text: String| -> Vec<i32> {
        text.split_whitespace().filter_map(|number| number.parse().ok()).collect()
    };
    listed.flat_map(numbers).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn own_pid() -> i32 {
        i32::try_from(std::process::id()).expect("a pid")
    }

    #[test]
    fn memory_includes_child_processes() {
        let alone = process_pss_bytes(own_pid()).expect("the system says");
        assert!(alone > 100_000, "{alone}");
        let mut child =
            Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().expect("started");
        assert!(children(own_pid()).contains(&i32::try_from(child.id()).expect("a pid")));
        child.kill().expect("killed");
        child.wait().expect("reaped");
        assert_eq!(pss_bytes(i32::MAX), None, "there is no such process");
    }
}
