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
    pub(super) fn from_parent_command(command: &ParentCommand) -> Option<Self> {
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
        if self.connections.len() == SERVICES_MAX {
            self.connections.remove(0);
        }
        self.connections_made += 1;
        self.connections.push(ServiceConnection {
            number: self.connections_made,
            link,
            connected_at: crate::monotonic(),
            snapshot: Some(Cursor::default()),
            used: BTreeMap::new(),
        });
        Ok(())
    }

    /// Returns the commands of services to the supervisor since the last call.
    pub(crate) fn take_service_commands(&mut self) -> Vec<(ServiceCommand, CommandSender)> {
        std::mem::take(&mut self.service_commands)
    }

    /// Replies to a request, if its sender is still connected.
    pub(crate) fn reply(&mut self, requester: CommandSender, outcome: Result<(), String>) {
        let Some(connection) =
            self.connections.iter_mut().find(|connection| connection.number == requester.line)
        else {
            return;
        };
        connection.link.send(&match outcome {
            Ok(()) => ParentReport::Done { id: requester.id, outcome: None },
            Err(reason) => ParentReport::Refused { id: Some(requester.id), reason },
        });
        connection.link.flush();
    }

    /// Sends a worker its stop signal once all services have stopped sending it requests.
    pub(super) fn record_release(
        &mut self,
        generation: u64,
        connection: u64,
        now: Duration,
    ) -> Result<(), CommandError> {
        self.find_generation(generation)?;
        self.released_by_services.entry(generation).or_default().insert(connection);
        self.stop_released(now);
        Ok(())
    }

    /// Records what a replaced service still uses of a worker.
    pub(super) fn record_usage(
        &mut self,
        generation: u64,
        used: Used,
        number: u64,
    ) -> Result<(), CommandError> {
        self.find_generation(generation)?;
        if let Some(connection) =
            self.connections.iter_mut().find(|connection| connection.number == number)
        {
            connection.used.insert(generation, used);
        }
        self.report_used_by_others(generation);
        Ok(())
    }

    fn report_used_by_others(&mut self, generation: u64) {
        for connection in 0..self.connections.len() {
            let used = self.used_by_others(generation, connection);
            self.connections[connection].link.send(&ParentReport::Elsewhere { generation, used });
        }
    }

    /// Returns what services other than `connection` use of a worker.
    pub(super) fn used_by_others(&self, generation: u64, connection: usize) -> Used {
        let others = self.connections.iter().enumerate().filter(|(index, _)| *index != connection);
        let used = others.filter_map(|(_, other)| other.used.get(&generation));
        used.fold(Used::default(), |sum, used| Used {
            requests: sum.requests.saturating_add(used.requests),
            streams: sum.streams.saturating_add(used.streams),
        })
    }

    /// Removes closed connections and what they used.
    pub(super) fn remove_closed_services(&mut self, now: Duration) {
        let closed = |connection: &mut ServiceConnection| connection.link.is_closed();
        let closed: Vec<ServiceConnection> = self.connections.extract_if(.., closed).collect();
        if closed.is_empty() {
            return;
        }
        tracing::info!("a service has gone; workers stay");
        for generation in closed.iter().flat_map(|connection| connection.used.keys()) {
            self.report_used_by_others(*generation);
        }
        self.stop_released(now);
    }

    /// Stops workers that all services have released, also when the last service using them ended.
    pub(super) fn stop_released(&mut self, now: Duration) {
        let connections: Vec<u64> =
            self.connections.iter().map(|connection| connection.number).collect();
        let released: Vec<u64> = self
            .released_by_services
            .iter()
            .filter(|(_, released_by)| {
                connections.iter().all(|connection| released_by.contains(connection))
            })
            .map(|(generation, _)| *generation)
            .collect();
        for generation in released {
            self.released_by_services.remove(&generation);
            let Ok(slot_index) = self.find_generation(generation) else { continue };
            let action = self.slot_mut(slot_index).release(generation, now);
            self.perform(slot_index.group, action.into_iter().collect(), now);
        }
    }
}
