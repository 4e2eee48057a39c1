//! Where to look: what the busy threads most likely wait for, and the command that shows it.

use super::harm::Harm;
use crate::observation::{
    BusyProgram, JobProcess, Observation, SessionState, SidekiqObservation, is_sidekiq,
};
use crate::wording::{self, percent};

/// With fewer idle cores, programs wait for each other.
const CORES_IDLE_MIN: f64 = 0.2;
/// Share of the cores that another program must use to be named.
const PROGRAM_SHARE: f64 = 0.3;
/// Share of the CPU time of the hypervisor that jobs feel.
const STOLEN_MIN: f64 = 0.1;
/// Share of a minute in which all programs waited for memory.
const STALLED_MIN: f64 = 0.05;
/// Share of the busy threads whose sessions in the database are active.
const DATABASE_SHARE: f64 = 0.5;
/// CPU time of a process, per busy thread, from which its jobs compute.
const COMPUTES: f64 = 0.5;

/// Shows the sessions that have run longest.
const SESSIONS: &str = "SELECT pid, application_name, now() - query_start AS took, wait_event_type, \
                        wait_event, left(query, 300) AS query FROM pg_stat_activity WHERE state = 'active' \
                        AND pid <> pg_backend_pid() ORDER BY query_start LIMIT 10";

/// The next step.
pub(super) struct Place {
    pub(super) text: String,
    pub(super) command: Option<String>,
}

pub(super) fn of(observation: &Observation, jobs: &SidekiqObservation, harm: &Harm<'_>) -> Place {
    let process = busiest(jobs, harm);
    if matches!(harm, Harm::Failures { .. }) {
        return log(observation, process);
    }
    machine(observation, jobs)
        .or_else(|| database(observation, jobs))
        .unwrap_or_else(|| threads(observation, process))
}

/// Returns the process that has most to do with it.
fn busiest<'a>(jobs: &'a SidekiqObservation, harm: &Harm<'_>) -> Option<&'a JobProcess> {
    let concerned = |process: &&JobProcess| match harm {
        Harm::Late { queue, .. } => process.serves(&queue.name),
        Harm::Slower { class, .. } => process.in_hand.iter().any(|job| job.class == *class),
        Harm::Failures { .. } => true,
    };
    let with_command = |process: &JobProcess| process.print_threads_command().is_some();
    let own = jobs.serving().filter(concerned).max_by_key(|it| (with_command(it), it.busy));
    own.or_else(|| jobs.serving().max_by_key(|it| (with_command(it), it.busy)))
}

/// Returns what the machine lacks: CPU time that other programs or machines have, or memory. Jobs that only
/// wait need no CPU time.
fn machine(observation: &Observation, jobs: &SidekiqObservation) -> Option<Place> {
    let machine = observation.machine.known()?;
    let compute = jobs.serving().any(JobProcess::computes);
    if compute && machine.stolen_share >= STOLEN_MIN {
        return Some(Place {
            text: format!(
                "The hypervisor gives {} of this machine's CPU time to others (steal): the column st of the \
                 command shows it. Ask the host's operator, or move to another one.",
                percent(machine.stolen_share)
            ),
            command: Some("vmstat 1 5".to_owned()),
        });
    }
    if let Some(share) = machine.memory_stall_share.filter(|share| *share >= STALLED_MIN) {
        return Some(Place {
            text: format!(
                "In {} of the last minute, all programs of this machine waited for memory \
                 (/proc/pressure/memory): the command shows which programs use most of it.",
                percent(share)
            ),
            command: Some("ps -eo pid,rss,etime,args --sort=-rss | head -n 8".to_owned()),
        });
    }
    let other = other_program(observation, jobs)
        .filter(|it| it.cores >= PROGRAM_SHARE * f64::from(machine.cores))?;
    (compute && machine.cores_idle < CORES_IDLE_MIN).then(|| Place {
        text: format!(
            "No core of this machine is idle, and another program uses {:.1} of its {}: {} (process {}). The \
             command shows what it is.",
            other.cores,
            wording::number(machine.cores, "core", "cores"),
            if other.name.is_empty() { "without a name" } else { &other.name },
            other.pid
        ),
        command: Some(format!("ps -o pid,ppid,user,etime,pcpu,rss,args -p {}", other.pid)),
    })
}

/// Returns the program with most CPU time that is neither Sidekiq, nor Redis, nor the database.
fn other_program<'a>(
    observation: &'a Observation,
    jobs: &SidekiqObservation,
) -> Option<&'a BusyProgram> {
    const SERVERS: [&str; 4] = ["postgres", "redis", "valkey", "pgbouncer"];
    let is_own = |program: &BusyProgram| {
        jobs.processes.iter().any(|process| process.pid == program.pid)
            || SERVERS.iter().any(|server| program.name.starts_with(server))
            || is_sidekiq(&program.name)
    };
    observation.programs.iter().find(|program| !is_own(program))
}

/// Returns the database, if it works for most of the busy threads.
fn database(observation: &Observation, jobs: &SidekiqObservation) -> Option<Place> {
    let postgres = observation.postgres.known()?;
    let connections = postgres.connections.known()?;
    let active: u32 = connections
        .sessions
        .iter()
        .filter(|it| it.state == SessionState::Active && it.service != "psql")
        .map(|it| it.count)
        .sum();
    let busy = jobs.busy();
    if busy == 0 || f64::from(active) < DATABASE_SHARE * busy as f64 {
        return None;
    }
    let waits = postgres.waits.known().and_then(|waits| waits.first());
    let waits = waits.map(|it| format!(", most often waiting for {} ({})", it.event, it.kind));
    Some(Place {
        text: format!(
            "{} in the database for {} in progress{}: look there first. The command shows the \
             statements that have run longest.",
            wording::number(active, "session is active", "sessions are active"),
            wording::number(busy, "job", "jobs"),
            waits.unwrap_or_default()
        ),
        command: Some(observation.psql(SESSIONS)),
    })
}

/// Returns the log, which has each error.
fn log(observation: &Observation, process: Option<&JobProcess>) -> Place {
    let host = process.map(|it| it.hostname.as_str()).unwrap_or_default();
    let on = if host.is_empty() { String::new() } else { format!(" on {host}") };
    let text = format!(
        "Sidekiq's log{on} has each error with the line that raised it; the command counts the errors of the \
         jobs that are retried next."
    );
    Place { text, command: failed(observation) }
}

/// Returns the threads themselves: their backtraces show what they do.
fn threads(observation: &Observation, process: Option<&JobProcess>) -> Place {
    let Some(process) = process else {
        return Place {
            text: "See in Sidekiq's log what its threads do.".to_owned(),
            command: None,
        };
    };
    let text = format!("{} {}", what_they_do(observation, process), process.where_threads_show());
    Place { text, command: process.print_threads_command() }
}

/// Says what is known of the threads of a process without their backtraces.
fn what_they_do(observation: &Observation, process: &JobProcess) -> String {
    let busy = process.busy.min(u64::from(process.concurrency())).max(1);
    let database = match observation.postgres.known() {
        Some(_) => "nor is the database busy for them",
        None => "the database was not observed",
    };
    match process.cores_used.known() {
        Some(used) if *used >= COMPUTES.min(COMPUTES * busy as f64) => format!(
            "Process {} uses {used:.1} of the one core that Ruby can use: its jobs compute. \
             perf top -p {} shows in which code, if it is native.",
            process.identity, process.pid
        ),
        // A free thread takes a job at once.
        Some(_) if process.busy == 0 => format!(
            "Process {} sends heartbeats, and no thread of it takes a job: {database}. Most likely they are \
             blocked inside the process, for example in writing to a log that nobody reads: \
             ls -l /proc/{}/fd/1 shows where its output goes.",
            process.identity, process.pid
        ),
        Some(used) => format!(
            "Its threads do not compute (process {} uses {used:.2} of a core); {database}: they wait, most \
             likely for another service (HTTP, DNS), a lock, a file or a disk, or for CPU time, if its \
             container or unit has a limit.",
            process.identity
        ),
        None => format!(
            "Whether the threads of process {} compute or wait was not visible from here; {database}.",
            process.identity
        ),
    }
}

/// Counts the errors of jobs in the retry set.
fn failed(observation: &Observation) -> Option<String> {
    let redis = observation.redis.first()?.known()?;
    Some(observation.redis_command(&redis.name, |cli| {
        format!(
            "{cli} ZRANGE retry 0 999 | grep -oE '\"(wrapped|error_class)\":\"[^\"]*\"' | sort | uniq -c | sort -rn \
             | head"
        )
    }))
}
