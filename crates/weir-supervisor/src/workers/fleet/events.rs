//! Performs the rules' actions on processes, and handles events of processes.

use std::time::Duration;

use super::Fleet;
use crate::control::WorkerAddress;
use crate::supervise::with_last_lines;
use crate::workers::generation::Action;
use crate::workers::launch::launch;
use crate::workers::process::{SlotIndex, WorkerProcess};
use crate::workers::slot::{Fate, WorkerSlot};
use crate::workers::spec::{Readiness, SocketKind};

/// The end of a process, or a failed start.
struct Death<'a> {
    name: &'a str,
    /// What happened, with the cause if it is known.
    how: &'a str,
    last_lines: &'a [String],
    /// Whether the program was not found or could not be executed.
    has_no_program: bool,
}

impl Fleet {
    pub(super) fn perform(&mut self, group: usize, actions: Vec<Action>, now: Duration) {
        for action in actions {
            match action {
                Action::Start(generation) => self.start(group, generation, now),
                Action::Announce(generation) => {
                    self.open_door(generation);
                    self.announce(generation, "ready", now);
                }
                Action::AskToLetGo(generation) => {
                    self.close_door(generation);
                    self.announce(generation, "to be let go of", now);
                }
                Action::Stop(generation) => {
                    self.close_door(generation);
                    let process = self.processes.get(&generation);
                    let signal = process.map(|process| process.stop_signal);
                    signal.iter().for_each(|signal| self.signal(generation, signal.0));
                    self.announce(generation, "asked to end", now);
                }
                Action::Dump(generation, reason) => {
                    self.close_door(generation);
                    let process = self.processes.get(&generation);
                    let signal = process.and_then(|process| process.dump_signal);
                    signal.iter().for_each(|signal| self.signal(generation, signal.0));
                    if let Some(process) = self.processes.get_mut(&generation) {
                        // The reason to report if the dump itself ends the process.
                        process.kill_reason.get_or_insert(reason);
                    }
                    self.announce(generation, "asked for a dump, then killed", now);
                }
                Action::Kill(generation, reason) => self.kill_one(generation, reason, now),
            }
        }
    }

    fn start(&mut self, group: usize, generation: u64, now: Duration) {
        let holds = |slot: &WorkerSlot| slot.generations().any(|it| it.number == generation);
        let Some(slot) = self.groups[group].rules.slots.iter().position(holds) else { return };
        let place = SlotIndex { group, slot };
        let blueprint = &self.groups[group].blueprint;
        let is_taken = |address: &WorkerAddress| {
            // Ports are unique per machine, records only per group.
            let is_near = |it: &WorkerProcess| {
                !matches!(address, WorkerAddress::Shared { .. }) || it.place.group == group
            };
            let mut others = self.processes.values().filter(|it| is_near(it));
            others.any(|it| it.endpoint.address.as_ref() == Some(address))
        };
        match launch(blueprint, place, generation, now, is_taken) {
            Ok(process) => {
                let pid = process.pid.as_raw_pid();
                tracing::info!(worker = process.name, pid, generation, "started");
                self.processes.insert(generation, process);
                self.report_worker(generation, now);
                self.report_slot(place, None, now);
            }
            Err(error) => {
                let name = blueprint.worker_name(place.slot);
                let (how, has_no_program) = (error.to_string(), error.is_lasting());
                let death = Death { name: &name, how: &how, last_lines: &[], has_no_program };
                self.bury(place, generation, &death, now);
            }
        }
    }

    pub(super) fn signal(&self, generation: u64, signal: rustix::process::Signal) {
        let Some(process) = self.processes.get(&generation) else { return };
        if let Err(error) = process.signal(signal) {
            tracing::debug!(worker = process.name, %error, "signal not sent");
        }
    }

    /// Marks the worker's record so that the kernel's selection may choose this worker.
    fn open_door(&self, generation: u64) {
        let Some(process) = self.processes.get(&generation) else { return };
        let sockets = &self.groups[process.place.group].blueprint.spec.sockets;
        if let (SocketKind::Group(group), Some((records, record))) =
            (sockets, process.endpoint.record(sockets))
        {
            records.set_door(record, group.plan().door(process.place.slot));
        }
    }

    /// Marks the worker's record so that the kernel's selection no longer chooses this worker.
    fn close_door(&self, generation: u64) {
        let Some(process) = self.processes.get(&generation) else { return };
        let sockets = &self.groups[process.place.group].blueprint.spec.sockets;
        if let Some((records, record)) = process.endpoint.record(sockets) {
            records.set_door(record, None);
        }
    }

    fn kill_one(&mut self, generation: u64, reason: String, now: Duration) {
        self.close_door(generation);
        if let Some(process) = self.processes.get_mut(&generation) {
            let pid = process.pid.as_raw_pid();
            tracing::warn!(worker = process.name, pid, generation, reason, "killed");
            process.kill(reason);
            self.was_killed |= self.is_stopping;
        }
        self.report_worker(generation, now);
    }

    fn announce(&mut self, generation: u64, what: &str, now: Duration) {
        if let Some(process) = self.processes.get(&generation) {
            let pid = process.pid.as_raw_pid();
            tracing::info!(worker = process.name, pid, generation, "{what}");
        }
        self.report_worker(generation, now);
    }

    /// Reads the output and the notifications of all workers.
    pub(super) fn on_workers_readable(&mut self, now: Duration) {
        let generations: Vec<u64> = self.processes.keys().copied().collect();
        for generation in generations {
            let Some(process) = self.processes.get_mut(&generation) else { continue };
            let place = process.place;
            let readiness = &self.groups[place.group].blueprint.spec.readiness;
            let said = process.notify.as_ref().map(|notify| notify.receive()).unwrap_or_default();
            let sought = match readiness {
                Readiness::Line(text) => Some(text.as_str()),
                _ => None,
            };
            let is_found =
                self.printer.has_room() && process.output.read(&mut self.printer, sought);
            let is_ready = is_found || (said.is_ready && *readiness == Readiness::Notify);
            if said.is_alive || said.is_ready {
                self.slot_mut(place).alive(generation, now);
            }
            if is_ready {
                self.is_ready(place, generation, now);
            }
            if said.is_stopping && self.slot_mut(place).leaves(generation, now) {
                self.close_door(generation);
                self.announce(generation, "ends by itself", now);
            }
        }
    }

    pub(super) fn is_ready(&mut self, place: SlotIndex, generation: u64, now: Duration) {
        let actions = self.slot_mut(place).ready(generation, now);
        self.perform(place.group, actions, now);
    }

    /// Reaps the processes that have ended.
    pub(super) fn reap(&mut self, now: Duration) {
        let ended: Vec<(u64, String)> = self
            .processes
            .iter_mut()
            .filter_map(|(generation, process)| Some((*generation, process.reap()?)))
            .collect();
        for (generation, status) in ended {
            self.forget_record(generation);
            let Some(mut process) = self.processes.remove(&generation) else { continue };
            self.let_go.remove(&generation);
            for line in &mut self.lines {
                line.used.remove(&generation);
            }
            let place = process.place;
            process.output.finish(&mut self.printer);
            let last_lines = process.output.last_lines();
            self.report_end(generation, &process, &status, &last_lines, now);
            let how = match &process.kill_reason {
                Some(reason) => format!("{status}: {reason}"),
                None => status,
            };
            let (name, has_no_program) = (&process.name, false);
            let death = Death { name, how: &how, last_lines: &last_lines, has_no_program };
            self.bury(place, generation, &death, now);
        }
    }

    /// Clears the record of a worker that has ended: it has no load and receives no connections.
    fn forget_record(&self, generation: u64) {
        let Some(process) = self.processes.get(&generation) else { return };
        let sockets = &self.groups[process.place.group].blueprint.spec.sockets;
        if let Some((records, record)) = process.endpoint.record(sockets) {
            records.reset(record);
        }
    }

    /// Applies the effects of a death.
    fn bury(&mut self, place: SlotIndex, generation: u64, death: &Death<'_>, now: Duration) {
        let Death { name, how, last_lines, has_no_program } = *death;
        let reason = with_last_lines(&format!("{name} {how}"), last_lines);
        let rules = &mut self.groups[place.group].rules;
        let (fate, rolled) = match has_no_program {
            true => rules.has_no_program(place.slot, generation, &reason, now),
            false => rules.ended(place.slot, generation, &reason, now),
        };
        match fate {
            Fate::Left => tracing::info!(worker = name, generation, "{how}"),
            Fate::SuccessorTakesOver => {
                tracing::error!(worker = name, generation, "{how}; its successor takes over");
            }
            Fate::ReplacementFailed => {
                tracing::error!(generation, "replacement failed, the one before stays: {reason}");
            }
            Fate::Restarting { after, deaths_in_a_row } => {
                let wait_ms = after.as_millis();
                tracing::error!(worker = name, wait_ms, deaths_in_a_row, "{how}; restarting");
            }
            Fate::GivenUp { deaths_in_a_row } => {
                tracing::error!(deaths_in_a_row, "given up for now: {reason}");
            }
        }
        let failed = (fate == Fate::ReplacementFailed).then_some(reason);
        self.report_slot(place, failed, now);
        self.report_rolling(place.group, rolled.map(Err));
    }
}
