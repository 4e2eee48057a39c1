//! Checks whether Sidekiq processes with this machine's host name are still running.
//!
//! A heartbeat outlives its process by a minute, so the kernel knows better. On other machines, and
//! if other users' processes are hidden, only heartbeats are available.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use weir_advisor::observation::{Observation, ProcessPresence, SidekiqObservation};

use crate::machine;
use crate::observe::{all_jobs, job_processes};

/// Process ID of init. If it is not visible, other users' processes are hidden.
const INIT: &str = "1";
/// Part of the title of a Sidekiq process.
const TITLE: &[u8] = b"sidekiq";

/// What the kernel reports about a process ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PidStatus {
    /// A Sidekiq process has it.
    Sidekiq,
    /// No process has it.
    Nothing,
    /// Another program has it, or it belongs to a container with its own process IDs.
    Unclear,
}

/// Corrects the presence of the processes in `local`, which are process IDs by identity.
pub(crate) fn see(observation: &mut Observation, local: &BTreeMap<String, u32>, proc: &Path) {
    for process in job_processes(observation) {
        let Some(pid) = local.get(&process.identity) else { continue };
        process.presence = match (process.presence, seen(proc, *pid)) {
            (ProcessPresence::Presumed, PidStatus::Sidekiq) => ProcessPresence::Seen,
            // A recent heartbeat proves that the process runs, even if the process ID is not found
            // here.
            (ProcessPresence::Presumed | ProcessPresence::Silent, PidStatus::Nothing) => {
                ProcessPresence::Gone
            }
            (presence, _) => presence,
        };
    }
    for jobs in all_jobs(observation) {
        jobs.running_ghosts = running_ghosts(jobs, proc);
    }
}

/// Returns the ghosts that are running on this machine. Process IDs of processes with heartbeats
/// are skipped.
fn running_ghosts(jobs: &SidekiqObservation, proc: &Path) -> Vec<String> {
    let Some(hostname) = machine::hostname(proc) else { return Vec::new() };
    let beats = |pid: u32| jobs.processes.iter().any(|it| it.hostname == hostname && it.pid == pid);
    let runs = |identity: &&String| {
        let mut parts = identity.rsplitn(3, ':').skip(1);
        let (pid, host) = (parts.next().and_then(|it| it.parse().ok()), parts.next());
        let is_here = host == Some(hostname.as_str());
        pid.is_some_and(|pid| is_here && !beats(pid) && seen(proc, pid) == PidStatus::Sidekiq)
    };
    jobs.ghosts.iter().filter(runs).cloned().collect()
}

fn seen(proc: &Path, pid: u32) -> PidStatus {
    if !proc.join(INIT).exists() {
        return PidStatus::Unclear;
    }
    let folder = proc.join(pid.to_string());
    match fs::read(folder.join("cmdline")) {
        // It has ended, but its parent has not reaped it.
        Ok(title) if title.is_empty() && is_zombie(&folder) => PidStatus::Nothing,
        Ok(title) if title.windows(TITLE.len()).any(|it| it == TITLE) => PidStatus::Sidekiq,
        Err(error) if error.kind() == io::ErrorKind::NotFound => PidStatus::Nothing,
        _ => PidStatus::Unclear,
    }
}

/// Checks the state, which follows the name in parentheses; the name may contain any character.
fn is_zombie(folder: &Path) -> bool {
    let stat = fs::read_to_string(folder.join("stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, fields)| fields.trim_start().starts_with('Z'))
}

#[cfg(test)]
mod tests {
    use weir_advisor::observation::{Fact, JobProcess};

    use super::*;

    fn after(presence: ProcessPresence, proc: &Path) -> ProcessPresence {
        let process =
            JobProcess { identity: "web:7:x".to_owned(), presence, ..JobProcess::default() };
        let jobs = SidekiqObservation { processes: vec![process], ..SidekiqObservation::default() };
        let mut observation = Observation { jobs: Fact::Known(jobs), ..Observation::default() };
        see(&mut observation, &BTreeMap::from([("web:7:x".to_owned(), 7)]), proc);
        observation.jobs.known().unwrap().processes[0].presence
    }

    #[test]
    fn a_process_that_the_kernel_does_not_know_is_gone_unless_it_has_just_beaten() {
        let proc = tempfile::tempdir().unwrap();
        assert_eq!(
            after(ProcessPresence::Presumed, proc.path()),
            ProcessPresence::Presumed,
            "all are hidden"
        );
        fs::create_dir(proc.path().join(INIT)).unwrap();
        assert_eq!(after(ProcessPresence::Presumed, proc.path()), ProcessPresence::Gone);
        assert_eq!(after(ProcessPresence::Silent, proc.path()), ProcessPresence::Gone);
        assert_eq!(
            after(ProcessPresence::Seen, proc.path()),
            ProcessPresence::Seen,
            "in another container"
        );
        let process = proc.path().join("7");
        fs::create_dir(&process).unwrap();
        fs::write(process.join("cmdline"), "postgres: checkpointer").unwrap();
        assert_eq!(after(ProcessPresence::Presumed, proc.path()), ProcessPresence::Presumed);
        fs::write(process.join("cmdline"), "sidekiq 6.4.1 shop [0 of 5 busy]\0").unwrap();
        assert_eq!(after(ProcessPresence::Presumed, proc.path()), ProcessPresence::Seen);
        assert_eq!(
            after(ProcessPresence::Silent, proc.path()),
            ProcessPresence::Silent,
            "it hangs"
        );
        fs::write(process.join("cmdline"), "").unwrap();
        fs::write(process.join("stat"), "7 (sidekiq) Z 1 7 7").unwrap();
        assert_eq!(
            after(ProcessPresence::Presumed, proc.path()),
            ProcessPresence::Gone,
            "it has ended"
        );
        fs::write(process.join("stat"), "7 (kworker) S 1 7 7").unwrap();
        assert_eq!(after(ProcessPresence::Presumed, proc.path()), ProcessPresence::Presumed);
    }

    #[test]
    fn a_process_that_runs_here_and_beats_no_more_is_told_from_one_that_has_ended() {
        let proc = tempfile::tempdir().unwrap();
        for folder in [INIT, "7", "8", "sys/kernel"] {
            fs::create_dir_all(proc.path().join(folder)).unwrap();
        }
        for pid in ["7", "8"] {
            fs::write(proc.path().join(pid).join("cmdline"), "sidekiq 6.4.1 shop\0").unwrap();
        }
        fs::write(proc.path().join("sys/kernel/hostname"), "web\n").unwrap();
        let beats = JobProcess { hostname: "web".to_owned(), pid: 8, ..JobProcess::default() };
        let ghosts = ["web:7:x", "web:8:x", "web:9:x", "other:7:x", "odd"].map(str::to_owned);
        let jobs = SidekiqObservation {
            processes: vec![beats],
            ghosts: ghosts.to_vec(),
            ..SidekiqObservation::default()
        };
        let mut observation = Observation { jobs: Fact::Known(jobs), ..Observation::default() };
        see(&mut observation, &BTreeMap::new(), proc.path());
        assert_eq!(observation.jobs.known().unwrap().running_ghosts, ["web:7:x"]);
    }
}
