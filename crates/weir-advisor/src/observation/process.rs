//! Processes that run jobs, and the queues that they serve.

use std::time::Duration;

use serde::Serialize;

use super::Fact;
use crate::{shell, wording};

/// Share of a core that a process uses whose jobs compute, even if other programs leave it no more.
const COMPUTING_SHARE: f64 = 0.1;

/// A Sidekiq process.
#[derive(Clone, Debug, Default, Serialize)]
pub struct JobProcess {
    /// `host:pid:nonce`.
    pub identity: String,
    /// Host name as the process reports it.
    pub hostname: String,
    /// Its process ID on that host.
    pub pid: u32,
    /// The tag of its application. Sidekiq's default is the name of the application's folder.
    pub tag: Option<String>,
    /// Number of jobs in progress.
    pub busy: u64,
    /// Jobs in progress with class and age, as far as known.
    pub in_hand: Vec<JobInHand>,
    /// It accepts no new jobs (TSTP) and still sends heartbeats.
    pub quiet: bool,
    /// How long it has been observed to be quiet, at least. Heartbeats do not say since when.
    pub quiet_for: Duration,
    /// Time since its start, if known.
    pub running_for: Option<Duration>,
    /// Time since its last heartbeat.
    pub beat_age: Duration,
    /// Whether it is running, as far as known.
    pub presence: ProcessPresence,
    /// Where its process ID is valid.
    pub place: ProcessPlace,
    /// How far its host's clock is ahead of Redis' clock; 0 if equal or unknown.
    pub clock_ahead_seconds: f64,
    /// Its capsules. There is at least one.
    pub capsules: Vec<Capsule>,
    /// CPU cores used between two samples. Known on the observer's host only.
    pub cores_used: Fact<f64>,
    /// Its last measured round trip to Redis. Not reported by early versions of Sidekiq 6.
    pub round_trip: Option<Duration>,
    /// Its resident memory, as it reports it.
    pub rss_bytes: Option<u64>,
    /// How much that has grown while it was observed, or between two samples.
    pub growth: Option<MemoryGrowth>,
}

/// Growth of a process' resident memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryGrowth {
    /// The growth; 0 if it has shrunk.
    pub bytes: u64,
    /// The time of that growth.
    pub over: Duration,
}

impl MemoryGrowth {
    /// Returns the growth per second, or `None` if it has not grown.
    #[must_use]
    pub fn bytes_per_second(&self) -> Option<f64> {
        let seconds = self.over.as_secs_f64();
        (self.bytes > 0 && seconds > 0.0).then(|| self.bytes as f64 / seconds)
    }
}

/// Where a process runs, as seen from the observer's machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessPlace {
    /// It reports another host, or this machine was not observed.
    #[default]
    Elsewhere,
    /// It reports this machine, where its process ID is that of a Sidekiq.
    Here,
    /// It reports this machine, where its process ID is not that of a Sidekiq: it has ended, or is
    /// in a container with process IDs of its own.
    Unconfirmed,
}

/// Whether a process is running. Redis keeps a heartbeat for a minute after its process has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessPresence {
    /// It sent a heartbeat between two samples, or runs on this machine.
    Seen,
    /// Its last heartbeat is recent. It may have ended since.
    #[default]
    Presumed,
    /// It has missed a heartbeat.
    Silent,
    /// It was on this machine and has ended.
    Gone,
}

/// A job in progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JobInHand {
    /// Job class, or empty if it could not be read.
    pub class: String,
    /// The queue that it was taken from, or empty if unknown.
    pub queue: String,
    /// How long the job has been running.
    pub age: Duration,
}

/// Threads of a process that share a set of queues (Sidekiq 7+; earlier versions have one set).
#[derive(Clone, Debug, Default, Serialize)]
pub struct Capsule {
    /// Name; the first capsule is `default`.
    pub name: String,
    /// Number of threads.
    pub concurrency: u32,
    /// How it selects among its queues.
    pub ordering: Ordering,
    /// Queues in the order in which they are checked.
    pub queues: Vec<WeightedQueue>,
}

/// A queue of a capsule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WeightedQueue {
    /// Its name.
    pub name: String,
    /// 0 in strict order. Not reported by Sidekiq 6.
    pub weight: u32,
}

/// How a capsule selects the next queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ordering {
    /// The first queue that has jobs.
    Strict,
    /// Random with equal probabilities.
    Random,
    /// Random by weight.
    Weighted,
    /// Not known: Sidekiq 6 reports only the order of the queues.
    #[default]
    Unknown,
}

impl Capsule {
    /// Returns the place of a queue in the order in which the queues are checked.
    pub(crate) fn position(&self, queue: &str) -> Option<usize> {
        self.queues.iter().position(|served| served.name == queue)
    }
}

impl JobProcess {
    /// Returns the number of threads of all capsules.
    #[must_use]
    pub fn concurrency(&self) -> u32 {
        self.capsules.iter().map(|capsule| capsule.concurrency).sum()
    }

    /// Reports whether its jobs are known to compute. Jobs that only wait need no CPU time, so a
    /// machine without an idle core does not delay them.
    pub(crate) fn computes(&self) -> bool {
        self.cores_used.known().is_some_and(|used| *used >= COMPUTING_SHARE)
    }

    /// Reports whether every thread has been running its job for at least `age`.
    pub(crate) fn all_have_had_their_job_for(&self, age: Duration) -> bool {
        let old = self.in_hand.iter().filter(|job| job.age >= age).count();
        self.concurrency() > 0 && old as u64 >= u64::from(self.concurrency())
    }

    /// Reports whether it accepts new jobs, as far as known.
    #[must_use]
    pub const fn takes_jobs(&self) -> bool {
        !self.quiet && self.is_alive()
    }

    /// Reports whether it is running, as far as known.
    #[must_use]
    pub const fn is_alive(&self) -> bool {
        matches!(self.presence, ProcessPresence::Seen | ProcessPresence::Presumed)
    }

    /// Says why it accepts no new jobs: "is quiet (TSTP)".
    #[must_use]
    pub fn why_it_takes_none(&self) -> String {
        match self.presence {
            ProcessPresence::Gone => format!(
                "has ended: {} has no process {}, whose last heartbeat was {} ago",
                self.hostname,
                self.pid,
                wording::duration(self.beat_age)
            ),
            ProcessPresence::Silent => format!(
                "has missed heartbeats; the last one was {} ago",
                wording::duration(self.beat_age)
            ),
            ProcessPresence::Seen | ProcessPresence::Presumed => "is quiet (TSTP)".to_owned(),
        }
    }

    /// Returns the command that makes it log the backtraces of its threads.
    #[must_use]
    pub fn print_threads_command(&self) -> Option<String> {
        self.signal("TTIN")
    }

    /// Says how to find out what its threads are doing, to go with
    /// [`print_threads_command`](Self::print_threads_command).
    pub(crate) fn where_threads_show(&self) -> String {
        let Self { hostname, pid, .. } = self;
        match (self.print_threads_command(), self.place) {
            (Some(_), _) => {
                format!("After the signal, Sidekiq's log on {hostname} shows what the threads do.")
            }
            (None, ProcessPlace::Unconfirmed) => format!(
                "It reports the name of this host, where process {pid} is not a Sidekiq: it may be \
                 in a container. The signal TTIN, sent there, makes it log what its threads do."
            ),
            (None, _) => "The signal TTIN makes it log what its threads do.".to_owned(),
        }
    }

    /// Returns the command that sends it a signal, for its own host or container. On another host,
    /// the command first checks that the process ID is that of a Sidekiq. Returns `None` if the
    /// process ID is unknown (`kill` with 0 would signal the operator's own process group) or is
    /// another process' here.
    #[must_use]
    pub fn signal(&self, name: &str) -> Option<String> {
        let Self { pid, .. } = self;
        match self.place {
            _ if *pid == 0 => None,
            ProcessPlace::Here => Some(format!("kill -{name} {pid}")),
            ProcessPlace::Unconfirmed => None,
            ProcessPlace::Elsewhere => {
                self.there(&format!("grep -aq sidekiq /proc/{pid}/cmdline && kill -{name} {pid}"))
            }
        }
    }

    /// Wraps a command to run on the process' host or in its container.
    #[must_use]
    pub fn there(&self, command: &str) -> Option<String> {
        if self.place != ProcessPlace::Elsewhere {
            return Some(command.to_owned());
        }
        if self.hostname.is_empty() {
            return None;
        }
        let end_of_options = if self.hostname.starts_with('-') { "-- " } else { "" };
        let host = format!("{end_of_options}{}", shell::word(&self.hostname));
        // A host name of 12 hexadecimal digits is the default for Docker containers.
        let is_container = self.hostname.len() == 12
            && self.hostname.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
        Some(match is_container {
            true => format!("docker exec {host} sh -c {}", shell::word(command)),
            false => format!("ssh {host} {}", shell::word(command)),
        })
    }

    /// Reports whether one of its capsules serves `queue`.
    #[must_use]
    pub fn serves(&self, queue: &str) -> bool {
        self.served().any(|served| served == queue)
    }

    /// Returns the queues of all its capsules.
    pub fn served(&self) -> impl Iterator<Item = &str> {
        let queues = self.capsules.iter().flat_map(|capsule| &capsule.queues);
        queues.map(|queue| queue.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_sent_a_signal_only_where_it_is_that_process() {
        use ProcessPlace::{Elsewhere, Here, Unconfirmed};
        let process = |hostname: &str, pid, place| {
            let hostname = hostname.to_owned();
            JobProcess { hostname, pid, place, ..JobProcess::default() }
        };
        let tell =
            |hostname: &str, pid, place| process(hostname, pid, place).print_threads_command();
        assert_eq!(tell("web", 7, Here).unwrap(), "kill -TTIN 7");
        let checked = "'grep -aq sidekiq /proc/7/cmdline && kill -TTIN 7'";
        assert_eq!(tell("web", 7, Elsewhere).unwrap(), format!("ssh web {checked}"));
        let container = tell("3f2a9c01de45", 7, Elsewhere).unwrap();
        assert_eq!(container, format!("docker exec 3f2a9c01de45 sh -c {checked}"));
        assert_eq!(tell("a; b", 7, Elsewhere).unwrap(), format!("ssh 'a; b' {checked}"));
        assert!(tell("-oX=y", 7, Elsewhere).unwrap().starts_with("ssh -- -oX=y "), "no option");
        assert_eq!(
            tell("web", 0, Here),
            None,
            "that is the shell that asks, and all it has started"
        );
        // Process 7 of this machine is another program: that Sidekiq may be in a container.
        assert_eq!(tell("web", 7, Unconfirmed), None);
        let how = process("web", 7, Unconfirmed).where_threads_show();
        assert!(how.contains("process 7 is not a Sidekiq: it may be in a container"), "{how}");
        assert_eq!(process("web", 7, Unconfirmed).there("timedatectl").unwrap(), "timedatectl");
        assert_eq!(
            process("web", 7, Elsewhere).there("timedatectl").unwrap(),
            "ssh web timedatectl"
        );
    }
}
