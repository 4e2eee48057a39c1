//! Accounts for the memory of responses that are built for a single client, and exposes it as
//! metrics.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use weir_net::client::ClientAddress;

use super::{Limit, LimitLabel};

type HeldGauge = Gauge<u64, AtomicU64>;

/// Kinds of responses that share a memory limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Budget {
    Dependencies,
    Infos,
}

/// Memory limits in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoomMax {
    pub(crate) together: u64,
    /// Limit per client.
    pub(crate) of_client: u64,
}

/// Memory in use per budget. The exposed gauge is also the counter for the limit.
#[derive(Clone, Debug)]
pub(crate) struct Budgets {
    held: [HeldGauge; 2],
    clients: Clients,
}

/// Memory in use per client; clients without any are absent. A std mutex: it is locked only for an
/// addition.
#[derive(Clone, Debug, Default)]
struct Clients(Arc<Mutex<HashMap<(Budget, ClientAddress), u64>>>);

/// A reservation from a budget, which is returned on drop.
#[derive(Debug)]
pub(crate) struct Room {
    held: HeldGauge,
    bytes: u64,
    /// Never read; its drop returns the client's part.
    _share: Option<Share>,
}

/// The part of a reservation that counts against a client's limit.
#[derive(Debug)]
struct Share {
    clients: Clients,
    whose: (Budget, ClientAddress),
    bytes: u64,
}

impl Budget {
    const ALL: [Self; 2] = [Self::Dependencies, Self::Infos];

    pub(crate) const fn limit(self) -> Limit {
        match self {
            Self::Dependencies => Limit::DependencyMemoryBytesMax,
            Self::Infos => Limit::InfoMemoryBytesMax,
        }
    }
}

impl Budgets {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let held = Family::<LimitLabel, HeldGauge>::default();
        registry.register(
            "weir_gems_answers_held_bytes",
            "Bytes of answers that were made for one client each and wait for it, by their limit",
            held.clone(),
        );
        let held = Budget::ALL.map(|budget| {
            let label = LimitLabel { limit: budget.limit().name() };
            held.get_or_create(&label).clone()
        });
        Self { held, clients: Clients::default() }
    }

    /// Reserves `bytes` bytes.
    ///
    /// # Errors
    /// Returns the limit that would be exceeded.
    pub(super) fn take(
        &self,
        budget: Budget,
        client: Option<ClientAddress>,
        bytes: u64,
        max: RoomMax,
    ) -> Result<Room, Limit> {
        let share = client.map(|client| self.clients.take((budget, client), bytes, max.of_client));
        let share = share.transpose()?;
        let held = self.held[budget as usize].clone();
        let before = held.inc_by(bytes);
        let room = Room { held, bytes, _share: share };
        match before.saturating_add(bytes) <= max.together {
            true => Ok(room),
            false => Err(budget.limit()),
        }
    }
}

impl Clients {
    fn take(
        &self,
        whose: (Budget, ClientAddress),
        bytes: u64,
        bytes_max: u64,
    ) -> Result<Share, Limit> {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held = clients.get(&whose).copied().unwrap_or_default().saturating_add(bytes);
        if held > bytes_max {
            return Err(Limit::ClientMemoryPercentMax);
        }
        clients.insert(whose, held);
        Ok(Share { clients: self.clone(), whose, bytes })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.held.dec_by(self.bytes);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut clients = self.clients.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut held) = clients.entry(self.whose) {
            *held.get_mut() -= self.bytes;
            if *held.get() == 0 {
                held.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_holds_nothing_is_forgotten() {
        let budgets = Budgets::register(&mut Registry::default());
        let client = ClientAddress::from_ip("192.0.2.7".parse().unwrap());
        let max = RoomMax { together: 10, of_client: 4 };
        let take = |budget, client, bytes| budgets.take(budget, client, bytes, max);
        let rooms = [
            take(Budget::Dependencies, client, 3).unwrap(),
            take(Budget::Dependencies, client, 1).unwrap(),
            // Each budget is counted separately, and there may be no client.
            take(Budget::Infos, client, 4).unwrap(),
            take(Budget::Dependencies, None, 6).unwrap(),
        ];
        let share = take(Budget::Dependencies, client, 1).unwrap_err();
        assert_eq!(share, Limit::ClientMemoryPercentMax);
        let all = take(Budget::Dependencies, None, 1).unwrap_err();
        assert_eq!(all, Limit::DependencyMemoryBytesMax);
        assert_eq!(budgets.clients.0.lock().unwrap().len(), 2);
        drop(rooms);
        assert_eq!(budgets.clients.0.lock().unwrap().len(), 0);
        assert_eq!(budgets.held.each_ref().map(Gauge::get), [0, 0]);
    }
}
