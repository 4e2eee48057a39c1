//! The processes that a worker has started, and those that these have.

use std::fs;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal};

/// The maximum of processes of one worker.
const PROCESSES_MAX: usize = 1_000;

/// One of them, held so that its number can't become another's.
#[derive(Debug)]
pub(super) struct Descendant(OwnedFd);

impl Descendant {
    pub(super) fn kill(&self) {
        // It may have ended meanwhile.
        let _ = rustix::process::pidfd_send_signal(&self.0, Signal::KILL);
    }
}

/// All that descend from `worker` and whose parents live.
pub(super) fn of(worker: Pid) -> Vec<Descendant> {
    let mut found = Vec::new();
    let mut parents = vec![worker];
    while let Some(parent) = parents.pop() {
        for child in children(parent) {
            if found.len() == PROCESSES_MAX {
                return found;
            }
            let Ok(held) = rustix::process::pidfd_open(child, PidfdFlags::empty()) else {
                continue;
            };
            // Between the look and the hold it could have ended, and its number be another's.
            if children(parent).contains(&child) {
                found.push(Descendant(held));
                parents.push(child);
            }
        }
    }
    found
}

/// Of all its threads.
fn children(parent: Pid) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{}/task", parent.as_raw_pid()));
    let threads = threads.into_iter().flatten().flatten();
    let listed = threads.filter_map(|it| fs::read_to_string(it.path().join("children")).ok());
    let numbers = |text: String| -> Vec<Pid> {
        let numbers = text.split_whitespace().filter_map(|number| number.parse().ok());
        numbers.filter_map(Pid::from_raw).collect()
    };
    listed.flat_map(numbers).collect()
}
