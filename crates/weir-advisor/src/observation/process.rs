//! Processes that work off jobs, and what they serve.

use std::time::Duration;

use serde::Serialize;

use super::Fact;
use crate::{shell, wording};

/// One process that works off jobs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct JobProcess {
    /// `host:pid:nonce`.
    pub identity: String,
    /// The host as the process names it.
    pub hostname: String,
    /// Its number there.
    pub pid: u32,
    /// Jobs in hand.
    pub busy: u64,
    /// Since when threads have their jobs, as far as they tell, with the class of each.
    pub in_hand: Vec<JobInHand>,
    /// It takes no new jobs (TSTP) and still beats.
    pub quiet: bool,
    /// For so long it was seen to be quiet, at least: no heartbeat tells since when.
    pub quiet_for: Duration,
    /// Since its start, as far as it tells.
    pub running_for: Option<Duration>,
    /// Since its last heartbeat.
    pub beat_age: Duration,
    /// Whether it runs, as far as it was seen.
    pub presence: ProcessPresence,
    /// How far the clock of its host is ahead of that of Redis; 0 where they agree, or nobody knows.
    pub clock_ahead_seconds: f64,
    /// Its threads, with what they serve. At least one.
    pub capsules: Vec<Capsule>,
    /// Cores that it used between two looks; known on the same host only.
    pub cores_used: Fact<f64>,
}

/// Whether a process runs. A heartbeat outlives its process by a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessPresence {
    /// It has beaten between two looks, or runs on this machine.
    Seen,
    /// Its last heartbeat is not old: it may have ended since.
    #[default]
    Presumed,
    /// It has missed a heartbeat.
    Silent,
    /// Its host is this machine, which has no process of its number.
    Gone,
}

/// What a thread works at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JobInHand {
    /// Its class; empty where it could not be read.
    pub class: String,
    /// How long the thread has had it.
    pub age: Duration,
}

/// Threads of a process that share queues (Sidekiq 7+; earlier a process has one).
#[derive(Clone, Debug, Default, Serialize)]
pub struct Capsule {
    /// `default` for the first.
    pub name: String,
    /// Threads.
    pub concurrency: u32,
    /// How it chooses among its queues.
    pub ordering: Ordering,
    /// In the order in which they are looked at.
    pub queues: Vec<WeightedQueue>,
}

/// A queue as a capsule serves it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WeightedQueue {
    /// Its name.
    pub name: String,
    /// 0 in strict order; unknown of Sidekiq 6.
    pub weight: u32,
}

/// How a capsule chooses the next queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ordering {
    /// The first that has jobs.
    Strict,
    /// By chance, all alike.
    Random,
    /// By chance, by weight.
    Weighted,
    /// Sidekiq 6 tells the order only.
    #[default]
    Unknown,
}

impl JobProcess {
    /// All its threads.
    #[must_use]
    pub fn concurrency(&self) -> u32 {
        self.capsules.iter().map(|capsule| capsule.concurrency).sum()
    }

    /// Whether every thread has had its job for so long.
    pub(crate) fn all_have_had_their_job_for(&self, age: Duration) -> bool {
        let old = self.in_hand.iter().filter(|job| job.age >= age).count();
        self.concurrency() > 0 && old as u64 >= u64::from(self.concurrency())
    }

    /// Whether it takes new jobs, as far as can be said.
    #[must_use]
    pub const fn takes_jobs(&self) -> bool {
        !self.quiet && self.is_alive()
    }

    /// Whether it runs, as far as can be said.
    #[must_use]
    pub const fn is_alive(&self) -> bool {
        matches!(self.presence, ProcessPresence::Seen | ProcessPresence::Presumed)
    }

    /// Why it takes no new jobs: "is quiet (TSTP)".
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

    /// The command at which it writes what its threads do into its log.
    #[must_use]
    pub fn print_threads_command(&self) -> Option<String> {
        self.signal("TTIN")
    }

    /// The command that sends it a signal; none if its number is not known, for 0 is whoever asks. That
    /// number is its host's or its container's: anywhere else it is another process.
    #[must_use]
    pub fn signal(&self, name: &str) -> Option<String> {
        if self.pid == 0 {
            return None;
        }
        self.there(&format!("kill -{name} {}", self.pid))
    }

    /// A command on its host, or in its container.
    #[must_use]
    pub fn there(&self, command: &str) -> Option<String> {
        // What a core of this machine did was seen of processes of this machine only.
        if self.cores_used.known().is_some() {
            return Some(command.to_owned());
        }
        if self.hostname.is_empty() {
            return None;
        }
        let host = shell::word(&self.hostname);
        // What Docker calls a container that nobody has named.
        let is_container = self.hostname.len() == 12
            && self.hostname.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
        Some(match is_container {
            true => format!("docker exec {host} sh -c '{command}'"),
            false => format!("ssh {host} {command}"),
        })
    }

    /// Whether one of its capsules serves `queue`.
    #[must_use]
    pub fn serves(&self, queue: &str) -> bool {
        self.served().any(|served| served == queue)
    }

    /// The queues of all its capsules.
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
        let tell = |hostname: &str, pid, cores_used| {
            let hostname = hostname.to_owned();
            JobProcess { hostname, pid, cores_used, ..JobProcess::default() }
                .print_threads_command()
        };
        let here = Fact::Known(0.1);
        assert_eq!(tell("web", 7, here.clone()).unwrap(), "kill -TTIN 7");
        assert_eq!(tell("web", 7, Fact::NotAsked).unwrap(), "ssh web kill -TTIN 7");
        let container = tell("3f2a9c01de45", 1, Fact::NotAsked).unwrap();
        assert_eq!(container, "docker exec 3f2a9c01de45 sh -c 'kill -TTIN 1'");
        assert_eq!(tell("a; b", 7, Fact::NotAsked).unwrap(), "ssh 'a; b' kill -TTIN 7");
        assert_eq!(
            tell("web", 0, here),
            None,
            "that is the shell that asks, and all it has started"
        );
    }
}
