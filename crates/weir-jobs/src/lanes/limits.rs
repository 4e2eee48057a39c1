//! What the tenants of a queue may do: how many of their jobs run at once, and how often they start.

use std::collections::HashMap;

use weir_base::token_bucket::Rate;

use super::lane::{LaneOwner, TenantKey, UNLIMITED};

/// The limits of a tenant. `None`: it has no limit of this kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneLimits {
    /// Jobs in progress at once.
    pub concurrency: Option<u32>,
    /// How often jobs start.
    pub rate: Option<Rate>,
}

impl LaneLimits {
    /// Returns whether there is a limit.
    #[must_use]
    pub const fn is_some(&self) -> bool {
        self.concurrency.is_some() || self.rate.is_some()
    }
}

/// The limits of all tenants.
#[derive(Clone, Debug, Default)]
pub(super) struct LimitTable {
    each: LaneLimits,
    of: HashMap<TenantKey, LaneLimits, foldhash::fast::RandomState>,
    has_rates: bool,
}

impl LimitTable {
    pub(super) fn new(
        each: LaneLimits,
        of: impl IntoIterator<Item = (TenantKey, LaneLimits)>,
    ) -> Self {
        let of: HashMap<_, _, _> = of.into_iter().collect();
        let has_rates =
            each.rate.is_some() || of.values().any(|limits: &LaneLimits| limits.rate.is_some());
        Self { each, of, has_rates }
    }

    /// Returns whether a tenant has limits of its own.
    pub(super) fn has_own(&self, tenant: TenantKey) -> bool {
        self.of.contains_key(&tenant)
    }

    /// Returns the number of jobs that a lane may have in progress.
    pub(super) fn running_max(&self, owner: LaneOwner) -> u32 {
        self.own(owner).concurrency.or(self.each.concurrency).unwrap_or(UNLIMITED)
    }

    /// Returns how often the jobs of a lane may start.
    pub(super) fn rate(&self, owner: LaneOwner) -> Option<Rate> {
        if !self.has_rates {
            return None;
        }
        self.own(owner).rate.or(self.each.rate)
    }

    fn own(&self, owner: LaneOwner) -> LaneLimits {
        match owner {
            LaneOwner::Tenant(tenant) => self.of.get(&tenant).copied().unwrap_or_default(),
            LaneOwner::Shared(_) => LaneLimits::default(),
        }
    }
}
