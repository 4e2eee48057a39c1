//! Runs the service's commands.

use std::time::Duration;

use super::{CommandSender, Fleet, ServiceCommand};
use crate::control::{Incoming, ParentCommand, ParentReport, ParentRequest, REQUESTS_PER_TURN_MAX};
use crate::workers::REASON_BYTES_MAX;
use crate::workers::overrides::OverrideOutcome;
use crate::workers::process::SlotIndex;
use crate::workers::signals::WorkerSignal;
use crate::workers::slot::CommandError;
use crate::workers::spec::Readiness;

impl Fleet {
    pub(super) fn on_services_readable(&mut self, now: Duration) {
        self.has_unread = false;
        for connection in 0..self.connections.len() {
            let received = self.connections[connection].link.receive();
            self.has_unread |= received.len() == REQUESTS_PER_TURN_MAX;
            let number = self.connections[connection].number;
            for incoming in received {
                if let Some(reply) = self.handle_request(incoming, number, now) {
                    self.connections[connection].link.send(&reply);
                }
            }
        }
    }

    /// Runs a request and returns the reply. None: the supervisor replies.
    fn handle_request(
        &mut self,
        incoming: Incoming,
        connection: u64,
        now: Duration,
    ) -> Option<ParentReport> {
        let (id, reason) = match incoming {
            Incoming::Request(ParentRequest { id, command }) => {
                if let Some(command) = ServiceCommand::from_parent_command(&command) {
                    self.service_commands.push((command, CommandSender { line: connection, id }));
                    return None;
                }
                match self.execute(command, connection, now) {
                    Ok(outcome) => {
                        let outcome = outcome.map(Box::new);
                        return Some(ParentReport::Done { id, outcome });
                    }
                    Err(reason) => (Some(id), reason),
                }
            }
            Incoming::Malformed(reason) => (None, reason),
        };
        tracing::warn!(reason, "a command of the service is refused");
        Some(ParentReport::Refused { id, reason })
    }

    fn execute(
        &mut self,
        command: ParentCommand,
        connection: u64,
        now: Duration,
    ) -> Result<Option<OverrideOutcome>, CommandError> {
        if self.is_stopping && starts_or_stops(&command) {
            return Err("everything is being stopped".into());
        }
        match command {
            ParentCommand::Set { group, change } => {
                self.set_override(&group, &change, now).map(Some)
            }
            ParentCommand::Limit { group, limit: Some(limit) } => {
                self.set_limit(&group, &limit, now).map(|()| None)
            }
            ParentCommand::Limit { group, limit: None } => {
                self.end_limit(&group, now).map(|()| None)
            }
            ParentCommand::Reset { group, by, dry_run } => {
                self.reset_override(&group, &by, dry_run, now).map(Some)
            }
            other => self.execute_without_outcome(other, connection, now).map(|()| None),
        }
    }

    fn execute_without_outcome(
        &mut self,
        command: ParentCommand,
        connection: u64,
        now: Duration,
    ) -> Result<(), CommandError> {
        match command {
            ParentCommand::Ready { generation } => self.mark_probed_ready(generation, now),
            ParentCommand::LetGo { generation } => self.record_release(generation, connection, now),
            ParentCommand::Used { generation, used } => {
                self.record_usage(generation, used, connection)
            }
            ParentCommand::Start { group, slot } => self.start_slots(&group, slot, now),
            ParentCommand::Stop { group, slot } => self.stop_slots(&group, slot, now),
            ParentCommand::Restart { group, slot } => {
                let (group, slot) = (self.find(&group)?, index(slot));
                let mut room = self.connection_room();
                let rules = &mut self.groups[group].rules;
                let action = rules.restart(slot, &mut self.numbers, now, &mut room)?;
                self.perform(group, action.into_iter().collect(), now);
                Ok(())
            }
            ParentCommand::RestartRolling { group } => {
                let group = self.find(&group)?;
                self.groups[group].rules.restart_rolling()?;
                self.report_rolling(group, None);
                Ok(())
            }
            ParentCommand::Scale { group, processes } => {
                let group = self.find(&group)?;
                self.scale(group, processes, now)
            }
            ParentCommand::Signal { generation, signal } => self.send_signal(generation, &signal),
            ParentCommand::Dump { generation } => self.dump(generation),
            ParentCommand::Evict { generation, reason } => self.evict(generation, reason, now),
            ParentCommand::Pause { group } => {
                let group = self.find(&group)?;
                let rolled = self.groups[group].rules.pause();
                self.report_rolling(group, rolled.map(Err));
                self.report_group(group);
                Ok(())
            }
            ParentCommand::Resume { group } => {
                let group = self.find(&group)?;
                self.groups[group].rules.is_paused = false;
                self.report_group(group);
                Ok(())
            }
            ParentCommand::Set { .. }
            | ParentCommand::Limit { .. }
            | ParentCommand::Reset { .. }
            | ParentCommand::ReplaceService
            | ParentCommand::Upgrade => Err("that is no command for workers".into()),
        }
    }

    fn scale(&mut self, group: usize, processes: u32, now: Duration) -> Result<(), CommandError> {
        self.groups[group].blueprint.check_scale(processes)?;
        self.groups[group].rules.check_scale(processes)?;
        self.keep_scale(group, processes)?;
        let actions = self.groups[group].rules.resize(processes, now);
        self.perform(group, actions, now);
        self.report_group(group);
        Ok(())
    }

    fn mark_probed_ready(&mut self, generation: u64, now: Duration) -> Result<(), CommandError> {
        let slot_index = self.find_generation(generation)?;
        let spec = &self.groups[slot_index.group].blueprint.spec;
        if spec.readiness != Readiness::Probed {
            return Err(format!("workers {} are not probed: they say themselves", spec.name));
        }
        self.mark_ready(slot_index, generation, now);
        Ok(())
    }

    fn start_slots(
        &mut self,
        group: &str,
        slot: Option<u32>,
        now: Duration,
    ) -> Result<(), CommandError> {
        let group = self.find(group)?;
        let slot = slot.map(index);
        self.groups[group].rules.start(slot, now)?;
        self.report_slots(group, slot, now);
        Ok(())
    }

    fn stop_slots(
        &mut self,
        group: &str,
        slot: Option<u32>,
        now: Duration,
    ) -> Result<(), CommandError> {
        let group = self.find(group)?;
        let slot = slot.map(index);
        let (actions, rolled) = self.groups[group].rules.stop(slot, now)?;
        self.perform(group, actions, now);
        self.report_slots(group, slot, now);
        self.report_rolling(group, rolled.map(Err));
        Ok(())
    }

    fn send_signal(&mut self, generation: u64, signal: &str) -> Result<(), CommandError> {
        self.find_generation(generation)?;
        let signal: WorkerSignal = signal.parse().map_err(|error| format!("{error}"))?;
        self.signal(generation, signal.0);
        Ok(())
    }

    fn dump(&mut self, generation: u64) -> Result<(), CommandError> {
        self.find_generation(generation)?;
        let process = self.processes.get(&generation);
        let signal = process.and_then(|process| process.dump_signal);
        let missing = "it was started when there was no dump_signal; replace it, or name a signal";
        self.signal(generation, signal.ok_or(missing)?.0);
        Ok(())
    }

    fn evict(
        &mut self,
        generation: u64,
        reason: String,
        now: Duration,
    ) -> Result<(), CommandError> {
        let slot_index = self.find_generation(generation)?;
        let reason = shortened(reason);
        tracing::warn!(generation, reason, "eviction");
        let action = self.slot_mut(slot_index).evict(generation, &reason, now);
        self.perform(slot_index.group, action.into_iter().collect(), now);
        Ok(())
    }

    fn report_slots(&mut self, group: usize, slot: Option<usize>, now: Duration) {
        let slots = slot.map_or(0..self.groups[group].rules.slots.len(), |slot| slot..slot + 1);
        for slot in slots {
            self.report_slot(SlotIndex { group, slot }, None, now);
        }
    }

    pub(super) fn find(&self, name: &str) -> Result<usize, CommandError> {
        let has_name = |group: &super::RunningGroup| group.blueprint.spec.name.as_str() == name;
        let found = self.groups.iter().position(has_name);
        found.ok_or_else(|| format!("there is no group of workers {name:?}"))
    }

    pub(super) fn find_generation(&self, generation: u64) -> Result<SlotIndex, CommandError> {
        let found = self.processes.get(&generation).map(|process| process.slot_index);
        found.ok_or_else(|| format!("generation {generation} is not there (any more)"))
    }
}

/// Returns whether `command` is rejected during a shutdown, unlike reports of the service's state.
fn starts_or_stops(command: &ParentCommand) -> bool {
    !matches!(
        command,
        ParentCommand::Ready { .. } | ParentCommand::LetGo { .. } | ParentCommand::Used { .. }
    )
}

fn index(slot: u32) -> usize {
    usize::try_from(slot).unwrap_or(usize::MAX)
}

/// Truncates a reason to [`REASON_BYTES_MAX`], at a character boundary.
fn shortened(mut reason: String) -> String {
    reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
    reason
}
