//! The layout of what nodes share in Redis, and what nodes of different versions do beside each other.
//!
//! Each node stores with its lease which layout it knows. A node uses the oldest one that all nodes with a lease
//! know, for as long as its session lasts: if that changes, the session ends and the next one begins in the other
//! layout. So a rolling upgrade changes the layout when the last node of the earlier version has ended.
//!
//! 1: events, histories, subscriptions, members, webhooks, switches. Nodes with it store no layout.
//! 2: also the signed-in users of all nodes, as members of the channels `#users-0` .., and parts of the limits of
//!    connections. Nodes with the layout 1 would send webhooks about these members.
//!
//! A version whose data earlier ones must not touch stores the layout that a node must know in a key, which each
//! node reads before it writes anything, and with each heartbeat.

use std::collections::HashMap;

use redis::{RedisError, RedisResult};

use crate::command_connection::CommandConnection;
use crate::keys::Keys;
use crate::leases::Lease;
use crate::rejections::unless_rejected;
use crate::scripts;

/// A layout of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Layout(pub(crate) u32);

/// The layout that this version knows.
pub(crate) const LAYOUT: u32 = 2;

/// This version must not touch what is in Redis.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{key} in Redis is {needed}, and this version of Weir knows layouts up to {LAYOUT}: upgrade this node, or give \
     it another realtime.redis.prefix"
)]
pub(crate) struct LaterLayout {
    key: String,
    needed: u32,
}

impl Layout {
    /// That of nodes that store none.
    pub(crate) const FIRST: Self = Self(1);

    /// Returns the layout that this version knows.
    pub(crate) const fn own() -> Self {
        Self(LAYOUT)
    }

    /// Returns the layout that all nodes know whose lease has not ended. `known` has what they have stored.
    pub(crate) fn of_all(leases: &[Lease], known: &[(String, u32)]) -> Self {
        let known: HashMap<&str, u32> =
            known.iter().map(|(node, layout)| (node.as_str(), *layout)).collect();
        let present = leases.iter().filter(|(_, number)| *number >= 0);
        let layouts =
            present.map(|(node, _)| known.get(node.as_str()).copied().map_or(Self::FIRST, Self));
        layouts.fold(Self::own(), Self::min)
    }

    /// Returns whether signed-in users and limits of connections are shared.
    pub(crate) const fn shares_users_and_limits(self) -> bool {
        self.0 >= 2
    }
}

/// Checks the layout that a node must know, as a script has read it.
pub(crate) fn check(keys: &Keys, needed: Option<u32>) -> Result<(), LaterLayout> {
    match needed {
        Some(needed) if needed > LAYOUT => Err(LaterLayout { key: keys.layout(), needed }),
        _ => Ok(()),
    }
}

/// Reads the layout that a node must know, and checks it. One that Redis rejects to read for now is read with the
/// lease.
pub(crate) async fn read(
    keys: &Keys,
    connection: &mut CommandConnection,
) -> RedisResult<Result<(), LaterLayout>> {
    let read: Result<Option<u32>, RedisError> =
        scripts::read_layout(keys).query_async(connection).await;
    Ok(check(keys, unless_rejected(read)?.flatten()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_all(leases: &[(&str, i64)], known: &[(&str, u32)]) -> u32 {
        let leases: Vec<Lease> =
            leases.iter().map(|(node, it)| ((*node).to_owned(), *it)).collect();
        let known: Vec<_> = known.iter().map(|(node, it)| ((*node).to_owned(), *it)).collect();
        Layout::of_all(&leases, &known).0
    }

    #[test]
    fn the_oldest_layout_that_a_present_node_knows_is_used() {
        assert_eq!(of_all(&[], &[]), LAYOUT);
        assert_eq!(of_all(&[("a", 1)], &[("a", LAYOUT)]), LAYOUT);
        assert_eq!(of_all(&[("a", 1), ("b", 7)], &[("a", LAYOUT)]), 1, "b stores none");
        assert_eq!(of_all(&[("a", 1), ("b", -1)], &[("a", LAYOUT)]), LAYOUT, "b has ended");
        assert_eq!(of_all(&[("a", 1), ("b", 7)], &[("a", LAYOUT), ("b", LAYOUT + 1)]), LAYOUT);
    }

    #[test]
    fn a_later_layout_is_rejected_by_name() {
        let keys = Keys::new("weir");
        assert_eq!(check(&keys, None), Ok(()));
        assert_eq!(check(&keys, Some(LAYOUT)), Ok(()));
        let error = check(&keys, Some(LAYOUT + 1)).unwrap_err().to_string();
        assert!(error.starts_with("weir:realtime:{afj}:layout in Redis is 3"), "{error}");
    }
}
