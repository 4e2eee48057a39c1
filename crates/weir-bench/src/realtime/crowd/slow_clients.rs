//! Clients that stop reading.

use anyhow::{Context, Result};
use rustix::event::epoll;

use super::Crowd;
use crate::realtime::socket;

impl Crowd {
    /// The slow clients stop reading; nobody expects them to hear anything from here on.
    pub(crate) fn stop_reading(&mut self) -> Result<()> {
        for client in &self.clients[..self.slow_clients] {
            if let Some(socket) = &client.socket {
                epoll::delete(&self.epoll, socket).context("a client that stops reading")?;
            }
            self.around.ledger.remove_subscriber(client.channel);
        }
        Ok(())
    }

    /// The slow clients read what is left for them; it counts for nothing any more.
    pub(crate) fn read_again(&mut self) -> Result<()> {
        self.around.ledger.close();
        for client in &self.clients[..self.slow_clients] {
            if let Some(socket) = &client.socket {
                socket::watch(&self.epoll, socket, client.index as u64)?;
            }
        }
        Ok(())
    }

    /// Slow clients whose connections the server has ended.
    pub(crate) fn slow_closed(&self) -> Result<usize> {
        let mut closed = 0;
        for client in &self.clients[..self.slow_clients] {
            let Some(socket) = &client.socket else {
                closed += 1;
                continue;
            };
            closed += usize::from(socket::has_hung_up(socket).context("asking after a socket")?);
        }
        Ok(closed)
    }
}
