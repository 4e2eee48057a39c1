//! The descendants of a worker process.

use std::fs;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal};

/// Limit of the descendants of one worker that are found.
const PROCESSES_MAX: usize = 1_000;

/// A descendant, held by a pidfd so that the pid cannot be reused for another process.
#[derive(Debug)]
pub(super) struct Descendant(OwnedFd);

impl Descendant {
    pub(super) fn kill(&self) {
        // It may have ended meanwhile.
        let _ = rustix::process::pidfd_send_signal(&self.0, Signal::KILL);
    }
}

/// Returns all descendants of `worker` except those whose parent has ended.
pub(super) fn find(worker: Pid) -> Vec<Descendant> {
    let mut found = Vec::new();
    let mut parents = vec![worker];
    while let Some(parent) = parents.pop() {
        for child in children(parent) {
            if found.len() == PROCESSES_MAX {
                return found;
            }
            let Ok(pidfd) = rustix::process::pidfd_open(child, PidfdFlags::empty()) else {
                continue;
            };
            // Check again: before its pidfd was open, the process could have ended and its pid been
            // reused.
            if children(parent).contains(&child) {
                found.push(Descendant(pidfd));
                parents.push(child);
            }
        }
    }
    found
}

/// Returns the children of all threads of `parent`.
fn children(parent: Pid) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{}/task", parent.as_raw_pid()));
    let threads = threads.into_iter().flatten().flatten();
    let listed = threads.filter_map(|entry| fs::read_to_string(entry.path().join("children")).ok());
    let numbers = |text: String| -> Vec<Pid> {
        let numbers = text.split_whitespace().filter_map(|number| number.parse().ok());
        numbers.filter_map(Pid::from_raw).collect()
    };
    listed.flat_map(numbers).collect()
}
