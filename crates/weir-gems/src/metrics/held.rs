//! Memory of answers that wait for one client each, as it is accounted for and shown.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Limit, LimitLabel};

type HeldGauge = Gauge<u64, AtomicU64>;

/// Answers that share an amount of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Budget {
    Dependencies,
    Infos,
}

/// What is held of each budget. The gauge that is shown is the account.
#[derive(Clone, Debug)]
pub(crate) struct Budgets([HeldGauge; 2]);

/// A part of a budget; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Room {
    held: HeldGauge,
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
        Self(Budget::ALL.map(|budget| {
            let label = LimitLabel { limit: budget.limit().name() };
            held.get_or_create(&label).clone()
        }))
    }

    /// Room for so many bytes; None: that would be more than `bytes_max` of the budget together.
    pub(super) fn take(&self, budget: Budget, bytes: u64, bytes_max: u64) -> Option<Room> {
        let held = self.0[budget as usize].clone();
        let before = held.inc_by(bytes);
        let room = Room { held, bytes };
        (before.saturating_add(bytes) <= bytes_max).then_some(room)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.held.dec_by(self.bytes);
    }
}
