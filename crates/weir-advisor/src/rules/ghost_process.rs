//! Processes ended without a shutdown: killed, or out of memory.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::finding::{Confidence, Finding, Severity};
use crate::observation::{
    Fact, JobProcess, Machine, Observation, ProcessPlace, ProcessPresence, SidekiqObservation,
};
use crate::wording;

pub(crate) const NAME: &str = "ghost-process";

const KILLED: &str = "journalctl -k --grep 'killed process'";
/// Fewer ends may be restarts by an operator.
const CRASHES_MIN: usize = 3;
/// Heartbeats have the start of their process in seconds or parts of them, and Redis' clock differs
/// somewhat from the host's.
const HEARTBEAT_PRECISION: Duration = Duration::from_secs(2);
/// Maximum number of processes that are named; the rest is counted.
const NAMED_MAX: usize = 3;

/// Jobs in progress were recorded with the heartbeat, so it is unknown whether there were any.
const CONSEQUENCE: &str = "They ended without a shutdown, or cannot write to Redis, which their log \
                           shows. The usual cause of such an end is the kernel's OOM killer: the \
                           suggested command, on their host, shows what it has killed. Jobs that \
                           were in progress at the end are lost, unless their fetcher keeps them \
                           (Sidekiq Pro). A running Sidekiq removes them from the list within some \
                           minutes.";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    let loops = crash_loops(jobs);
    let is_alone =
        |it: &&JobProcess| !loops.iter().any(|all| all.iter().any(|one| std::ptr::eq(*one, *it)));
    let missing = jobs.processes.iter().filter(|process| !process.is_alive()).filter(is_alone);
    let missing = missing.map(|process| missing_one(process, observation.machine.known()));
    let looping = loops.iter().map(|all| crash_loop(all, observation.machine.known()));
    let missing = looping.chain(missing);
    let redis = observation.redis.first().and_then(Fact::known);
    let loss = redis.and_then(|redis| redis.loses_heartbeats(jobs));
    let ended = missing
        .chain(ghosts(jobs, observation.machine.known()))
        .map(|it| unless_lost(it, loss.as_deref()));
    ended.chain(running(jobs, loss.as_deref())).collect()
}

/// Lowers the severity if the Redis loses heartbeats, because the processes may be running.
fn unless_lost(finding: Finding, loss: Option<&str>) -> Finding {
    let Some(why) = loss else { return finding };
    let finding = Finding { severity: Severity::Notice, ..finding };
    finding.without_next().leads_to(format!(
        "{why}. Until that is resolved, it is unknown whether they still \
                              run."
    ))
}

/// Returns the processes that ended one after the other, each started after the last heartbeat of the
/// one before, on the same host and with the same queues: at least [`CRASHES_MIN`] of them.
fn crash_loops(jobs: &SidekiqObservation) -> Vec<Vec<&JobProcess>> {
    let mut groups: BTreeMap<(&str, Vec<&str>), Vec<&JobProcess>> = BTreeMap::new();
    for process in jobs.processes.iter().filter(|it| !it.is_alive() && it.running_for.is_some()) {
        let key = (process.hostname.as_str(), process.served().collect());
        groups.entry(key).or_default().push(process);
    }
    let mut loops: Vec<Vec<&JobProcess>> = groups.into_values().collect();
    for group in &mut loops {
        group.sort_by_key(|process| std::cmp::Reverse(process.running_for));
    }
    let are_in_turn = |pair: &[&JobProcess]| is_after(pair[1], pair[0]);
    loops.retain(|group| group.len() >= CRASHES_MIN && group.windows(2).all(are_in_turn));
    loops
}

/// Reports whether `later` was started after the last heartbeat of `earlier`. Times are rounded to seconds
/// in a heartbeat.
fn is_after(later: &JobProcess, earlier: &JobProcess) -> bool {
    later.running_for.is_some_and(|it| it <= earlier.beat_age + HEARTBEAT_PRECISION)
}

/// Reports whether `later` was started in the place of `earlier`, which had ended: on the same host, with
/// the same queues.
pub(crate) fn has_replaced(later: &JobProcess, earlier: &JobProcess) -> bool {
    later.hostname == earlier.hostname
        && later.served().eq(earlier.served())
        && later.running_for < earlier.running_for
        && is_after(later, earlier)
}

/// Names the processes that end and are started again and again: "3 processes of shop for push".
pub(crate) fn crash_loop_names(jobs: &SidekiqObservation) -> Vec<String> {
    let name = |all: Vec<&JobProcess>| {
        let count = wording::number(all.len() as u64, "process", "processes");
        format!("{count} of {}", place(all[0]))
    };
    crash_loops(jobs).into_iter().map(name).collect()
}

/// Names the host and the queues of a process: "shop for push and pull".
fn place(process: &JobProcess) -> String {
    format!("{} for {}", process.hostname, wording::list(process.served()))
}

/// Reports whether the processes that serve `queue` end and are started again and again.
pub(super) fn is_crash_loop(jobs: &SidekiqObservation, queue: &str) -> bool {
    crash_loops(jobs).iter().flatten().any(|process| process.serves(queue))
}

/// Reports processes of which each was started after the one before had ended.
fn crash_loop(processes: &[&JobProcess], machine: Option<&Machine>) -> Finding {
    let first = processes[0];
    let busy: u64 = processes.iter().map(|process| process.busy).sum();
    let evidence = format!(
        "{} ended one after the other, each started after the one before, the first {} ago; they had \
         {} in progress at their last heartbeats",
        wording::number(processes.len() as u64, "process", "processes"),
        wording::duration(first.beat_age),
        wording::number(busy, "job", "jobs")
    );
    let subject = format!("processes of {}", place(first));
    let is_here = processes.iter().all(|it| it.presence == ProcessPresence::Gone);
    let finding = Finding::new(NAME, Severity::Warning, subject, evidence)
        .since(first.beat_age, "last heartbeat of the first")
        .with_confidence(Confidence::Likely);
    let finding = finding.leads_to(format!(
        "A process is started again and again, and ends without a shutdown. Its log and that of its \
         supervisor show with what it ends, and the kernel's log whether the OOM killer ended it.{} If \
         a job ends it, the same job ends each process that takes it. It is one of those of which the \
         log has `start` before the end, and neither `done` nor `fail`: compare several ends, and repair \
         the class that each of them has. Jobs in progress are lost each time, unless the fetcher keeps \
         them (Sidekiq Pro).",
        oom_kills(machine.filter(|_| is_here))
    ));
    if is_here { finding.next(KILLED) } else { finding }
}

/// Reports a process that missed heartbeats but whose last one has not expired. Until then, its
/// jobs in progress are known.
fn missing_one(process: &JobProcess, machine: Option<&Machine>) -> Finding {
    let in_hand = match process.busy {
        0 => "it had no job in progress at its last heartbeat".to_owned(),
        busy => format!(
            "it had {} in progress at its last heartbeat",
            wording::number(busy, "job", "jobs")
        ),
    };
    let evidence = format!("it {}; {in_hand}", process.why_it_takes_none());
    let subject = format!("process {}", process.identity);
    let finding = Finding::new(NAME, Severity::Warning, subject, evidence)
        .since(process.beat_age, "its last heartbeat");
    if process.presence == ProcessPresence::Gone {
        return finding
            .leads_to(format!(
                "It ended without a shutdown: killed by an operator or its supervisor, or by the \
                 kernel for lack of memory (OOM killer), which the suggested command shows.{} Jobs in progress at its \
                 end are lost, unless its fetcher keeps them (Sidekiq Pro).",
                oom_kills(machine)
            ))
            .next(KILLED);
    }
    let here = machine.filter(|_| process.place != ProcessPlace::Elsewhere);
    // Does not suggest a signal: another process may have its process ID by now.
    if process.place == ProcessPlace::Here {
        return finding.leads_to(
            "It runs on this machine: it hangs, or cannot write its heartbeats to this Redis, or writes \
             them to another one. Its log shows an error, if there is one.",
        );
    }
    finding.leads_to(format!(
        "It hangs, was killed, cannot write to this Redis, or writes to another one. Its log on {} \
         shows which; the kernel's log there shows whether the OOM killer has ended it for lack of memory: {KILLED}.{}",
        process.hostname,
        oom_kills(here)
    ))
}

/// Says how many processes of this machine the kernel has killed for lack of memory.
fn oom_kills(machine: Option<&Machine>) -> String {
    let Some(machine) = machine.filter(|it| it.oom_kills > 0) else { return String::new() };
    let kills = wording::number(machine.oom_kills, "process", "processes");
    format!(" The kernel of this machine has killed {kills} for lack of memory since its start.")
}

fn ghosts(jobs: &SidekiqObservation, machine: Option<&Machine>) -> Option<Finding> {
    let ended = jobs.ghosts.iter().filter(|it| !jobs.running_ghosts.contains(it));
    let evidence = listed(
        &ended.map(String::as_str).collect::<Vec<_>>(),
        "process in the list has no heartbeat",
        "processes in the list have no heartbeat",
    )?;
    let finding = Finding::new(NAME, Severity::Warning, "Sidekiq processes", evidence);
    Some(finding.leads_to(format!("{CONSEQUENCE}{}", oom_kills(machine))).next(KILLED))
}

/// Reports processes that run without heartbeats. Restarting them would not fix the cause.
fn running(jobs: &SidekiqObservation, loss: Option<&str>) -> Option<Finding> {
    let evidence = listed(
        &jobs.running_ghosts.iter().map(String::as_str).collect::<Vec<_>>(),
        "process runs on this machine without a heartbeat in this Redis",
        "processes run on this machine without a heartbeat in this Redis",
    )?;
    let finding = |severity| Finding::new(NAME, severity, "Sidekiq processes", evidence);
    Some(match loss {
        Some(why) => finding(Severity::Notice).leads_to(format!(
            "{why}. That alone explains why the heartbeats are missing: do not restart the processes \
             for it. Until it is resolved, it is unknown whether they work."
        )),
        None => finding(Severity::Warning).leads_to(
            "Sidekiq's log shows why: Redis may reject them (a changed password), their heartbeats \
             may fail for another reason (too many open files), they may hang, or use another Redis.",
        ),
    })
}

/// Counts and names the processes, up to a limit. Returns `None` if there are none.
fn listed(identities: &[&str], one: &str, many: &str) -> Option<String> {
    if identities.is_empty() {
        return None;
    }
    let named = wording::list(identities.iter().take(NAMED_MAX).copied());
    let more = match identities.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!("{}: {named}{more}", wording::number(identities.len() as u64, one, many)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;
    use crate::observation::Ordering;

    #[test]
    fn ghosts_are_named_up_to_a_limit() {
        let mut observation = healthy::observation();
        observation.jobs.known_mut().ghosts = ["a:1:x", "a:2:x"].map(str::to_owned).to_vec();
        assert_eq!(
            check(&observation)[0].evidence,
            "2 processes in the list have no heartbeat: a:1:x and a:2:x"
        );
        let consequence = check(&observation).remove(0).consequence;
        assert!(consequence.contains("from the list"), "no command is needed for that");
        observation.jobs.known_mut().ghosts.pop();
        let one = "1 process in the list has no heartbeat: a:1:x";
        assert_eq!(check(&observation)[0].evidence, one);
        observation.jobs.known_mut().ghosts = vec!["a:1:x".to_owned(); 5];
        assert!(check(&observation)[0].evidence.ends_with("and 2 more"));
    }

    #[test]
    fn one_that_beats_no_more_is_told_with_what_it_had_in_hand() {
        let found = |presence: ProcessPresence| {
            let mut observation = healthy::observation();
            let process = &mut observation.jobs.known_mut().processes[1];
            (process.presence, process.busy) = (presence, 3);
            process.place = ProcessPlace::Unconfirmed;
            process.beat_age = std::time::Duration::from_secs(24);
            check(&observation).pop()
        };
        assert_eq!(found(ProcessPresence::Seen), None);
        assert_eq!(found(ProcessPresence::Presumed), None);
        let gone = found(ProcessPresence::Gone).unwrap();
        let expected = "it has ended: shop has no process 2, whose last heartbeat was 24 s ago; it \
                        had 3 jobs in progress at its last heartbeat";
        assert_eq!(gone.evidence, expected);
        let silent = found(ProcessPresence::Silent).unwrap();
        assert!(silent.evidence.starts_with("it has missed heartbeats; the last one was 24 s ago"));
        assert_eq!(silent.next_step(), None, "its number may be another process' by now");
        let expected =
            "It hangs, was killed, cannot write to this Redis, or writes to another one.";
        assert!(silent.consequence.starts_with(expected), "{}", silent.consequence);
        for finding in [gone, silent] {
            assert_eq!(finding.since.as_ref().unwrap().seconds_ago, 24);
            assert!(finding.consequence.contains("OOM killer"), "{finding:?}");
            assert!(!finding.consequence.contains("of this machine"), "it has killed none");
        }
    }

    #[test]
    fn processes_that_end_one_after_the_other_are_one_finding() {
        let seconds = Duration::from_secs;
        // Each was started five seconds after the last heartbeat of the one before.
        let ended = |pid: u32, queue: &str| {
            let age = u64::from(60 - 10 * pid);
            let mut process = healthy::process(pid, 5, Ordering::Strict, &[(queue, 0)]);
            (process.presence, process.busy) = (ProcessPresence::Gone, 1);
            (process.running_for, process.beat_age) = (Some(seconds(age + 5)), seconds(age));
            process
        };
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        jobs.processes = [1, 2, 3].map(|pid| ended(pid, "push")).into();
        assert!(is_crash_loop(jobs, "push") && !is_crash_loop(jobs, "pull"));
        let findings = check(&observation);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].subject, "processes of shop for push");
        let expected = "3 processes ended one after the other, each started after the one before, the \
                        first 50 s ago; they had 3 jobs in progress at their last heartbeats";
        assert_eq!(findings[0].evidence, expected);
        let consequence = &findings[0].consequence;
        assert!(consequence.starts_with("A process is started again and again"));
        assert!(
            consequence.contains("log has `start` before the end, and neither `done` nor `fail`")
        );
        assert!(consequence.contains("several ends") && !consequence.contains("the last job"));
        assert_eq!(findings[0].next_step(), Some(KILLED));
        // Two may have been restarted, and those that ran at the same time ended together.
        let jobs = observation.jobs.known_mut();
        jobs.processes[2] = ended(3, "pull");
        assert_eq!(check(&observation).len(), 3);
        let jobs = observation.jobs.known_mut();
        jobs.processes[2] = JobProcess { running_for: Some(seconds(900)), ..ended(3, "push") };
        assert_eq!(check(&observation).len(), 3);
    }

    #[test]
    fn what_the_kernel_of_this_machine_has_killed_is_counted() {
        let mut observation = healthy::observation();
        observation.machine.known_mut().oom_kills = 2;
        let process = &mut observation.jobs.known_mut().processes[1];
        (process.presence, process.place) = (ProcessPresence::Silent, ProcessPlace::Unconfirmed);
        let consequence = |it: &Observation| check(it).remove(0).consequence;
        let kills = "The kernel of this machine has killed 2 processes for lack of memory since";
        assert!(consequence(&observation).contains(kills), "{}", consequence(&observation));
        observation.jobs.known_mut().processes[1].place = ProcessPlace::Elsewhere;
        assert!(!consequence(&observation).contains(kills), "it is on another one");
        observation.jobs.known_mut().processes[1].place = ProcessPlace::Here;
        assert!(consequence(&observation).starts_with("It runs on this machine: it hangs, or"));
        observation.jobs.known_mut().processes.remove(1);
        observation.jobs.known_mut().ghosts = vec!["a:1:x".to_owned()];
        assert!(consequence(&observation).contains(kills));
    }

    #[test]
    fn where_redis_takes_no_writes_nobody_is_said_to_have_been_killed() {
        let mut observation = healthy::observation();
        observation.jobs.known_mut().ghosts = vec!["a:1:x".to_owned()];
        observation.redis[0].known_mut().info.persistence.last_append_ok = false;
        let finding = check(&observation).remove(0);
        assert_eq!((finding.severity, finding.next_step()), (Severity::Notice, None));
        assert!(finding.consequence.starts_with("Redis rejects writes: the last write"));
    }

    #[test]
    fn a_process_that_runs_here_without_a_heartbeat_is_not_said_to_have_ended() {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        jobs.ghosts = ["a:1:x", "a:2:x"].map(str::to_owned).to_vec();
        jobs.running_ghosts = vec!["a:2:x".to_owned()];
        let findings = check(&observation);
        assert_eq!(findings[0].evidence, "1 process in the list has no heartbeat: a:1:x");
        let expected = "1 process runs on this machine without a heartbeat in this Redis: a:2:x";
        assert_eq!((findings[1].evidence.as_str(), findings[1].next_step()), (expected, None));
        assert!(!findings[1].consequence.contains("ended"));
    }

    #[test]
    fn where_redis_evicts_keys_a_missing_heartbeat_is_no_death() {
        let mut observation = healthy::observation();
        observation.jobs.known_mut().ghosts = vec!["a:1:x".to_owned()];
        let redis = observation.redis[0].known_mut();
        "allkeys-lru".clone_into(&mut redis.info.maxmemory_policy);
        (redis.info.maxmemory_bytes, redis.info.evicted_keys) = (redis.info.used_memory_bytes, 7);
        let finding = check(&observation).remove(0);
        assert!(finding.consequence.starts_with("Redis evicts keys, including heartbeats"));
        assert_eq!(finding.severity, Severity::Notice);
    }

    #[test]
    fn where_redis_evicts_keys_processes_that_run_here_are_not_said_to_hang() {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        jobs.ghosts = vec!["a:1:x".to_owned()];
        jobs.running_ghosts = jobs.ghosts.clone();
        let redis = observation.redis[0].known_mut();
        "volatile-ttl".clone_into(&mut redis.info.maxmemory_policy);
        (redis.info.maxmemory_bytes, redis.info.evicted_keys) = (redis.info.used_memory_bytes, 7);
        let finding = check(&observation).remove(0);
        assert!(finding.evidence.starts_with("1 process runs on this machine without"));
        assert!(finding.consequence.starts_with("Redis evicts keys, including heartbeats"));
        assert!(!finding.consequence.contains("They hang"), "{}", finding.consequence);
        assert_eq!(finding.severity, Severity::Notice);
    }
}
