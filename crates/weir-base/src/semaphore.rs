//! A named semaphore that never waits: a permit now, or a refusal that says what is full.
//!
//! It stands in front of what can be slow (a receiver of webhooks, a database), so that a stalled
//! neighbour costs at most `limit` tasks and everybody else an error at once, instead of a queue.
//!
//! Promises: never more permits than the limit, whatever races (a change of the limit included); a
//! rejection only if all were taken at that moment; a dropped permit is free at once. A call never
//! waits: acquiring is one compare-and-swap, retried only if another thread's went through
//! meanwhile. Limit and permits in use share one atomic word, so that there is no moment between
//! reading one and changing the other (`permits.rs`).
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

/// At most `limit` permits at a time. Share it by reference or in an [`Arc`].
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
    /// Permits that are held. More than `limit` only after the limit was lowered.
    pub in_use: u32,
    /// How many may be held.
    pub limit: u32,
}

/// No permit was free. Cheap to make and to clone: a refusal must cost less than the work refused.
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
    /// A semaphore of which nothing is held.
    ///
    /// `name` is what errors and metrics call it; `setting` is the limit's full name in `weir.toml`
    /// (`section.key`). A `limit` of 0 refuses everything.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, setting: &'static str, limit: u32) -> Self {
        let permits = Permits::new(limit);
        Self { name: name.into(), setting, permits, refused: AtomicU64::new(0) }
    }

    /// Takes a permit, to be held no longer than the semaphore is borrowed.
    ///
    /// # Errors
    /// [`Full`] if all permits are in use. It is counted.
    pub fn try_acquire(&self) -> Result<Permit<'_>, Full> {
        self.take()?;
        Ok(Permit(self))
    }

    /// Takes a permit that a task can carry away.
    ///
    /// # Errors
    /// [`Full`] if all permits are in use. It is counted.
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

    /// Changes the limit for further calls.
    ///
    /// Permits that are held stay valid; below their number, no permit is given until enough have come
    /// back.
    pub fn set_limit(&self, limit: u32) {
        self.permits.set_limit(limit);
    }

    /// Permits in use and the limit, of the same moment.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.permits.usage()
    }

    /// Refusals since the start.
    #[must_use]
    pub fn refused_total(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// What errors and metrics call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// One permit; dropping it gives it back. A permit that is leaked stays in use for good.
#[must_use = "a permit that is not kept is given back at once"]
pub struct Permit<'s>(&'s Semaphore);

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.permits.give_back();
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
        self.0.permits.give_back();
    }
}

impl fmt::Debug for OwnedPermit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "OwnedPermit({})", self.0.name)
    }
}

#[cfg(test)]
mod interleavings;
