//! All clients' way in, on one thread or on several.
//!
//! Each of several threads is a crowd of its own with its share of the clients; once all have arrived their sockets
//! move to the one crowd that hears the events. Nothing is published before that.

use std::mem;

use anyhow::Result;

use super::Crowd;
use crate::clock::now;
use crate::realtime::client::Client;
use crate::realtime::schedule::Patience;
use crate::realtime::settings::LoadSettings;
use crate::realtime::socket;

impl Crowd {
    /// Connects and subscribes all clients. Ends early if nobody arrives for too long.
    pub(crate) fn arrive(&mut self, settings: &LoadSettings) -> Result<()> {
        let threads = settings.client_threads.min(self.clients.len());
        if threads <= 1 {
            return self.bring_in(settings, settings.connects_in_flight);
        }
        let connects_in_flight = settings.connects_in_flight.div_ceil(threads);
        let mut crews = self.split(threads, settings)?;
        let outcomes: Vec<Result<()>> = std::thread::scope(|scope| {
            let bring_in =
                |crew| scope.spawn(|| Self::bring_in(crew, settings, connects_in_flight));
            let threads: Vec<_> = crews.iter_mut().map(bring_in).collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.map(|outcome| outcome.expect("a client thread does not panic")).collect()
        });
        outcomes.into_iter().collect::<Result<()>>()?;
        self.unite(crews)
    }

    fn bring_in(&mut self, settings: &LoadSettings, connects_in_flight: usize) -> Result<()> {
        let clients = self.clients.len();
        let mut opened = 0;
        let mut patience = Patience::new(settings.stall_timeout);
        loop {
            let room = connects_in_flight.saturating_sub(self.attendance.arriving);
            let until = clients.min(opened + room);
            for place in opened..until {
                self.open(place)?;
            }
            opened = until;
            let everyone = opened == clients && self.has_everyone_arrived();
            if everyone || !patience.lasts(self.attendance.live as u64) {
                return Ok(());
            }
            self.turn(now() + settings.stall_timeout)?;
        }
    }

    /// Crowds that share all clients of this one, which has none then.
    fn split(&mut self, count: usize, settings: &LoadSettings) -> Result<Vec<Self>> {
        let mut shares: Vec<Vec<Client>> = (0..count).map(|_| Vec::new()).collect();
        for client in mem::take(&mut self.clients) {
            shares[client.index % count].push(client);
        }
        let crew = |clients| Self::of(clients, &self.target, settings, self.around.empty());
        shares.into_iter().map(crew).collect()
    }

    /// Takes the clients of `crews` in, with all that they have counted.
    fn unite(&mut self, crews: Vec<Self>) -> Result<()> {
        for crew in crews {
            self.attendance.merge(&crew.attendance);
            self.around.counts.merge(crew.around.counts);
            self.clients.extend(crew.clients);
        }
        self.clients.sort_unstable_by_key(|client| client.index);
        for client in &self.clients {
            if let Some(socket) = &client.socket {
                socket::watch(&self.epoll, socket, client.index as u64)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::realtime::surroundings::Surroundings;
    use crate::realtime::target::{Protocol, Target};

    #[test]
    fn every_client_is_in_one_crew_and_all_are_united_in_their_places() {
        let settings = LoadSettings::parsed(&["--scenario", "connect"], 10);
        let target = Target::of("ws://127.0.0.1:1", Protocol::Pusher);
        let around = Surroundings::new(&target, &settings).expect("valid");
        let mut crowd = Crowd::new(&target, &settings, around).expect("an epoll");
        let mut crews = crowd.split(3, &settings).expect("three epolls");
        let sizes: Vec<usize> = crews.iter().map(|crew| crew.clients.len()).collect();
        assert_eq!((crowd.clients.len(), sizes), (0, vec![4, 3, 3]));
        for crew in &mut crews {
            crew.around.counts.bytes = 5;
            crew.attendance.refused = 2;
            crew.attendance.live = crew.clients.len();
        }
        crowd.unite(crews).expect("nothing to watch");
        let places: Vec<usize> = crowd.clients.iter().map(|client| client.index).collect();
        assert_eq!(places, (0..10).collect::<Vec<_>>());
        let attendance = &crowd.attendance;
        assert_eq!((attendance.live, attendance.refused, crowd.around.counts.bytes), (10, 6, 15));
    }
}
