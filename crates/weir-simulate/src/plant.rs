//! What a policy knows of the simulated system in advance, and what it may change.

use weir_control::load::{ClassInfo, QueueInfo};
use weir_control::{Allocation, Roster};

use crate::scenario::{Scenario, Workers};

/// A simulated system, as its operator knows it.
#[derive(Clone, Debug)]
pub struct Plant {
    /// Queues and classes.
    pub roster: Roster,
    /// Groups of workers.
    pub groups: Vec<Group>,
    /// Connections for jobs.
    pub connections: u32,
    /// Memory for processes.
    pub memory_mb: f64,
}

/// A group of worker processes.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Whether policies may change it.
    pub is_managed: bool,
    /// Threads of a process.
    pub threads: u32,
    /// Processes of the static plan.
    pub processes: u32,
    /// The most processes.
    pub processes_max: u32,
    /// Memory of a process.
    pub memory_mb: f64,
    /// Queues in their order, with their weights.
    pub queues: Vec<(usize, u32)>,
}

impl Plant {
    /// Describes the system of a scenario.
    #[must_use]
    pub fn new(scenario: &Scenario) -> Self {
        let groups: Vec<Group> = scenario.workers.iter().map(|it| group(scenario, it)).collect();
        let is_managed = |queue: usize| {
            let serves = |group: &&Group| group.queues.iter().any(|(it, _)| *it == queue);
            groups.iter().filter(serves).all(|group| group.is_managed)
        };
        let queues = scenario.queues.iter().enumerate().map(|(index, queue)| QueueInfo {
            name: queue.name.clone(),
            target_seconds: queue.target_seconds,
            fresh_lane: queue.fresh_lane,
            is_managed: is_managed(index),
        });
        let classes = scenario.classes.iter().map(|class| ClassInfo {
            name: class.name.clone(),
            queue: scenario.queue_index(&class.queue).unwrap_or_default(),
            can_be_limited: true,
        });
        let roster = Roster {
            queues: queues.collect(),
            classes: classes.collect(),
            shares_threads_itself: false,
        };
        Self {
            roster,
            groups,
            connections: scenario.database.connections,
            memory_mb: scenario.machine.memory_mb,
        }
    }

    /// Returns the groups that policies may change, with their positions.
    pub fn managed(&self) -> impl Iterator<Item = (usize, &Group)> {
        self.groups.iter().enumerate().filter(|(_, group)| group.is_managed)
    }

    /// Returns the threads of the static plan's managed groups.
    #[must_use]
    pub fn static_threads(&self) -> u32 {
        self.managed().map(|(_, group)| group.threads * group.processes).sum()
    }

    /// Returns the most threads of the managed groups: within their processes, the memory, and the connections that the
    /// other groups leave.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of memory, from 0 to 1"
    )]
    pub fn threads_max(&self) -> u32 {
        let others = self.groups.iter().filter(|group| !group.is_managed);
        let others: u32 = others.map(|group| group.threads * group.processes).sum();
        let memory: f64 =
            self.managed().map(|(_, it)| it.memory_mb * f64::from(it.processes_max)).sum();
        let fits = (self.memory_mb / memory.max(1.0)).min(1.0);
        let threads = |group: &Group| {
            let processes = (f64::from(group.processes_max) * fits) as u32;
            group.threads * processes.max(group.processes)
        };
        let threads: u32 = self.managed().map(|(_, group)| threads(group)).sum();
        threads.min(self.connections.saturating_sub(others)).max(1)
    }
}

fn group(scenario: &Scenario, workers: &Workers) -> Group {
    let queues = workers.queues.iter().filter_map(|entry| {
        let (name, weight) = Workers::parse_queue(entry);
        Some((scenario.queue_index(name)?, weight.unwrap_or(1)))
    });
    Group {
        name: workers.name.clone(),
        is_managed: workers.managed,
        threads: workers.threads,
        processes: workers.processes,
        processes_max: workers.processes_max.unwrap_or(workers.processes).max(workers.processes),
        memory_mb: workers.memory_mb,
        queues: queues.collect(),
    }
}

/// Everything that a policy may change.
#[derive(Clone, Debug, PartialEq)]
pub struct Actuators {
    /// Threads of the managed groups that may be busy at once.
    pub threads: Option<u32>,
    /// Reserved threads of the managed groups, instead of the order of each group.
    pub allocation: Option<Allocation>,
    /// The most jobs in progress, by class.
    pub caps: Vec<Option<u32>>,
    /// Processes of each group. More take the machine's `process_start_seconds` to start.
    pub processes: Vec<u32>,
}

impl Actuators {
    /// Returns the static plan.
    #[must_use]
    pub fn new(plant: &Plant) -> Self {
        Self {
            threads: None,
            allocation: None,
            caps: vec![None; plant.roster.classes.len()],
            processes: plant.groups.iter().map(|group| group.processes).collect(),
        }
    }
}
