//! Connects all clients, on one thread or on several.
//!
//! Each of several threads has a pool with a part of the clients. Once all are connected, their sockets move to the
//! one pool that receives the events. Nothing is published before that.

use std::mem;

use anyhow::Result;

use super::ClientPool;
use crate::clock::now;
use crate::realtime::client::Client;
use crate::realtime::schedule::StallTimer;
use crate::realtime::settings::LoadSettings;
use crate::realtime::socket;

impl ClientPool {
    /// Connects and subscribes all clients. Ends early if no client subscribes within the stall timeout.
    pub(crate) fn connect_clients(&mut self, settings: &LoadSettings) -> Result<()> {
        let threads = settings.client_threads.min(self.clients.len());
        if threads <= 1 {
            return self.connect_all(settings, settings.connects_in_flight);
        }
        let connects_in_flight = settings.connects_in_flight.div_ceil(threads);
        let mut parts = self.split(threads, settings)?;
        let outcomes: Vec<Result<()>> = std::thread::scope(|scope| {
            let connect_part =
                |part| scope.spawn(|| Self::connect_all(part, settings, connects_in_flight));
            let threads: Vec<_> = parts.iter_mut().map(connect_part).collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.map(|outcome| outcome.expect("a client thread does not panic")).collect()
        });
        outcomes.into_iter().collect::<Result<()>>()?;
        self.merge_parts(parts)
    }

    fn connect_all(&mut self, settings: &LoadSettings, connects_in_flight: usize) -> Result<()> {
        let clients = self.clients.len();
        let mut opened = 0;
        let mut stall_timer = StallTimer::new(settings.stall_timeout);
        loop {
            let room = connects_in_flight.saturating_sub(self.connections.connecting);
            let until = clients.min(opened + room);
            for slot in opened..until {
                self.open(slot)?;
            }
            opened = until;
            let are_all_connected = opened == clients && self.are_all_connected();
            if are_all_connected || !stall_timer.keep_waiting(self.connections.live as u64) {
                return Ok(());
            }
            self.poll_once(now() + settings.stall_timeout)?;
        }
    }

    /// Moves the clients of this pool to `count` new ones.
    fn split(&mut self, count: usize, settings: &LoadSettings) -> Result<Vec<Self>> {
        let mut shares: Vec<Vec<Client>> = (0..count).map(|_| Vec::new()).collect();
        for client in mem::take(&mut self.clients) {
            shares[client.index % count].push(client);
        }
        let part =
            |clients| Self::with_clients(clients, &self.target, settings, self.shared.fresh_copy());
        shares.into_iter().map(part).collect()
    }

    /// Moves the clients of `parts` to this pool, with their counts.
    fn merge_parts(&mut self, parts: Vec<Self>) -> Result<()> {
        for part in parts {
            self.connections.merge(&part.connections);
            self.shared.counts.merge(part.shared.counts);
            self.clients.extend(part.clients);
        }
        self.clients.sort_unstable_by_key(|client| client.index);
        for client in &self.clients {
            if let Some(socket) = &client.socket {
                socket::register(&self.epoll, socket, client.index as u64)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::realtime::shared_state::SharedState;
    use crate::realtime::target::{Protocol, Target};

    #[test]
    fn split_pools_are_merged_in_order() {
        let settings = LoadSettings::parsed(&["--scenario", "connect"], 10);
        let target = Target::of("ws://127.0.0.1:1", Protocol::Pusher);
        let shared = SharedState::new(&target, &settings).expect("valid");
        let mut pool = ClientPool::new(&target, &settings, shared).expect("an epoll");
        let mut parts = pool.split(3, &settings).expect("three epolls");
        let sizes: Vec<usize> = parts.iter().map(|part| part.clients.len()).collect();
        assert_eq!((pool.clients.len(), sizes), (0, vec![4, 3, 3]));
        for part in &mut parts {
            part.shared.counts.bytes = 5;
            part.connections.rejected = 2;
            part.connections.live = part.clients.len();
        }
        pool.merge_parts(parts).expect("nothing to watch");
        let places: Vec<usize> = pool.clients.iter().map(|client| client.index).collect();
        assert_eq!(places, (0..10).collect::<Vec<_>>());
        let connections = &pool.connections;
        assert_eq!((connections.live, connections.rejected, pool.shared.counts.bytes), (10, 6, 15));
    }
}
