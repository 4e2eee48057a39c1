//! Clients that stop reading.

use anyhow::{Context, Result};
use rustix::event::epoll;

use super::ClientPool;
use crate::realtime::socket;

impl ClientPool {
    /// Makes the slow clients stop reading. They are no longer expected to receive events.
    pub(crate) fn stop_reading(&mut self) -> Result<()> {
        for client in &self.clients[..self.slow_clients] {
            if let Some(socket) = &client.socket {
                epoll::delete(&self.epoll, socket).context("a client that stops reading")?;
            }
            self.shared.ledger.remove_subscriber(client.channel);
        }
        Ok(())
    }

    /// Makes the slow clients read what is buffered for them, without counting it.
    pub(crate) fn resume_reading(&mut self) -> Result<()> {
        self.shared.ledger.close();
        for client in &self.clients[..self.slow_clients] {
            if let Some(socket) = &client.socket {
                socket::register(&self.epoll, socket, client.index as u64)?;
            }
        }
        Ok(())
    }

    /// Returns how many slow clients' connections the server has closed.
    pub(crate) fn count_closed_slow_clients(&self) -> Result<usize> {
        let mut closed = 0;
        for client in &self.clients[..self.slow_clients] {
            let Some(socket) = &client.socket else {
                closed += 1;
                continue;
            };
            closed +=
                usize::from(socket::is_closed_by_peer(socket).context("asking after a socket")?);
        }
        Ok(closed)
    }
}
