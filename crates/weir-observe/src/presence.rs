//! Checks whether Sidekiq processes with this machine's host name are still running.
//!
//! A heartbeat outlives its process by a minute, so the kernel knows better. On other machines, and
//! if other users' processes are hidden, only heartbeats are available. A container may have the
//! host name of its machine but process IDs of its own, so that an ID which nothing has here proves
//! nothing: a process has ended only if it was seen here before, or if no process of the machine,
//! in any container, has its ID.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use weir_advisor::observation::{Observation, ProcessPlace, ProcessPresence, SidekiqObservation};

use crate::observe::{all_jobs, job_processes};
use crate::{machine, memory, sockets};

/// Process ID of init. If it is not visible, other users' processes are hidden.
const INIT: &str = "1";
/// Part of the title of a Sidekiq process.
const TITLE: &[u8] = b"sidekiq";
/// Maximum number of unlisted processes that are reported.
const UNLISTED_MAX: usize = 10;
/// The namespace of process IDs that is not a container's: `PROC_PID_INIT_INO` in the kernel's
/// `proc_ns.h`. Only from there, all processes of the machine are visible.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

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

/// Returns those of the process IDs by identity that a Sidekiq has here. If two identities have the
/// same one, they are of different containers, and neither may be the one that is here.
pub(crate) fn confirmed(proc: &Path, reported: &BTreeMap<String, u32>) -> BTreeMap<String, u32> {
    let is_unique = |pid: u32| reported.values().filter(|it| **it == pid).count() == 1;
    let is_here = |pid: u32| is_unique(pid) && seen(proc, pid) == PidStatus::Sidekiq;
    let here = reported.iter().filter(|(_, pid)| is_here(**pid));
    here.map(|(identity, pid)| (identity.clone(), *pid)).collect()
}

/// Returns those of the process IDs by identity that nothing has any more. A process that shuts down
/// takes itself from Sidekiq's list first: one that is in a list read after this has been killed.
pub(crate) fn ended(proc: &Path, confirmed: &BTreeMap<String, u32>) -> BTreeSet<String> {
    let ended = confirmed.iter().filter(|(_, pid)| seen(proc, **pid) == PidStatus::Nothing);
    ended.map(|(identity, _)| identity.clone()).collect()
}

/// Corrects the presence of the processes in `reported`, which are process IDs by identity of the
/// processes that report this machine. `ended` are those that had ended before their heartbeats
/// were read.
pub(crate) fn see(
    observation: &mut Observation,
    reported: &BTreeMap<String, u32>,
    ended: &BTreeSet<String>,
    redis_ports: &BTreeSet<u16>,
    proc: &Path,
) {
    let here = confirmed(proc, reported);
    for process in job_processes(observation) {
        let identity = &process.identity;
        let Some(pid) = reported.get(identity) else { continue };
        let is_here = here.contains_key(identity);
        process.place = if is_here { ProcessPlace::Here } else { ProcessPlace::Unconfirmed };
        let has_ended = ended.contains(identity);
        let is_nowhere = || seen(proc, *pid) == PidStatus::Nothing && is_nowhere(proc, *pid);
        process.presence = match process.presence {
            ProcessPresence::Presumed if is_here => ProcessPresence::Seen,
            ProcessPresence::Presumed if has_ended => ProcessPresence::Gone,
            ProcessPresence::Silent if has_ended || is_nowhere() => ProcessPresence::Gone,
            presence => presence,
        };
    }
    let unlisted = unlisted(all_jobs(observation).map(|jobs| &*jobs), redis_ports, proc);
    for jobs in all_jobs(observation) {
        jobs.running_ghosts = running_ghosts(jobs, proc);
        jobs.unlisted.clone_from(&unlisted);
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

/// Returns the Sidekiqs of this machine that have a connection to one of the ports of Redis, and that
/// no list of processes names. A Sidekiq that runs removes others from the list a minute after their
/// last heartbeat.
fn unlisted<'a>(
    shards: impl Iterator<Item = &'a SidekiqObservation>,
    redis_ports: &BTreeSet<u16>,
    proc: &Path,
) -> Vec<u32> {
    let Some(hostname) = machine::hostname(proc) else { return Vec::new() };
    let ghost = |identity: &String| {
        let mut parts = identity.rsplitn(3, ':').skip(1);
        parts.next().and_then(|pid| pid.parse::<u32>().ok())
    };
    let pids = |jobs: &'a SidekiqObservation| {
        let local = jobs.processes.iter().filter(|it| it.hostname == hostname).map(|it| it.pid);
        local.chain(jobs.ghosts.iter().filter_map(ghost)).collect::<Vec<_>>()
    };
    let listed: BTreeSet<u32> = shards.flat_map(pids).collect();
    let is_one = |pid: &u32| {
        !listed.contains(pid)
            && is_titled(proc, *pid)
            && sockets::is_connected(proc, *pid, redis_ports)
    };
    memory::processes(proc).filter(is_one).take(UNLISTED_MAX).collect()
}

/// Reports whether a process has the title that Sidekiq gives itself once it has started: "sidekiq
/// 6.4.1 shop [0 of 5 busy]".
fn is_titled(proc: &Path, pid: u32) -> bool {
    let title = fs::read(proc.join(pid.to_string()).join("cmdline")).unwrap_or_default();
    let version = title.strip_prefix(TITLE).and_then(|rest| rest.strip_prefix(b" "));
    version.and_then(<[u8]>::first).is_some_and(u8::is_ascii_digit)
        && seen(proc, pid) == PidStatus::Sidekiq
}

fn seen(proc: &Path, pid: u32) -> PidStatus {
    if !proc.join(INIT).exists() {
        return PidStatus::Unclear;
    }
    let folder = proc.join(pid.to_string());
    match fs::read(folder.join("cmdline")) {
        // It has ended, but its parent has not reaped it.
        Ok(title) if title.is_empty() && is_zombie(&folder) => PidStatus::Nothing,
        Ok(title) if title.windows(TITLE.len()).any(|it| it == TITLE) => {
            // In its container, this Sidekiq may have another ID, which is the one that it reports.
            let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
            match own_pid(&status).is_none_or(|own| own == pid) {
                true => PidStatus::Sidekiq,
                false => PidStatus::Unclear,
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => PidStatus::Nothing,
        _ => PidStatus::Unclear,
    }
}

/// Returns the ID that a process has in its own container.
fn own_pid(status: &str) -> Option<u32> {
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    ids.split_whitespace().next_back()?.parse().ok()
}

/// Reports whether no process of this machine has the ID, in its container or outside.
fn is_nowhere(proc: &Path, pid: u32) -> bool {
    let may_have_it = |other: u32| {
        let folder = proc.join(other.to_string());
        match fs::read_to_string(folder.join("status")) {
            Ok(status) => own_pid(&status).is_none_or(|own| own == pid),
            // One that has just ended is not it.
            Err(_) => folder.exists(),
        }
    };
    let namespace = fs::read_link(proc.join("self/ns/pid"));
    namespace.is_ok_and(|it| it == Path::new(FIRST_NAMESPACE))
        && !memory::processes(proc).any(may_have_it)
}

/// Checks the state, which follows the name in parentheses; the name may contain any character.
fn is_zombie(folder: &Path) -> bool {
    let stat = fs::read_to_string(folder.join("stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, fields)| fields.trim_start().starts_with('Z'))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use weir_advisor::observation::{Fact, JobProcess};

    use super::*;

    /// Returns the process ID 7 of the only process.
    fn reported() -> BTreeMap<String, u32> {
        BTreeMap::from([("web:7:x".to_owned(), 7)])
    }

    fn checked(
        presence: ProcessPresence,
        before: &BTreeMap<String, u32>,
        proc: &Path,
    ) -> (ProcessPresence, ProcessPlace) {
        let process =
            JobProcess { identity: "web:7:x".to_owned(), presence, ..JobProcess::default() };
        let jobs = SidekiqObservation { processes: vec![process], ..SidekiqObservation::default() };
        let mut observation = Observation { jobs: Fact::Known(jobs), ..Observation::default() };
        see(&mut observation, &reported(), &ended(proc, before), &BTreeSet::new(), proc);
        let process = &observation.jobs.known().unwrap().processes[0];
        (process.presence, process.place)
    }

    /// Returns the presence of a process that was never seen here.
    fn after(presence: ProcessPresence, proc: &Path) -> ProcessPresence {
        checked(presence, &BTreeMap::new(), proc).0
    }

    /// Returns the presence of a process that was seen here before.
    fn later(presence: ProcessPresence, proc: &Path) -> ProcessPresence {
        checked(presence, &reported(), proc).0
    }

    fn write(proc: &Path, pid: &str, file: &str, text: &str) {
        fs::create_dir_all(proc.join(pid)).unwrap();
        fs::write(proc.join(pid).join(file), text).unwrap();
    }

    #[test]
    fn a_process_that_was_seen_here_is_gone_once_the_kernel_does_not_know_it() {
        use ProcessPresence::{Gone, Presumed, Seen, Silent};
        let proc = tempfile::tempdir().unwrap();
        let proc = proc.path();
        assert_eq!(later(Presumed, proc), Presumed, "all are hidden");
        fs::create_dir(proc.join(INIT)).unwrap();
        assert_eq!((later(Presumed, proc), later(Silent, proc)), (Gone, Gone));
        assert_eq!(later(Seen, proc), Seen, "it has just sent a heartbeat");
        write(proc, "7", "cmdline", "postgres: checkpointer");
        assert_eq!(later(Presumed, proc), Presumed);
        write(proc, "7", "cmdline", "sidekiq 6.4.1 shop [0 of 5 busy]\0");
        assert_eq!(checked(Presumed, &BTreeMap::new(), proc), (Seen, ProcessPlace::Here));
        assert_eq!(after(Silent, proc), Silent, "it hangs");
        write(proc, "7", "cmdline", "");
        write(proc, "7", "stat", "7 (sidekiq) Z 1 7 7");
        assert_eq!(later(Presumed, proc), Gone, "it has ended");
        write(proc, "7", "stat", "7 (kworker) S 1 7 7");
        assert_eq!(later(Presumed, proc), Presumed);
    }

    #[test]
    fn a_process_of_a_container_with_this_host_name_is_not_gone() {
        use ProcessPresence::{Gone, Presumed, Silent};
        let proc = tempfile::tempdir().unwrap();
        let proc = proc.path();
        write(proc, INIT, "status", "Name:\tinit\nNSpid:\t1\n");
        let unseen = checked(Presumed, &BTreeMap::new(), proc);
        assert_eq!(unseen, (Presumed, ProcessPlace::Unconfirmed));
        assert_eq!(after(Silent, proc), Silent, "doctor may be in a container itself");
        fs::create_dir_all(proc.join("self/ns")).unwrap();
        symlink(FIRST_NAMESPACE, proc.join("self/ns/pid")).unwrap();
        assert_eq!(after(Presumed, proc), Presumed, "its last heartbeat is recent");
        assert_eq!(after(Silent, proc), Gone, "no process of the machine has the ID");
        // In its container, process 4711 has the ID 7.
        write(proc, "4711", "cmdline", "sidekiq 6.4.1 shop\0");
        write(proc, "4711", "status", "Name:\truby\nNSpid:\t4711\t7\n");
        assert_eq!(after(Silent, proc), Silent);
    }

    #[test]
    fn a_sidekiq_that_has_the_id_of_another_here_is_not_confirmed() {
        let proc = tempfile::tempdir().unwrap();
        let proc = proc.path();
        fs::create_dir(proc.join(INIT)).unwrap();
        write(proc, "7", "cmdline", "sidekiq 6.4.1 shop\0");
        write(proc, "7", "status", "NSpid:\t7\n");
        assert_eq!(confirmed(proc, &reported()), reported());
        write(proc, "7", "status", "NSpid:\t7\t1\n");
        assert_eq!(confirmed(proc, &reported()), BTreeMap::new(), "it reports the ID 1");
        write(proc, "7", "status", "NSpid:\t7\n");
        let mut both = reported();
        both.insert("web:7:y".to_owned(), 7);
        assert_eq!(confirmed(proc, &both), BTreeMap::new(), "one is in another container");
        write(proc, "7", "cmdline", "postgres: checkpointer");
        assert_eq!(confirmed(proc, &reported()), BTreeMap::new());
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
        see(&mut observation, &BTreeMap::new(), &BTreeSet::new(), &BTreeSet::new(), proc.path());
        assert_eq!(observation.jobs.known().unwrap().running_ghosts, ["web:7:x"]);
        assert_eq!(observation.jobs.known().unwrap().unlisted, [0; 0]);
    }

    #[test]
    fn a_sidekiq_of_this_machine_that_is_not_listed_is_found_by_its_title() {
        let proc = tempfile::tempdir().unwrap();
        let proc = proc.path();
        fs::create_dir_all(proc.join(INIT)).unwrap();
        write(proc, "sys/kernel", "hostname", "web\n");
        for (pid, title) in [
            ("7", "sidekiq 6.4.1 shop [0 of 5 busy]\0"),
            ("8", "sidekiq 6.4.1 shop [0 of 5 busy]\0"),
            ("9", "grep\0sidekiq\0"),
            ("10", "sidekiq stop\0"),
        ] {
            write(proc, pid, "cmdline", title);
            // A connection to port 6379, in hexadecimal digits.
            let line = " 1: 0100007F:A3D2 0100007F:18EB 01 0:0 00:0 0 0 0 77 1";
            write(proc, &format!("{pid}/net"), "tcp", line);
            fs::create_dir(proc.join(pid).join("fd")).unwrap();
            symlink("socket:[77]", proc.join(pid).join("fd/3")).unwrap();
        }
        let redis = BTreeSet::from([6_379]);
        let beats = JobProcess { hostname: "web".to_owned(), pid: 8, ..JobProcess::default() };
        let jobs = SidekiqObservation { processes: vec![beats], ..SidekiqObservation::default() };
        assert_eq!(unlisted([&jobs].into_iter(), &redis, proc), [7]);
        let other = BTreeSet::from([6_380]);
        assert_eq!(unlisted([&jobs].into_iter(), &other, proc), [0; 0], "another Redis");
        let ghosts = vec!["web:7:x".to_owned()];
        let jobs = SidekiqObservation { ghosts, ..jobs };
        assert_eq!(unlisted([&jobs].into_iter(), &redis, proc), [0; 0]);
    }
}
