//! This node's part of an app's limit of connections, of a log that several nodes share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use crate::shared_log::{ConnectionGrant, ConnectionUse};

/// No part is granted: the whole limit is for this node.
const UNSHARED: usize = usize::MAX;
/// A node that needs more says so in this many exchanges with the log. A client that was refused returns
/// after a second, before the third one.
const WANTED_EXCHANGES: u8 = 3;

/// The limit that a new connection would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuotaExceeded {
    /// The limit of the app.
    App,
    /// This node's part of it. The other nodes don't use all of theirs.
    Share,
    /// The limit of all apps together.
    Total,
}

/// The part that the log has granted. Without a connection to the log there is none.
#[derive(Debug)]
pub(crate) struct ConnectionShare {
    /// Connections that this node may have.
    granted: AtomicUsize,
    /// How many more than it has it keeps at the next exchange.
    spare: AtomicUsize,
    /// Connections to the other nodes.
    others: AtomicUsize,
    /// Exchanges in which this node wants more.
    wanted: AtomicU8,
    /// Whether the log was asked for more since the last grant.
    is_asked: AtomicBool,
}

impl Default for ConnectionShare {
    fn default() -> Self {
        Self {
            granted: AtomicUsize::new(UNSHARED),
            spare: AtomicUsize::new(0),
            others: AtomicUsize::new(0),
            wanted: AtomicU8::new(0),
            is_asked: AtomicBool::new(false),
        }
    }
}

impl ConnectionShare {
    /// Checks that one more connection is within this part. `connections` were there before it, and are
    /// counted with it already: [`Self::begin_exchange`] relies on that order.
    pub(crate) fn check(&self, connections: usize, max: usize) -> Result<(), QuotaExceeded> {
        if connections < self.granted.load(Ordering::SeqCst) {
            return Ok(());
        }
        let others = self.others.load(Ordering::Relaxed);
        let is_full = connections.saturating_add(others) >= max;
        Err(if is_full { QuotaExceeded::App } else { QuotaExceeded::Share })
    }

    /// Returns whether the log is to be asked for a larger part, before this one is used up.
    pub(crate) fn needs_more(&self, connections: usize, max: usize) -> bool {
        let granted = self.granted.load(Ordering::Relaxed);
        let has_enough = connections + self.spare.load(Ordering::Relaxed) / 2 < granted;
        let is_full = connections.saturating_add(self.others.load(Ordering::Relaxed)) >= max;
        if granted == UNSHARED || has_enough || is_full {
            return false;
        }
        self.wanted.store(WANTED_EXCHANGES, Ordering::Relaxed);
        !self.is_asked.swap(true, Ordering::Relaxed)
    }

    /// Gives back what is not needed, and returns what this node uses. Nothing may be granted to others before
    /// it can't be used here any more: the part shrinks first, and the connections are counted then.
    pub(crate) fn begin_exchange(
        &self,
        app: Arc<str>,
        connections_max: usize,
        now: impl Fn() -> usize,
    ) -> ConnectionUse {
        let granted = self.granted.load(Ordering::SeqCst);
        let mut kept = 0;
        if granted != UNSHARED {
            kept = granted.min(now() + self.spare.load(Ordering::Relaxed));
            self.granted.store(kept, Ordering::SeqCst);
        }
        let connections = now();
        let wanted = self.wanted.load(Ordering::Relaxed);
        self.wanted.store(wanted.saturating_sub(1), Ordering::Relaxed);
        let (held, is_wanted) = (kept.max(connections), wanted > 0);
        ConnectionUse { app, connections, held, connections_max, is_wanted }
    }

    /// Applies the log's reply.
    pub(crate) fn grant(&self, grant: ConnectionGrant) {
        self.spare.store(grant.spare, Ordering::Relaxed);
        self.others.store(grant.others, Ordering::Relaxed);
        self.granted.store(grant.granted, Ordering::SeqCst);
        self.is_asked.store(false, Ordering::Relaxed);
    }

    /// Ends the part: there is no connection to the log.
    pub(crate) fn end(&self) {
        self.granted.store(UNSHARED, Ordering::SeqCst);
        self.others.store(0, Ordering::Relaxed);
        self.is_asked.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(share: &ConnectionShare, connections: usize) -> (usize, usize, bool) {
        let used = share.begin_exchange("1".into(), 10, || connections);
        (used.connections, used.held, used.is_wanted)
    }

    #[test]
    fn a_part_limits_connections_and_shrinks_before_others_get_it() {
        let share = ConnectionShare::default();
        assert_eq!(share.check(9, 10), Ok(()), "nothing is granted: the limit is for this node");
        assert_eq!(exchange(&share, 2), (2, 2, false));
        share.grant(ConnectionGrant { granted: 6, spare: 4, others: 3 });
        assert_eq!((share.check(5, 10), share.check(6, 10)), (Ok(()), Err(QuotaExceeded::Share)));
        assert_eq!(share.check(7, 10), Err(QuotaExceeded::App), "7 and 3 are all");
        assert_eq!(exchange(&share, 0), (0, 4, false), "two are given back");
        assert_eq!(share.check(4, 10), Err(QuotaExceeded::Share), "at once");
        share.end();
        assert_eq!(share.check(9, 10), Ok(()));
    }

    #[test]
    fn more_is_requested_once_before_the_part_is_used_up() {
        let share = ConnectionShare::default();
        assert!(!share.needs_more(9, 10), "not shared");
        share.grant(ConnectionGrant { granted: 6, spare: 4, others: 3 });
        assert!(!share.needs_more(3, 10));
        assert!(share.needs_more(4, 10) && !share.needs_more(5, 10));
        let wanted: Vec<bool> = (0..4).map(|_| exchange(&share, 5).2).collect();
        assert_eq!(wanted, [true, true, true, false]);
        share.grant(ConnectionGrant { granted: 6, spare: 0, others: 3 });
        assert!(!share.needs_more(5, 10) && share.needs_more(6, 10));
        assert!(!share.needs_more(7, 10), "there is nothing to have");
    }
}
