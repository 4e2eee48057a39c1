//! Memory of answers that wait for one client each, as it is accounted for and shown.

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

/// Answers that share an amount of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Budget {
    Dependencies,
    Infos,
}

/// How much may be held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoomMax {
    pub(crate) together: u64,
    /// By one client.
    pub(crate) of_client: u64,
}

/// What is held of each budget. The gauge that is shown is the account.
#[derive(Clone, Debug)]
pub(crate) struct Budgets {
    held: [HeldGauge; 2],
    clients: Clients,
}

/// What clients hold; those that hold nothing are not in it. std: held for an addition.
#[derive(Clone, Debug, Default)]
struct Clients(Arc<Mutex<HashMap<(Budget, ClientAddress), u64>>>);

/// A part of a budget; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Room {
    held: HeldGauge,
    bytes: u64,
    /// Never read: it is given back with the rest.
    _share: Option<Share>,
}

/// A client's part of it.
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

    /// Room for so many bytes.
    ///
    /// # Errors
    /// That would be more than one of the limits.
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
        let client = ClientAddress::of("192.0.2.7".parse().unwrap());
        let max = RoomMax { together: 10, of_client: 4 };
        let take = |budget, client, bytes| budgets.take(budget, client, bytes, max);
        let rooms = [
            take(Budget::Dependencies, client, 3).unwrap(),
            take(Budget::Dependencies, client, 1).unwrap(),
            // Each budget by itself, and nobody in particular.
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
