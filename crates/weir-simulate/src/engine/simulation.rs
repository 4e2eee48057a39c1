//! The state of a simulation.

use std::collections::VecDeque;

use fastrand::Rng;

use super::events::Calendar;
use super::integral::Integral;
use super::random;
use super::record::Record;
use super::shared::Shared;
use super::waiting::Lines;
use crate::plant::{Actuators, Group, Plant};
use crate::policy::Policy;
use crate::scenario::{Class, Scenario};

/// A job in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    pub(super) class: usize,
    pub(super) group: usize,
    pub(super) id: u32,
    pub(super) attempt: u32,
    /// Distinguishes the jobs that use the same place one after the other.
    pub(super) serial: u32,
    pub(super) started: f64,
    /// Seconds of computation.
    pub(super) computing: f64,
    /// Seconds of work in the database.
    pub(super) work: f64,
    /// Load of its session, as it was at its start.
    pub(super) load: f64,
    pub(super) in_database: f64,
    pub(super) fails: bool,
    pub(super) has_connection: bool,
    pub(super) has_pooled: bool,
}

/// A lock: who holds it, and who waits in line.
#[derive(Debug, Default)]
pub(super) struct Lock {
    pub(super) holder: Option<u32>,
    pub(super) waiting: VecDeque<u32>,
}

/// A class at run time: its values as the events have changed them.
#[derive(Debug)]
pub(super) struct LiveClass {
    pub(super) values: Class,
    pub(super) queue: usize,
    pub(super) lock: Option<usize>,
    pub(super) generation: u32,
    pub(super) arrivals: Rng,
    pub(super) sessions: Integral,
    pub(super) idle_sessions: Integral,
    pub(super) blocks: Integral,
    pub(super) finished: u64,
    pub(super) run_seconds: f64,
}

/// A group at run time.
#[derive(Debug)]
pub(super) struct LiveGroup {
    pub(super) processors: Shared,
    pub(super) running: u32,
    pub(super) starting: u32,
    pub(super) busy: u32,
}

pub(super) struct Simulation<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) plant: Plant,
    pub(super) policy: &'a mut dyn Policy,
    pub(super) actuators: Actuators,
    pub(super) seed: u64,
    pub(super) now: f64,
    pub(super) calendar: Calendar,
    pub(super) classes: Vec<LiveClass>,
    pub(super) groups: Vec<LiveGroup>,
    /// The groups that serve each queue.
    pub(super) serving: Vec<Vec<usize>>,
    pub(super) threads_max: u32,
    pub(super) lines: Lines,
    pub(super) jobs: Vec<Running>,
    pub(super) free: Vec<u32>,
    pub(super) database: Shared,
    pub(super) pool_free: u32,
    pub(super) pool_waiting: VecDeque<u32>,
    pub(super) pool_waits: Integral,
    pub(super) lock_waits: Integral,
    pub(super) locks: Vec<Lock>,
    pub(super) connections: u32,
    pub(super) retries: u64,
    pub(super) next_id: u32,
    pub(super) choices: Rng,
    pub(super) arrivals: Vec<u64>,
    pub(super) sampled: f64,
    pub(super) is_blind: u32,
    pub(super) record: Record,
}

impl<'a> Simulation<'a> {
    pub(super) fn new(scenario: &'a Scenario, policy: &'a mut dyn Policy, seed: u64) -> Self {
        let plant = Plant::new(scenario);
        let mut actuators = Actuators::new(&plant);
        policy.prepare(&plant, &mut actuators);
        let queue_of: Vec<usize> = plant.roster.classes.iter().map(|it| it.queue).collect();
        let mut lock_names: Vec<&String> =
            scenario.classes.iter().filter_map(|it| it.lock.as_ref()).collect();
        lock_names.sort();
        lock_names.dedup();
        let class = |(index, values): (usize, &Class)| LiveClass {
            values: values.clone(),
            queue: queue_of[index],
            lock: lock_names.iter().position(|name| Some(*name) == values.lock.as_ref()),
            generation: 0,
            arrivals: random::stream(seed, index as u64 + 1),
            sessions: Integral::default(),
            idle_sessions: Integral::default(),
            blocks: Integral::default(),
            finished: 0,
            run_seconds: 0.0,
        };
        let group = |(group, processes): (&Group, &u32)| LiveGroup {
            processors: Shared::new(f64::from(group.processes.max(*processes)), 0.0),
            running: *processes,
            starting: 0,
            busy: 0,
        };
        let serving = (0..scenario.queues.len()).map(|queue| {
            let serves = |group: &Group| group.queues.iter().any(|it| it.0 == queue);
            (0..plant.groups.len()).filter(|at| serves(&plant.groups[*at])).collect()
        });
        let database = &scenario.database;
        Self {
            scenario,
            seed,
            now: 0.0,
            calendar: Calendar::default(),
            classes: scenario.classes.iter().enumerate().map(class).collect(),
            groups: plant.groups.iter().zip(&actuators.processes).map(group).collect(),
            serving: serving.collect(),
            threads_max: plant.threads_max(),
            lines: Lines::new(&queue_of, scenario.queues.len()),
            jobs: Vec::new(),
            free: Vec::new(),
            database: Shared::new(database.sessions, database.contention),
            pool_free: database.pool.unwrap_or(u32::MAX),
            pool_waiting: VecDeque::new(),
            pool_waits: Integral::default(),
            lock_waits: Integral::default(),
            locks: lock_names.iter().map(|_| Lock::default()).collect(),
            connections: 0,
            retries: 0,
            next_id: 0,
            choices: random::stream(seed, 0),
            arrivals: vec![0; scenario.queues.len()],
            sampled: 0.0,
            is_blind: 0,
            record: Record::new(scenario, &plant),
            plant,
            policy,
            actuators,
        }
    }
}
