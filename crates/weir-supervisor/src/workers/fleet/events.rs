//! Performs the rules' actions on processes, and handles events of processes.

use std::time::Duration;

use super::Fleet;
use crate::control::WorkerAddress;
use crate::supervise::with_last_lines;
use crate::workers::generation::Action;
use crate::workers::launch::launch;
use crate::workers::process::{SlotIndex, WorkerProcess};
use crate::workers::slot::{ExitOutcome, WorkerSlot};
use crate::workers::spec::{Readiness, SocketKind};
use crate::workers::values::WorkerValues;

/// The end of a process, or a failed start.
struct WorkerExit<'a> {
    name: &'a str,
    /// What happened, with the cause if it is known.
    description: &'a str,
    last_lines: &'a [String],
    /// Whether the program was not found or could not be executed.
    is_program_missing: bool,
}

impl Fleet {
    pub(super) fn perform(&mut self, group: usize, actions: Vec<Action>, now: Duration) {
        for action in actions {
            match action {
                Action::Start(generation) => self.start(group, generation, now),
                Action::Announce(generation) => {
                    self.make_eligible(generation);
                    self.announce(generation, "ready", now);
                }
                Action::RequestRelease(generation) => {
                    self.make_ineligible(generation);
                    self.announce(generation, "to be let go of", now);
                }
                Action::Stop(generation) => {
                    self.make_ineligible(generation);
                    let process = self.processes.get(&generation);
                    let signal = process.map(|process| process.stop_signal);
                    signal.iter().for_each(|signal| self.signal(generation, signal.0));
                    self.announce(generation, "asked to end", now);
                }
                Action::Dump(generation, reason) => {
                    self.make_ineligible(generation);
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
        let has_generation =
            |slot: &WorkerSlot| slot.generations().any(|it| it.number == generation);
        let Some(slot) = self.groups[group].rules.slots.iter().position(has_generation) else {
            return;
        };
        let slot_index = SlotIndex { group, slot };
        let launch_values = self.launch_values(slot_index, generation);
        let blueprint = &self.groups[group].blueprint;
        let is_taken = |address: &WorkerAddress| {
            // Ports are unique per machine, records only per group.
            let shares_addresses = |it: &WorkerProcess| {
                !matches!(address, WorkerAddress::Shared { .. }) || it.slot_index.group == group
            };
            let mut others = self.processes.values().filter(|process| shares_addresses(process));
            others.any(|other| other.endpoint.address.as_ref() == Some(address))
        };
        match launch(blueprint, slot_index, (generation, &launch_values), now, is_taken) {
            Ok(process) => {
                let pid = process.pid.as_raw_pid();
                tracing::info!(worker = process.name, pid, generation, "started");
                self.processes.insert(generation, process);
                self.report_worker(generation, now);
                self.report_slot(slot_index, None, now);
            }
            Err(error) => {
                let name = blueprint.worker_name(slot_index.slot);
                let (description, is_program_missing) = (error.to_string(), error.is_lasting());
                let exit = WorkerExit {
                    name: &name,
                    description: &description,
                    last_lines: &[],
                    is_program_missing,
                };
                self.handle_exit(slot_index, generation, &exit, now);
            }
        }
    }

    /// Returns the threads and queues of a generation that is about to be started.
    fn launch_values(&self, slot_index: SlotIndex, generation: u64) -> WorkerValues {
        let rules = &self.groups[slot_index.group].rules;
        let mut generations = rules.slots[slot_index.slot].generations();
        let launch =
            generations.find(|it| it.number == generation).and_then(|it| it.launch.clone());
        launch.unwrap_or_else(|| rules.launch.clone()).values
    }

    pub(super) fn signal(&self, generation: u64, signal: rustix::process::Signal) {
        let Some(process) = self.processes.get(&generation) else { return };
        if let Err(error) = process.signal(signal) {
            tracing::debug!(worker = process.name, %error, "signal not sent");
        }
    }

    /// Marks the worker's record so that the kernel's selection may choose this worker.
    fn make_eligible(&self, generation: u64) {
        let Some(process) = self.processes.get(&generation) else { return };
        let sockets = &self.groups[process.slot_index.group].blueprint.spec.sockets;
        if let (SocketKind::Group(group), Some((records, record))) =
            (sockets, process.endpoint.record(sockets))
        {
            records.set_socket(record, group.plan().socket_for(process.slot_index.slot));
        }
    }

    /// Marks the worker's record so that the kernel's selection no longer chooses this worker.
    fn make_ineligible(&self, generation: u64) {
        let Some(process) = self.processes.get(&generation) else { return };
        let sockets = &self.groups[process.slot_index.group].blueprint.spec.sockets;
        if let Some((records, record)) = process.endpoint.record(sockets) {
            records.set_socket(record, None);
        }
    }

    fn kill_one(&mut self, generation: u64, reason: String, now: Duration) {
        self.make_ineligible(generation);
        if let Some(process) = self.processes.get_mut(&generation) {
            let pid = process.pid.as_raw_pid();
            tracing::warn!(worker = process.name, pid, generation, reason, "killed");
            process.kill(reason);
            self.was_killed |= self.is_stopping;
        }
        self.report_worker(generation, now);
    }

    fn announce(&mut self, generation: u64, event: &str, now: Duration) {
        if let Some(process) = self.processes.get(&generation) {
            let pid = process.pid.as_raw_pid();
            tracing::info!(worker = process.name, pid, generation, "{event}");
        }
        self.report_worker(generation, now);
    }

    /// Reads the output and the notifications of all workers.
    pub(super) fn on_workers_readable(&mut self, now: Duration) {
        let generations: Vec<u64> = self.processes.keys().copied().collect();
        for generation in generations {
            let Some(process) = self.processes.get_mut(&generation) else { continue };
            let slot_index = process.slot_index;
            let readiness = &self.groups[slot_index.group].blueprint.spec.readiness;
            let notifications =
                process.notify.as_ref().map(|notify| notify.receive()).unwrap_or_default();
            let pattern = match readiness {
                Readiness::Line(text) => Some(text.as_str()),
                _ => None,
            };
            let is_found =
                self.printer.has_room() && process.output.read(&mut self.printer, pattern);
            let is_ready = is_found || (notifications.is_ready && *readiness == Readiness::Notify);
            if notifications.is_alive || notifications.is_ready {
                self.slot_mut(slot_index).alive(generation, now);
            }
            if is_ready {
                self.mark_ready(slot_index, generation, now);
            }
            if notifications.is_stopping
                && self.slot_mut(slot_index).record_self_exit(generation, now)
            {
                self.make_ineligible(generation);
                self.announce(generation, "ends by itself", now);
            }
        }
    }

    pub(super) fn mark_ready(&mut self, slot_index: SlotIndex, generation: u64, now: Duration) {
        let actions = self.slot_mut(slot_index).ready(generation, now);
        self.perform(slot_index.group, actions, now);
    }

    /// Reaps the processes that have ended.
    pub(super) fn reap(&mut self, now: Duration) {
        let ended: Vec<(u64, String)> = self
            .processes
            .iter_mut()
            .filter_map(|(generation, process)| Some((*generation, process.reap()?)))
            .collect();
        for (generation, status) in ended {
            self.reset_record(generation);
            let Some(mut process) = self.processes.remove(&generation) else { continue };
            self.released_by_services.remove(&generation);
            for connection in &mut self.connections {
                connection.used.remove(&generation);
            }
            let slot_index = process.slot_index;
            process.output.finish(&mut self.printer);
            let last_lines = process.output.last_lines();
            self.report_end(generation, &process, &status, &last_lines, now);
            let description = match &process.kill_reason {
                Some(reason) => format!("{status}: {reason}"),
                None => status,
            };
            let (name, is_program_missing) = (&process.name, false);
            let exit = WorkerExit {
                name,
                description: &description,
                last_lines: &last_lines,
                is_program_missing,
            };
            self.handle_exit(slot_index, generation, &exit, now);
        }
    }

    /// Clears the record of a worker that has ended: it has no load and receives no connections.
    fn reset_record(&self, generation: u64) {
        let Some(process) = self.processes.get(&generation) else { return };
        let sockets = &self.groups[process.slot_index.group].blueprint.spec.sockets;
        if let Some((records, record)) = process.endpoint.record(sockets) {
            records.reset(record);
        }
    }

    /// Applies the effects of a death.
    fn handle_exit(
        &mut self,
        slot_index: SlotIndex,
        generation: u64,
        exit: &WorkerExit<'_>,
        now: Duration,
    ) {
        let WorkerExit { name, description, last_lines, is_program_missing } = *exit;
        let reason = with_last_lines(&format!("{name} {description}"), last_lines);
        let rules = &mut self.groups[slot_index.group].rules;
        let (outcome, rolled) = match is_program_missing {
            true => rules.record_start_failure(slot_index.slot, generation, &reason, now),
            false => rules.ended(slot_index.slot, generation, &reason, now),
        };
        match outcome {
            ExitOutcome::Left => tracing::info!(worker = name, generation, "{description}"),
            ExitOutcome::SuccessorTakesOver => {
                tracing::error!(
                    worker = name,
                    generation,
                    "{description}; its successor takes over"
                );
            }
            ExitOutcome::ReplacementFailed => {
                tracing::error!(generation, "replacement failed, the one before stays: {reason}");
            }
            ExitOutcome::Restarting { after, deaths_in_a_row } => {
                let wait_ms = after.as_millis();
                tracing::error!(
                    worker = name,
                    wait_ms,
                    deaths_in_a_row,
                    "{description}; restarting"
                );
            }
            ExitOutcome::GivenUp { deaths_in_a_row } => {
                tracing::error!(deaths_in_a_row, "given up for now: {reason}");
            }
        }
        let failed = (outcome == ExitOutcome::ReplacementFailed).then_some(reason);
        self.report_slot(slot_index, failed, now);
        self.report_rolling(slot_index.group, rolled.map(Err));
    }
}
