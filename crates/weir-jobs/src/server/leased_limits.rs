//! Limits that were set at run time: added to the rules of the settings until their lease is over.

use std::time::Duration;

use super::JobService;
use crate::allocation::Allocation;
use crate::settings::StoreKind;
use crate::store::Store;
use crate::temporary_limits::{LEASE_MAX, LeasedLimits, TemporaryLimits, TemporaryLimitsError};

/// Replaces the limits, for `lease` from now on.
pub(super) fn set<S: Store>(
    service: &JobService<S>,
    limits: TemporaryLimits,
    lease: Duration,
) -> Result<(), TemporaryLimitsError> {
    let settings = service.settings();
    if settings.store == StoreKind::External {
        return Err(TemporaryLimitsError::NotEmbedded);
    }
    if lease > LEASE_MAX {
        return Err(TemporaryLimitsError::TooLong);
    }
    limits.add_to(&mut Allocation::of_settings(&settings))?;
    let until = service.clock.now() + lease;
    let new = (!limits.is_empty()).then_some(LeasedLimits { limits, until });
    let limits_of = |leased: &Option<LeasedLimits>| leased.as_ref().map(|it| it.limits.clone());
    let is_changed = limits_of(&new) != limits_of(&service.leased_limits.borrow());
    *service.leased_limits.borrow_mut() = new;
    // A renewal changes no rule, and the store need not look at its queues.
    if is_changed {
        allocate(service);
    }
    Ok(())
}

/// Ends the limits whose lease is over.
pub(super) fn end_lapsed<S: Store>(service: &JobService<S>) {
    let now = service.clock.now();
    let is_lapsed = |leased: &LeasedLimits| leased.until <= now;
    if service.leased_limits.borrow_mut().take_if(|it| is_lapsed(it)).is_some() {
        tracing::warn!("limits that were set at run time have ended: they were not renewed");
        allocate(service);
    }
}

/// Applies the rules of the settings, with the limits that were set at run time.
pub(super) fn allocate<S: Store>(service: &JobService<S>) {
    let mut rules = Allocation::of_settings(&service.settings());
    if let Some(leased) = &*service.leased_limits.borrow()
        && let Err(error) = leased.limits.add_to(&mut rules)
    {
        tracing::warn!(%error, "limits that were set at run time no longer apply");
    }
    service.store.allocate(rules);
}
