//! The state of all groups across a re-execution of the parent.

use std::os::fd::RawFd;
use std::path::Path;
use std::time::Duration;

use super::services::ServiceConnection;
use super::{Fleet, FleetError, RunningGroup};
use crate::carried::{self, CarriedFleet, CarriedGroup, CarriedLine, Carrier, ResumeError};
use crate::control::{Link, ParentTotals};
use crate::printer::Printer;
use crate::workers::blueprint::Blueprint;
use crate::workers::generation::{Numbers, Times};
use crate::workers::group::WorkerGroup;
use crate::workers::process::WorkerProcess;
use crate::workers::spec::{BoundBy, GroupSpec, Readiness, SocketKind};

impl Fleet {
    /// Returns the serialized state, and keeps all descriptors open in `carrier`.
    pub(crate) fn carried(&self, carrier: &mut Carrier) -> CarriedFleet {
        let lines = self.connections.iter().map(|connection| CarriedLine {
            number: connection.number,
            socket: carrier.keep_open(&connection.link.descriptor()),
            connected_at: connection.connected_at,
            incoming: connection.link.incoming().to_vec(),
            outgoing: connection.link.partly_sent().to_vec(),
            used: connection.used.clone(),
        });
        let lines = lines.collect();
        let workers = self.processes.iter().map(|(generation, process)| {
            let group = self.groups[process.slot_index.group].blueprint.spec.name.to_string();
            process.carried(*generation, group, carrier)
        });
        CarriedFleet {
            last_number: self.numbers.last(),
            lines_made: self.connections_made,
            lines,
            let_go: self.released_by_services.clone(),
            workers: workers.collect(),
            groups: self.groups.iter().map(RunningGroup::carried).collect(),
            printing: self.printer.waiting().to_vec(),
            lines_dropped: self.printer.lines_dropped,
            totals: self.totals,
        }
    }

    /// Restores the groups of an earlier program with the current specifications. Groups that are
    /// no longer specified stay until [`Fleet::retire`].
    pub(crate) fn resume(
        mut self,
        carried: CarriedFleet,
        now: Duration,
    ) -> Result<Self, ResumeError> {
        self.numbers = Numbers::after(carried.last_number);
        self.connections_made = carried.lines_made;
        self.released_by_services = carried.let_go;
        self.printer = Printer::resume(carried.printing, carried.lines_dropped);
        self.totals = ParentTotals { output_lines_dropped: 0, ..carried.totals };
        for connection in carried.lines {
            self.connections.push(ServiceConnection::resume(connection)?);
        }
        for group in &carried.groups {
            self.resume_group(group, now)?;
        }
        for worker in carried.workers {
            let Some(group) = self.position(&worker.group) else { continue };
            let generation = worker.generation;
            self.processes.insert(generation, WorkerProcess::resume(worker, group)?);
        }
        // Only after the processes are restored, since some may have to stop.
        for group in &carried.groups {
            self.rescale(group, now);
        }
        Ok(self)
    }

    /// Returns the sockets that all workers of a group inherit: group, socket name, descriptor
    /// number.
    pub(crate) fn listening(&self, carrier: &mut Carrier) -> Vec<(String, String, RawFd)> {
        let specs = self.groups.iter().map(|group| &group.blueprint.spec);
        let inherited = specs.filter_map(|spec| match &spec.sockets {
            SocketKind::Inherited(sockets) => Some((spec.name.to_string(), sockets)),
            _ => None,
        });
        let each = inherited
            .flat_map(|(group, sockets)| sockets.iter().map(move |socket| (group.clone(), socket)));
        each.map(|(group, socket)| {
            (group, socket.name.clone(), carrier.keep_open(&socket.descriptor))
        })
        .collect()
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.groups.iter().position(|group| group.blueprint.spec.name.as_str() == name)
    }

    fn resume_group(&mut self, carried: &CarriedGroup, now: Duration) -> Result<(), ResumeError> {
        let Some(index) = self.position(&carried.name) else {
            if !carried.slots.is_empty() {
                self.groups.push(RunningGroup::retired(carried)?);
            }
            return Ok(());
        };
        let group = &mut self.groups[index];
        let has_one_process = group.rules.has_one_process;
        group.rules = WorkerGroup::resume(Times::new(&group.blueprint.spec), carried);
        group.rules.has_one_process = has_one_process;
        group.rules.retry(now);
        group.rolling = carried.shown.clone();
        let launch = self.launch_of(index);
        self.groups[index].rules.launch = launch;
        // An earlier program without overrides started its processes with the settings, of which
        // the present ones are the best guess.
        let jobs = self.groups[index].blueprint.spec.jobs.as_ref();
        let configured = jobs.map(|jobs| jobs.launch_values(jobs.values.clone()));
        for slot in &mut self.groups[index].rules.slots {
            slot.set_launch(&configured.clone().unwrap_or_default());
        }
        Ok(())
    }

    /// Scales a group to the number of workers in the settings if that changed. A group that was
    /// retired before and is specified again gets all of its workers.
    fn rescale(&mut self, carried: &CarriedGroup, now: Duration) {
        let Some(index) = self.position(&carried.name) else { return };
        let processes = self.target_of(index);
        let is_overridden = self.overrides_processes(index);
        let group = &mut self.groups[index];
        let is_as_before = group.blueprint.spec.processes == carried.specified;
        let is_target = u32::try_from(group.rules.target) == Ok(processes);
        let is_as_before = is_as_before && !carried.is_retired && (!is_overridden || is_target);
        if !group.is_retired && !is_as_before {
            let actions = group.rules.resize(processes, now);
            self.perform(index, actions, now);
        }
    }

    /// Stops the groups that the settings no longer contain, and forgets those whose workers have
    /// ended. Call it when no service needs them.
    pub(crate) fn retire(&mut self, now: Duration) {
        for index in 0..self.groups.len() {
            if !self.groups[index].is_retired {
                continue;
            }
            let actions = self.groups[index].rules.resize(0, now);
            self.perform(index, actions, now);
        }
    }
}

impl RunningGroup {
    fn carried(&self) -> CarriedGroup {
        let spec = &self.blueprint.spec;
        CarriedGroup {
            name: spec.name.to_string(),
            specified: spec.processes,
            stop_deadline: spec.stop_deadline,
            let_go_deadline: spec.let_go_deadline,
            wanted: self.rules.target,
            ends_before_service: spec.ends_before_service,
            is_retired: self.is_retired,
            // A retired group is not paused: it has no command to start.
            is_paused: self.rules.is_paused && !self.is_retired,
            rolling: self.rules.rolling.clone(),
            shown: self.rolling.clone(),
            slots: self.rules.slots.iter().map(|slot| slot.carried()).collect(),
        }
    }

    /// Restores a group that is no longer specified; it starts no workers.
    fn retired(carried: &CarriedGroup) -> Result<Self, ResumeError> {
        let name = carried.name.parse().map_err(FleetError::Name)?;
        let spec = GroupSpec {
            processes: carried.specified,
            sockets: SocketKind::UnixSocket(BoundBy::Worker),
            readiness: Readiness::Probed,
            stop_deadline: carried.stop_deadline,
            let_go_deadline: carried.let_go_deadline,
            ends_before_service: carried.ends_before_service,
            ..GroupSpec::new(name, vec!["no more".to_owned()])
        };
        let times = Times::new(&spec);
        let blueprint = Blueprint::new(spec, Path::new("")).map_err(FleetError::InvalidGroups)?;
        let of_now = CarriedGroup { is_paused: true, rolling: None, ..carried.clone() };
        let rules = WorkerGroup::resume(times, &of_now);
        Ok(Self { is_retired: true, ..Self::new(blueprint, rules) })
    }
}

impl ServiceConnection {
    /// Restores a connection. It receives a snapshot, because it may have missed reports.
    fn resume(carried: CarriedLine) -> Result<Self, ResumeError> {
        let CarriedLine { number, socket: descriptor, connected_at, incoming, outgoing, used } =
            carried;
        let socket = carried::take(descriptor)?;
        let link = Link::resume(socket, &incoming, outgoing)
            .map_err(|error| ResumeError::Descriptor(descriptor, error.into()))?;
        Ok(Self { number, link, connected_at, snapshot: Some(super::Cursor::default()), used })
    }
}
