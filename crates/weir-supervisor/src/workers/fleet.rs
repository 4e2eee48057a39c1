//! All groups and their processes; the supervisor's loop calls it in every iteration.

mod commands;
mod events;
mod handover;
mod limited_groups;
mod overrides;
mod reports;
mod services;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use self::reports::Cursor;
use self::services::ServiceConnection;
pub(crate) use self::services::{CommandSender, ServiceCommand};
use super::blueprint::Blueprint;
use super::check::GroupSpecError;
use super::generation::{Moment, Numbers, Times};
use super::group::{GroupUpdate, WorkerGroup};
use super::process::WorkerProcess;
use super::spec::{GroupName, GroupNameError, GroupSpec};
use super::{GROUPS_MAX, STARTS_PER_TURN_MAX};
use crate::control::{ParentTotals, RollingState};
use crate::printer::Printer;
use crate::workers::overrides::in_force::Overrides;

/// Groups of workers, run by a [`Supervisor`](crate::Supervisor).
#[derive(Debug)]
pub struct Fleet {
    groups: Vec<RunningGroup>,
    /// By generation.
    processes: BTreeMap<u64, WorkerProcess>,
    numbers: Numbers,
    printer: Printer,
    overrides: Overrides,
    /// Connections to the service, and to others during a replacement.
    connections: Vec<ServiceConnection>,
    connections_made: u64,
    /// Commands of services to the supervisor itself.
    service_commands: Vec<(ServiceCommand, CommandSender)>,
    /// For each generation to stop, the services that have stopped sending it requests.
    released_by_services: BTreeMap<u64, BTreeSet<u64>>,
    /// Whether requests are left for the next iteration.
    has_unread: bool,
    is_stopping: bool,
    was_killed: bool,
    /// Counters, except for `output_lines_dropped`.
    pub(crate) totals: ParentTotals,
    totals_sent: ParentTotals,
    totals_at: Duration,
}

/// One group.
#[derive(Debug)]
struct RunningGroup {
    blueprint: Blueprint,
    rules: WorkerGroup,
    rolling: Option<RollingState>,
    /// Whether the settings no longer contain the group: it ends once no service needs it.
    is_retired: bool,
    /// Whether it was asked to end as part of a shutdown.
    is_stopped: bool,
}

/// A group without a worker because none could be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedGroup {
    pub name: GroupName,
    /// The reason with the worker's name; may have several lines.
    pub reason: String,
}

/// Why groups cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    InvalidGroups(Vec<GroupSpecError>),
    #[error("two groups of workers are called {0}; rename one")]
    TwiceTheName(GroupName),
    #[error(transparent)]
    Name(GroupNameError),
    #[error("{0} groups of workers are more than {GROUPS_MAX}")]
    TooManyGroups(usize),
    #[error("the folder for sockets of workers {group} can't be prepared: {error}")]
    RunFolder { group: GroupName, error: io::Error },
}

impl RunningGroup {
    fn new(blueprint: Blueprint, rules: WorkerGroup) -> Self {
        Self { blueprint, rules, rolling: None, is_retired: false, is_stopped: false }
    }
}

impl Fleet {
    /// Creates the groups; the supervisor starts their workers. `run_folder` is for unix sockets:
    /// workers of other users must be able to reach it, and no other Weir may use it.
    pub fn new(groups: Vec<GroupSpec>, run_folder: &Path) -> Result<Self, FleetError> {
        let fleet = Self::checked(groups, run_folder)?;
        for RunningGroup { blueprint, .. } in &fleet.groups {
            let group = || blueprint.spec.name.clone();
            let prepared = blueprint.prepare_folder(&BTreeSet::new());
            prepared.map_err(|error| FleetError::RunFolder { group: group(), error })?;
        }
        Ok(fleet)
    }

    /// Like [`Fleet::new`], while the `running` generations keep their sockets. Their groups may
    /// use another folder now, because the user changed.
    pub(crate) fn with_running(
        groups: Vec<GroupSpec>,
        run_folder: &Path,
        running: &BTreeSet<u64>,
    ) -> Result<Self, FleetError> {
        let fleet = Self::checked(groups, run_folder)?;
        for RunningGroup { blueprint, .. } in &fleet.groups {
            if let Err(error) = blueprint.prepare_folder(running) {
                // Running workers continue; a worker that cannot be started reports it and is
                // retried.
                let group = blueprint.spec.name.as_str();
                tracing::error!(group, %error, "the folder for sockets can't be prepared");
            }
        }
        Ok(fleet)
    }

    fn checked(groups: Vec<GroupSpec>, run_folder: &Path) -> Result<Self, FleetError> {
        if groups.len() > GROUPS_MAX {
            return Err(FleetError::TooManyGroups(groups.len()));
        }
        let mut running: Vec<RunningGroup> = Vec::new();
        let mut spec_errors = Vec::new();
        for spec in groups {
            if running.iter().any(|group| group.blueprint.spec.name == spec.name) {
                return Err(FleetError::TwiceTheName(spec.name));
            }
            let mut rules = WorkerGroup::new(Times::new(&spec), spec.processes);
            let jobs = spec.jobs.as_ref();
            rules.launch =
                jobs.map(|jobs| jobs.launch_values(jobs.values.clone())).unwrap_or_default();
            rules.has_one_process = jobs.is_some_and(|jobs| jobs.limited_of.is_some());
            match Blueprint::new(spec, run_folder) {
                Ok(blueprint) => running.push(RunningGroup::new(blueprint, rules)),
                Err(found) => spec_errors.extend(found),
            }
        }
        if !spec_errors.is_empty() {
            return Err(FleetError::InvalidGroups(spec_errors));
        }
        Ok(Self::from_groups(running))
    }

    fn from_groups(groups: Vec<RunningGroup>) -> Self {
        Self {
            groups,
            processes: BTreeMap::new(),
            numbers: Numbers::default(),
            printer: Printer::default(),
            overrides: Overrides::default(),
            connections: Vec::new(),
            connections_made: 0,
            service_commands: Vec::new(),
            released_by_services: BTreeMap::new(),
            has_unread: false,
            is_stopping: false,
            was_killed: false,
            totals: ParentTotals::default(),
            totals_sent: ParentTotals::default(),
            totals_at: Duration::ZERO,
        }
    }

    fn moment(&self, now: Duration) -> Moment {
        Moment { now, prober_since: self.connections.iter().map(|line| line.connected_at).min() }
    }

    /// Returns when a timer next expires.
    pub(crate) fn wakes_at(&self, now: Duration) -> Option<Duration> {
        let moment = self.moment(now);
        let unread = self.has_unread.then_some(now);
        let groups = self.groups.iter().filter_map(|group| group.rules.wakes_at(moment));
        let ends = self.overrides.wakes_at().filter(|_| !self.is_stopping);
        groups.chain(unread).chain(self.totals_due()).chain(ends).min()
    }

    /// Adds the descriptors to wait for to `polled`.
    pub(crate) fn poll<'a>(&'a self, polled: &mut Vec<PollFd<'a>>) {
        let reads = self.printer.has_room();
        for process in self.processes.values() {
            polled.push(PollFd::new(&process.pidfd, PollFlags::IN));
            let output = process.output.descriptor().filter(|_| reads);
            let notify = process.notify.as_ref().map(|notify| notify.descriptor());
            for descriptor in output.into_iter().chain(notify) {
                polled.push(PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
            }
        }
        for ServiceConnection { link, .. } in &self.connections {
            polled.push(PollFd::from_borrowed_fd(link.descriptor(), link.interest()));
        }
    }

    /// Returns whether buffered output waits until the parent's output is writable.
    pub(crate) fn wants_to_print(&self) -> bool {
        !self.printer.is_empty()
    }

    /// Starts workers that are due, kills those past their deadline, and continues rolling
    /// restarts.
    pub(crate) fn run_due(&mut self, now: Duration) {
        self.end_overrides(now);
        let moment = self.moment(now);
        let mut starts_left = STARTS_PER_TURN_MAX;
        let mut room = self.connection_room();
        for index in 0..self.groups.len() {
            let rules = &mut self.groups[index].rules;
            let started =
                rules.start_replaced(moment, &mut self.numbers, &mut starts_left, &mut room);
            self.perform(index, started.actions, now);
        }
        for index in 0..self.groups.len() {
            let rules = &mut self.groups[index].rules;
            let slots = rules.slots.len();
            let GroupUpdate { actions, rolled } =
                rules.run_due(moment, &mut self.numbers, &mut starts_left, &mut room);
            let removed = rules.slots.len()..slots;
            self.perform(index, actions, now);
            self.report_removed(index, removed);
            self.report_rolling(index, rolled);
        }
        // After the starts of all groups, which have precedence over successors.
        for index in 0..self.groups.len() {
            let rules = &mut self.groups[index].rules;
            let GroupUpdate { actions, rolled } = rules.roll(now, &mut self.numbers, &mut room);
            self.perform(index, actions, now);
            self.report_rolling(index, rolled);
        }
        self.send_reports(now);
    }

    /// Processes messages of workers and services, and ends of processes.
    pub(crate) fn listen(&mut self, now: Duration, output: BorrowedFd<'_>) {
        self.on_workers_readable(now);
        self.on_services_readable(now);
        self.reap(now);
        self.printer.flush(output);
        self.send_reports(now);
    }

    /// Asks the workers to end that end before the service.
    pub(crate) fn stop_first(&mut self, now: Duration) {
        self.is_stopping = true;
        self.stop_groups(now, |spec| spec.ends_before_service);
    }

    /// Returns whether the workers that end before the service have ended.
    pub(crate) fn have_first_ended(&self) -> bool {
        let mut first = self.groups.iter().filter(|group| group.blueprint.spec.ends_before_service);
        first.all(|group| group.rules.has_ended())
    }

    /// Asks all workers to end.
    pub(crate) fn stop(&mut self, now: Duration) {
        self.is_stopping = true;
        self.stop_groups(now, |_| true);
    }

    fn stop_groups(&mut self, now: Duration, which: impl Fn(&GroupSpec) -> bool) {
        for index in 0..self.groups.len() {
            let group = &mut self.groups[index];
            if !which(&group.blueprint.spec) || std::mem::replace(&mut group.is_stopped, true) {
                continue;
            }
            if let Ok((actions, rolled)) = self.groups[index].rules.stop(None, now) {
                self.perform(index, actions, now);
                self.report_rolling(index, rolled.map(Err));
            }
        }
    }

    /// Kills all workers at once.
    pub(crate) fn kill(&mut self, now: Duration) {
        self.stop(now);
        for index in 0..self.groups.len() {
            let slots = self.groups[index].rules.slots.iter_mut();
            let actions = slots.flat_map(|slot| slot.kill("asked to end at once")).collect();
            self.perform(index, actions, now);
        }
    }

    /// Returns whether every worker has ended and none will be started.
    pub(crate) fn has_ended(&self) -> bool {
        self.processes.is_empty() && self.groups.iter().all(|group| group.rules.has_ended())
    }

    /// Returns whether a worker was killed during the shutdown.
    pub(crate) fn was_killed(&self) -> bool {
        self.was_killed
    }

    /// Returns the groups without a running worker in which one was given up.
    pub(crate) fn failed(&self) -> Vec<FailedGroup> {
        let failed = self.groups.iter().filter_map(|group| {
            let reason = group.rules.failure()?.to_owned();
            Some(FailedGroup { name: group.blueprint.spec.name.clone(), reason })
        });
        failed.collect()
    }

    /// Returns whether `pid` is a worker.
    pub(crate) fn is_worker(&self, pid: rustix::process::Pid) -> bool {
        self.processes.values().any(|process| process.pid == pid)
    }

    /// Writes the buffered output at the end, as much as `output` takes.
    pub(crate) fn print_rest(&mut self, output: BorrowedFd<'_>) {
        self.printer.flush(output);
    }
}
