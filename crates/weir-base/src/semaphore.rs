//! A named semaphore that never waits: it returns a permit now, or an error that names the limit.
//!
//! It guards slow operations (a webhook's receiver, a database), so that a stalled peer occupies at
//! most `limit` tasks and other requests fail at once instead of queueing.
//!
//! Guarantees: never more permits than the limit, under any race (a change of the limit included);
//! rejection only if all were in use at that moment; a dropped permit is free at once. Acquiring is
//! one compare-and-swap, retried only if another thread's succeeded in between. The limit and the
//! permits in use share one atomic word, so both are always read and changed together
//! (`permits.rs`).
//!
//! ```
//! use weir_base::semaphore::Semaphore;
//!
//! let webhooks = Semaphore::new("webhooks", "realtime.limits.webhooks_in_flight_max", 1);
//! let permit = webhooks.try_acquire().expect("free");
//! assert_eq!(
//!     webhooks.try_acquire().unwrap_err().to_string(),
//!     "webhooks: all 1 permits are in use; try again later, or raise \
//!      realtime.limits.webhooks_in_flight_max"
//! );
//! drop(permit);
//! assert!(webhooks.try_acquire().is_ok());
//! ```

mod metrics;
mod permits;

use std::fmt;
use std::sync::Arc;

pub use metrics::register;

use permits::{AtomicU64, Ordering, Permits};

/// Hands out at most `limit` permits at a time. Share it by reference or in an [`Arc`].
#[derive(Debug)]
pub struct Semaphore {
    name: Arc<str>,
    setting: &'static str,
    permits: Permits,
    refused: AtomicU64,
}

/// The permits of a semaphore at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Permits in use. More than `limit` only after the limit was lowered.
    pub in_use: u32,
    /// The limit of permits.
    pub limit: u32,
}

/// No permit was free. Cheap to create and clone: a rejection must cost less than the rejected
/// work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: all {limit} permits are in use; try again later, or raise {setting}")]
pub struct Full {
    /// The semaphore's name.
    pub name: Arc<str>,
    /// Its limit at that moment.
    pub limit: u32,
    /// The setting that holds the limit, with its section.
    pub setting: &'static str,
}

impl Semaphore {
    /// Creates a semaphore with no permits in use.
    ///
    /// `name` is its name in errors and metrics; `setting` is the limit's full name in `weir.toml`
    /// (`section.key`). A `limit` of 0 rejects everything.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, setting: &'static str, limit: u32) -> Self {
        let permits = Permits::new(limit);
        Self { name: name.into(), setting, permits, refused: AtomicU64::new(0) }
    }

    /// Takes a permit that borrows the semaphore.
    ///
    /// # Errors
    /// [`Full`] if all permits are in use; the rejection is counted.
    pub fn try_acquire(&self) -> Result<Permit<'_>, Full> {
        self.take()?;
        Ok(Permit(self))
    }

    /// Takes a permit that owns a reference to the semaphore, for use in a task.
    ///
    /// # Errors
    /// [`Full`] if all permits are in use; the rejection is counted.
    pub fn try_acquire_owned(self: &Arc<Self>) -> Result<OwnedPermit, Full> {
        self.take()?;
        Ok(OwnedPermit(Arc::clone(self)))
    }

    fn take(&self) -> Result<(), Full> {
        self.permits.take().map_err(|limit| self.refuse(limit))
    }

    /// Not inlined, so that the successful path stays short.
    #[cold]
    fn refuse(&self, limit: u32) -> Full {
        self.refused.fetch_add(1, Ordering::Relaxed);
        Full { name: Arc::clone(&self.name), limit, setting: self.setting }
    }

    /// Changes the limit for later calls.
    ///
    /// Permits in use stay valid. While they are more than the new limit, no permit is given.
    pub fn set_limit(&self, limit: u32) {
        self.permits.set_limit(limit);
    }

    /// Returns the permits in use and the limit at the same moment.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.permits.usage()
    }

    /// Returns the number of rejections since the start.
    #[must_use]
    pub fn refused_total(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns the name in errors and metrics.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// One permit, returned when dropped. A leaked permit stays in use forever.
#[must_use = "a permit that is not kept is given back at once"]
pub struct Permit<'s>(&'s Semaphore);

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.permits.release();
    }
}

impl fmt::Debug for Permit<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Permit({})", self.0.name)
    }
}

/// A [`Permit`] that keeps its semaphore alive. `Send`.
#[must_use = "a permit that is not kept is given back at once"]
pub struct OwnedPermit(Arc<Semaphore>);

impl Drop for OwnedPermit {
    fn drop(&mut self) {
        self.0.permits.release();
    }
}

impl fmt::Debug for OwnedPermit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "OwnedPermit({})", self.0.name)
    }
}

#[cfg(test)]
mod interleavings;
