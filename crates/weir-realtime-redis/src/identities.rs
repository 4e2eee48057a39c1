//! The identities under which this process has stored members: one for each connection to Redis.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Identities that are not removed yet. More are left to the other nodes, or to this one, when their
/// leases lapse.
const IDENTITIES_MAX: usize = 16;

/// The identities of this process, the present one last.
#[derive(Debug, Default)]
pub(crate) struct Identities(Mutex<Vec<Arc<str>>>);

impl Identities {
    /// Begins a new one.
    pub(crate) fn begin(&self) -> Arc<str> {
        let mut identities = self.lock();
        if identities.len() >= IDENTITIES_MAX {
            identities.remove(0);
        }
        let node: Arc<str> = format!("{:016x}", fastrand::u64(..)).into();
        identities.push(Arc::clone(&node));
        node
    }

    /// Returns whether this process has, or had, this identity.
    pub(crate) fn contains(&self, node: &str) -> bool {
        self.lock().iter().any(|own| **own == *node)
    }

    /// Returns the present one. None: there was no connection yet.
    pub(crate) fn present(&self) -> Option<Arc<str>> {
        self.lock().last().cloned()
    }

    /// Returns all others.
    pub(crate) fn earlier_than(&self, present: &str) -> Vec<Arc<str>> {
        self.lock().iter().filter(|node| ***node != *present).cloned().collect()
    }

    /// Returns all of them.
    pub(crate) fn all(&self) -> Vec<Arc<str>> {
        self.lock().clone()
    }

    /// Forgets one that was removed from Redis.
    pub(crate) fn remove(&self, node: &str) {
        self.lock().retain(|own| **own != *node);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<str>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
