//! A ring that can be replaced while threads read it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, Cache};

use super::{Node, Ring, RingError};

/// A ring that is replaced as a whole. Each reading thread has a [`RingReader`] and never waits;
/// changes wait for each other.
#[derive(Debug, Default)]
pub struct SharedRing {
    current: Arc<ArcSwap<Ring>>,
    /// Locked from reading the nodes to storing the new ring, so that no change is lost. A std
    /// lock, because there is no await in between.
    changing: Mutex<()>,
}

impl SharedRing {
    #[must_use]
    pub fn new(ring: Ring) -> Self {
        Self { current: Arc::new(ArcSwap::from_pointee(ring)), changing: Mutex::default() }
    }

    /// Creates a reader for one thread or task.
    #[must_use]
    pub fn reader(&self) -> RingReader {
        RingReader(Cache::new(Arc::clone(&self.current)))
    }

    /// Returns the current ring. Repeated lookups are cheaper with a [`RingReader`].
    #[must_use]
    pub fn snapshot(&self) -> Arc<Ring> {
        self.current.load_full()
    }

    /// Changes the nodes. The new ring is built on the calling thread (see [`Ring::new`] for how
    /// long that takes) and seen by every lookup that begins after this returned.
    ///
    /// ```
    /// # use weir_base::ring::{Node, Ring, SharedRing};
    /// let shards = SharedRing::new(Ring::new([Node::new("a", 1), Node::new("b", 1)])?);
    /// shards.change(|nodes| nodes.push(Node::new("c", 2)))?;
    /// shards.change(|nodes| nodes.retain(|node| &*node.name != "a"))?;
    /// # Ok::<(), weir_base::ring::RingError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Ring::new`]; the ring stays as it was.
    pub fn change(&self, edit: impl FnOnce(&mut Vec<Node>)) -> Result<(), RingError> {
        // The mutex guards no data, so a panic while it was held left nothing incomplete.
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut nodes = self.current.load().nodes().to_vec();
        edit(&mut nodes);
        self.current.store(Arc::new(Ring::new(nodes)?));
        Ok(())
    }
}

/// Looks up keys in a [`SharedRing`] without waiting: a lookup compares one pointer, and after a
/// change takes over the new ring in a bounded number of steps (wait-free, by arc-swap).
///
/// It retains the ring of its last lookup (2 MiB) until the next one.
#[derive(Clone)]
pub struct RingReader(Cache<Arc<ArcSwap<Ring>>, Arc<Ring>>);

impl RingReader {
    /// Returns the newest ring, for several lookups in the same one.
    pub fn ring(&mut self) -> &Ring {
        self.0.load()
    }

    /// Returns the node that owns `key` in the newest ring; None without nodes.
    pub fn node_of(&mut self, key: &[u8]) -> Option<&Node> {
        self.ring().node_of(key)
    }
}

impl fmt::Debug for RingReader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("RingReader").finish_non_exhaustive()
    }
}
