//! The order among requests of one priority: round robin over clients.
//!
//! The scheme is that of FQ-CoDel (RFC 8290, section 4.2) with requests for packets and a quantum
//! of one. Clients without a recent turn are served first, the others take turns. So a client with
//! a thousand requests delays the first request of another client by one at most.

use std::collections::VecDeque;

use hashbrown::HashMap;
use weir_net::client::ClientAddress;

/// How many clients without a waiting request are remembered for the order of turns.
const REMEMBERED_MAX: usize = 1_024;

/// The client, for fairness between clients. None: no particular client; all such requests
/// share one flow.
pub(crate) type FlowKey = Option<ClientAddress>;

/// The requests of one priority, identified by their numbers.
#[derive(Debug, Default)]
pub(super) struct PriorityQueue {
    /// The waiting requests of each known client, in the order of their arrival.
    flows: HashMap<FlowKey, VecDeque<u64>>,
    /// Clients that have had no turn yet.
    new: VecDeque<FlowKey>,
    /// Clients in the order of their next turn, including some without a waiting request.
    old: VecDeque<FlowKey>,
    len: usize,
}

impl PriorityQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns how many requests of `client` wait.
    pub(super) fn len_of(&self, client: FlowKey) -> usize {
        self.flows.get(&client).map_or(0, VecDeque::len)
    }

    /// Adds a request. `request` must be larger than all numbers before it.
    pub(super) fn push(&mut self, client: FlowKey, request: u64) {
        let new = &mut self.new;
        let flow = self.flows.entry(client).or_insert_with(|| {
            new.push_back(client);
            VecDeque::new()
        });
        flow.push_back(request);
        self.len += 1;
    }

    /// Removes and returns the next request and its client. With `newest_first`, picks the newest
    /// of the new clients, and the newest request of a client.
    pub(super) fn pop(&mut self, newest_first: bool) -> Option<(FlowKey, u64)> {
        while self.len > 0 {
            let new = if newest_first { self.new.pop_back() } else { self.new.pop_front() };
            let is_new = new.is_some();
            let client = new.or_else(|| self.old.pop_front())?;
            let flow = self.flows.get_mut(&client)?;
            let request = if newest_first { flow.pop_back() } else { flow.pop_front() };
            if request.is_some() || is_new {
                self.old.push_back(client);
            } else {
                self.flows.remove(&client);
            }
            if let Some(request) = request {
                self.len -= 1;
                self.forget();
                return Some((client, request));
            }
        }
        None
    }

    /// Removes a request before its turn.
    pub(super) fn remove(&mut self, client: FlowKey, request: u64) {
        let Some(flow) = self.flows.get_mut(&client) else { return };
        // Numbers only grow, so a flow is sorted.
        if let Ok(index) = flow.binary_search(&request) {
            flow.remove(index);
            self.len -= 1;
            self.forget();
        }
    }

    /// Returns the oldest request of the client with the most requests, and the number of these.
    pub(super) fn largest(&self) -> Option<(u64, usize)> {
        let flow = self.flows.values().max_by_key(|flow| (flow.len(), flow.front().copied()))?;
        Some((*flow.front()?, flow.len()))
    }

    /// Drops new clients whose requests all left the queue before their first turn.
    fn forget_new(&mut self) {
        if self.new.len() <= self.len + REMEMBERED_MAX {
            return;
        }
        let flows = &mut self.flows;
        self.new.retain(|client| {
            let waits = flows.get(client).is_some_and(|flow| !flow.is_empty());
            if !waits {
                flows.remove(client);
            }
            waits
        });
    }

    /// Bounds the memory for clients: forgets all once no request waits, otherwise those whose last
    /// turn is longest ago and who have no waiting request.
    fn forget(&mut self) {
        if self.len == 0 {
            self.flows.clear();
            self.new.clear();
            self.old.clear();
            return;
        }
        self.forget_new();
        while self.old.len() > self.len + REMEMBERED_MAX {
            let Some(client) = self.old.pop_front() else { return };
            if self.len_of(client) == 0 {
                self.flows.remove(&client);
            } else {
                self.old.push_back(client);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(number: u32) -> FlowKey {
        ClientAddress::from_ip(std::net::Ipv4Addr::from_bits((10 << 24) + number).into())
    }

    #[test]
    fn clients_that_leave_before_their_turn_are_forgotten() {
        let mut queue_of = PriorityQueue::default();
        queue_of.push(asker(0), 0);
        for number in 1..100_000 {
            queue_of.push(asker(number), number.into());
            queue_of.remove(asker(number), number.into());
        }
        assert!(queue_of.new.len() <= REMEMBERED_MAX + 2, "{}", queue_of.new.len());
        assert_eq!(queue_of.flows.len(), queue_of.new.len());
        assert_eq!(queue_of.pop(false), Some((asker(0), 0)));
    }
}
