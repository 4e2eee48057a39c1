//! The order among requests of one priority: clients take turns.
//!
//! The scheme is that of FQ-CoDel (RFC 8290, section 4.2) with requests for packets and a quantum
//! of one: who comes after a pause is new and goes before those who were served already; they take
//! turns. So a client with a thousand requests delays another's first by one at most.

use std::collections::VecDeque;

use hashbrown::HashMap;
use weir_net::client::ClientAddress;

/// Clients whose last turn is remembered, beyond those with a request in the lane.
const REMEMBERED_MAX: usize = 1_024;

/// The client, for fairness between clients. None: no particular client; each request has a turn of its own.
pub(crate) type FlowKey = Option<ClientAddress>;

/// The requests of one priority, by their numbers.
#[derive(Debug, Default)]
pub(super) struct PriorityQueue {
    /// The requests of each client that has a turn, in the order of their arrival.
    flows: HashMap<FlowKey, VecDeque<u64>>,
    /// Clients that have had no turn yet.
    new: VecDeque<FlowKey>,
    /// Clients in the order of their next turn; some have no request any more.
    old: VecDeque<FlowKey>,
    len: usize,
}

impl PriorityQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many requests of `client` wait here.
    pub(super) fn len_of(&self, client: FlowKey) -> usize {
        self.flows.get(&client).map_or(0, VecDeque::len)
    }

    /// `request` is larger than all before it.
    pub(super) fn push(&mut self, client: FlowKey, request: u64) {
        let new = &mut self.new;
        let flow = self.flows.entry(client).or_insert_with(|| {
            new.push_back(client);
            VecDeque::new()
        });
        flow.push_back(request);
        self.len += 1;
    }

    /// Whose turn it is. `newest_first`: of clients that are new, and of a client's requests.
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

    /// Takes a request out of its turn.
    pub(super) fn remove(&mut self, client: FlowKey, request: u64) {
        let Some(flow) = self.flows.get_mut(&client) else { return };
        // Sorted, for numbers only grow.
        if let Ok(place) = flow.binary_search(&request) {
            flow.remove(place);
            self.len -= 1;
            self.forget();
        }
    }

    /// The oldest request of the client that has most of them, and how many that are.
    pub(super) fn fattest(&self) -> Option<(u64, usize)> {
        let flow = self.flows.values().max_by_key(|flow| (flow.len(), flow.front().copied()))?;
        Some((*flow.front()?, flow.len()))
    }

    /// Clients that left before their first turn, also while nobody has one for long.
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

    /// An empty lane owes nobody a turn; in a busy one the clients that were served longest ago
    /// make room.
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
        ClientAddress::of(std::net::Ipv4Addr::from_bits((10 << 24) + number).into())
    }

    #[test]
    fn clients_that_leave_before_their_first_turn_are_forgotten() {
        let mut lane = PriorityQueue::default();
        lane.push(asker(0), 0);
        for number in 1..100_000 {
            lane.push(asker(number), number.into());
            lane.remove(asker(number), number.into());
        }
        assert!(lane.new.len() <= REMEMBERED_MAX + 2, "{}", lane.new.len());
        assert_eq!(lane.flows.len(), lane.new.len());
        assert_eq!(lane.pop(false), Some((asker(0), 0)));
    }
}
