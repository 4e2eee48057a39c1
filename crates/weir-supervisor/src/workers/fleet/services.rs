//! The connected services: the current one, its successor and replaced ones.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Fleet;
use super::reports::Cursor;
use crate::control::{Link, ParentCommand, ParentReport, Used};
use crate::workers::SERVICES_MAX;
use crate::workers::slot::CommandError;

/// A connected service.
#[derive(Debug)]
pub(super) struct ServiceConnection {
    /// Unique in a fleet.
    pub(super) number: u64,
    pub(super) link: Link,
    pub(super) connected_at: Duration,
    /// The position in its snapshot; None: the snapshot is complete.
    pub(super) snapshot: Option<Cursor>,
    /// What it still uses of workers after its replacement, by worker generation.
    pub(super) used: BTreeMap<u64, Used>,
}

/// A command for the supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServiceCommand {
    ReplaceService,
    Upgrade,
}

impl ServiceCommand {
    pub(super) fn of(command: &ParentCommand) -> Option<Self> {
        match command {
            ParentCommand::ReplaceService => Some(Self::ReplaceService),
            ParentCommand::Upgrade => Some(Self::Upgrade),
            _ => None,
        }
    }
}

/// The connection of the service that sent a request, and the request's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CommandSender {
    pub(super) line: u64,
    pub(super) id: u64,
}

impl Fleet {
    /// Connects to a service through `socket` and starts its snapshot. The
    /// [supervisor](crate::Supervisor::with_workers) does this for a service that is its child.
    /// When there are [`SERVICES_MAX`] already, the oldest is disconnected.
    pub fn connect(&mut self, socket: OwnedFd) -> io::Result<()> {
        let link = Link::new(socket)?;
        if self.lines.len() == SERVICES_MAX {
            self.lines.remove(0);
        }
        self.lines_made += 1;
        self.lines.push(ServiceConnection {
            number: self.lines_made,
            link,
            connected_at: crate::monotonic(),
            snapshot: Some(Cursor::default()),
            used: BTreeMap::new(),
        });
        Ok(())
    }

    /// Returns the commands of services to the supervisor since the last call.
    pub(crate) fn take_service_commands(&mut self) -> Vec<(ServiceCommand, CommandSender)> {
        std::mem::take(&mut self.wishes)
    }

    /// Replies to a request, if its sender is still connected.
    pub(crate) fn grant(&mut self, asker: CommandSender, outcome: Result<(), String>) {
        let Some(line) = self.lines.iter_mut().find(|line| line.number == asker.line) else {
            return;
        };
        line.link.send(&match outcome {
            Ok(()) => ParentReport::Done { id: asker.id },
            Err(reason) => ParentReport::Refused { id: Some(asker.id), reason },
        });
        line.link.flush();
    }

    /// Sends a worker its stop signal once all services have stopped sending it requests.
    pub(super) fn note_released(
        &mut self,
        generation: u64,
        line: u64,
        now: Duration,
    ) -> Result<(), CommandError> {
        self.find_generation(generation)?;
        self.let_go.entry(generation).or_default().insert(line);
        self.stop_released(now);
        Ok(())
    }

    /// Records what a replaced service still uses of a worker.
    pub(super) fn note_used(
        &mut self,
        generation: u64,
        used: Used,
        number: u64,
    ) -> Result<(), CommandError> {
        self.find_generation(generation)?;
        if let Some(line) = self.lines.iter_mut().find(|line| line.number == number) {
            line.used.insert(generation, used);
        }
        self.report_elsewhere(generation);
        Ok(())
    }

    fn report_elsewhere(&mut self, generation: u64) {
        for line in 0..self.lines.len() {
            let used = self.elsewhere(generation, line);
            self.lines[line].link.send(&ParentReport::Elsewhere { generation, used });
        }
    }

    /// Returns what services other than `line` use of a worker.
    pub(super) fn elsewhere(&self, generation: u64, line: usize) -> Used {
        let others = self.lines.iter().enumerate().filter(|(index, _)| *index != line);
        let used = others.filter_map(|(_, other)| other.used.get(&generation));
        used.fold(Used::default(), |sum, used| Used {
            requests: sum.requests.saturating_add(used.requests),
            streams: sum.streams.saturating_add(used.streams),
        })
    }

    /// Removes closed connections and what they used.
    pub(super) fn forget_gone_services(&mut self, now: Duration) {
        let gone = |line: &mut ServiceConnection| line.link.is_closed();
        let gone: Vec<ServiceConnection> = self.lines.extract_if(.., gone).collect();
        if gone.is_empty() {
            return;
        }
        tracing::info!("a service has gone; workers stay");
        for generation in gone.iter().flat_map(|line| line.used.keys()) {
            self.report_elsewhere(*generation);
        }
        self.stop_released(now);
    }

    /// Stops workers that all services have released, also when the last service using them ended.
    pub(super) fn stop_released(&mut self, now: Duration) {
        let lines: Vec<u64> = self.lines.iter().map(|line| line.number).collect();
        let free: Vec<u64> = self
            .let_go
            .iter()
            .filter(|(_, by)| lines.iter().all(|line| by.contains(line)))
            .map(|(generation, _)| *generation)
            .collect();
        for generation in free {
            self.let_go.remove(&generation);
            let Ok(place) = self.find_generation(generation) else { continue };
            let action = self.slot_mut(place).release(generation, now);
            self.perform(place.group, action.into_iter().collect(), now);
        }
    }
}
