//! What each process of a group of job workers gets at its start: threads and queues. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Limit of the threads of one process.
pub const THREADS_MAX: u32 = 100_000;

/// The placeholder of the threads.
pub(crate) const CONCURRENCY: &str = "concurrency";
/// The placeholder of the queues.
pub(crate) const QUEUES: &str = "queues";

/// The part of a group's specification that only job workers have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobSpec {
    /// Threads and queues of the settings.
    pub values: WorkerValues,
    /// Placed before each queue, where `{queues}` is an argument by itself.
    pub queue_flag: Option<String>,
    /// Database connections of a process: this many for each thread,
    pub connections_per_thread: u32,
    /// and this many in addition.
    pub connections_per_process: u32,
    /// The group whose limited class of jobs this one serves. It then has a process only while a [`ParentCommand::Limit`]
    /// says so, and no two at once.
    ///
    /// [`ParentCommand::Limit`]: crate::control::ParentCommand::Limit
    pub limited_of: Option<String>,
}

/// Threads and queues of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerValues {
    /// None: the command does not get it.
    pub threads: Option<u32>,
    /// As the command gets them, such as `mailers` or `mailers,2`.
    pub queues: Vec<String>,
}

/// Returns the name of the group that serves a limited class of jobs of this group.
#[must_use]
pub fn limited_group(group: &str) -> String {
    format!("{group}-limited")
}

/// The values and the connections of a process, as it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LaunchValues {
    pub(crate) values: WorkerValues,
    /// The database connections that it may open.
    pub(crate) connections: u32,
}

impl JobSpec {
    /// Returns the placeholders for the command and the environment.
    #[must_use]
    pub fn variables(&self, values: &WorkerValues) -> BTreeMap<String, Vec<String>> {
        let threads = values.threads.iter().map(ToString::to_string).collect();
        let flag = || self.queue_flag.iter().cloned();
        let queues = values.queues.iter().flat_map(|queue| flag().chain([queue.clone()])).collect();
        BTreeMap::from([(CONCURRENCY.to_owned(), threads), (QUEUES.to_owned(), queues)])
    }

    /// Returns the database connections of a process with these values. A process whose threads are
    /// unknown has at least one.
    #[must_use]
    pub fn connections(&self, values: &WorkerValues) -> u32 {
        let threads = values.threads.unwrap_or(1);
        threads
            .saturating_mul(self.connections_per_thread)
            .saturating_add(self.connections_per_process)
    }

    pub(crate) fn launch_values(&self, values: WorkerValues) -> LaunchValues {
        LaunchValues { connections: self.connections(&values), values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_those_of_all_threads_and_of_the_process() {
        let spec =
            JobSpec { connections_per_thread: 2, connections_per_process: 3, ..JobSpec::default() };
        for (threads, connections) in [(Some(10), 23), (Some(1), 5), (None, 5)] {
            let values = WorkerValues { threads, queues: Vec::new() };
            assert_eq!(spec.connections(&values), connections, "{threads:?}");
        }
        let most = WorkerValues { threads: Some(u32::MAX), queues: Vec::new() };
        assert_eq!(spec.connections(&most), u32::MAX);
    }
}
