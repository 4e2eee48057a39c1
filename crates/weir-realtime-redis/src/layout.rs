//! The layout of what nodes share in Redis, and what nodes of different versions do beside each other.
//!
//! Each node stores with its lease which layout it knows. A node uses the oldest one that all nodes with a lease
//! know, for as long as its session lasts: if that changes, the session ends and the next one begins in the other
//! layout. So a rolling upgrade changes the layout when the last node of the earlier version has ended. A later layout
//! must be known for [`LATER_HEARTBEATS`], so that an earlier node that is started again and again does not end all
//! sessions each time.
//!
//! 1: events, histories, subscriptions, members, webhooks, switches. Nodes with it store no layout.
//! 2: also the signed-in users of all nodes, as members of the channels `#users-0` .., and parts of the limits of
//!    connections. Nodes with the layout 1 would send webhooks about these members. They do so for a node with the
//!    layout 2 whose lease lapses, if none of the others is left: their script walks all channels of that node. Before
//!    the first release nobody can have this. A later layout must not add content of another kind to keys that the
//!    scripts of earlier ones walk (`channels-of`, `counts-of`, `hooks-of`): it needs keys of its own, which only
//!    nodes that know the layout remove.
//!
//! A version whose data earlier ones must not touch stores the layout that a node must know in a key. Each node reads it
//! before it writes anything in a session, and with each heartbeat, and nodes that know the layout write the key again
//! if it is lost. That stops nodes that are started or run; one that was suspended as a process (SIGSTOP, a virtual
//! machine that pauses) may first send what waits, before the heartbeat that ends its session.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use redis::RedisResult;

use crate::command_connection::CommandConnection;
use crate::keys::Keys;
use crate::leases::Lease;
use crate::scripts;

/// A layout of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Layout(pub(crate) u32);

/// The layout that this version knows.
pub(crate) const LAYOUT: u32 = 2;
/// Characters of an unknown layout that are shown.
const SHOWN_MAX: usize = 40;
/// What stands for the value of a key that is no string, also in the script of the lease.
const OTHER_TYPE: &str = "of another type";

/// This version must not touch what is in Redis. `needed` is the layout that a node must know, as it is there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{key} in Redis is {needed}, and this version of Weir knows layouts up to {LAYOUT}: upgrade this node, or give \
     it another realtime.redis.prefix"
)]
pub(crate) struct UnknownLayout {
    key: String,
    needed: String,
}

/// The layout that a node must know, as this node has last read it. It is written again where it got lost.
#[derive(Debug, Default)]
pub(crate) struct NeededLayout(AtomicU32);

impl NeededLayout {
    /// Returns 0 if none was read.
    pub(crate) fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Checks the layout that was read.
    pub(crate) fn check(&self, keys: &Keys, needed: &str) -> Result<(), UnknownLayout> {
        let number = check(keys, needed)?;
        self.0.fetch_max(number, Ordering::Relaxed);
        Ok(())
    }
}

/// Heartbeats in a row in which all nodes know a later layout, some nine seconds.
const LATER_HEARTBEATS: u32 = 10;

/// The layout of a session, and how long all nodes know a later one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionLayout {
    pub(crate) used: Layout,
    later: u32,
}

impl SessionLayout {
    pub(crate) const fn new(used: Layout) -> Self {
        Self { used, later: 0 }
    }

    /// Notes the layout that all nodes know. Returns it if the session is to end.
    pub(crate) fn on_heartbeat(&mut self, now: Layout) -> Option<Layout> {
        self.later = if now > self.used { self.later + 1 } else { 0 };
        (now < self.used || self.later >= LATER_HEARTBEATS).then_some(now)
    }
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

/// Checks the layout that a node must know, and returns it. A text that is no number is one of a later version.
fn check(keys: &Keys, needed: &str) -> Result<u32, UnknownLayout> {
    let is_number = !needed.is_empty() && needed.bytes().all(|byte| byte.is_ascii_digit());
    match needed.parse() {
        Ok(number) if is_number && number <= LAYOUT => Ok(number),
        _ => {
            let shown: String = needed.chars().take(SHOWN_MAX).collect();
            let needed = if is_number { shown } else { format!("{shown:?}, which is no number") };
            Err(UnknownLayout { key: keys.layout(), needed })
        }
    }
}

/// Reads the layout that a node must know, and checks it. One that Redis rejects to read for now is an error: nothing
/// may be written before it is known.
pub(crate) async fn read(
    keys: &Keys,
    connection: &mut CommandConnection,
) -> RedisResult<Result<u32, UnknownLayout>> {
    let read: RedisResult<Option<Vec<u8>>> =
        scripts::read_layout(keys).query_async(connection).await;
    let needed = match read {
        Err(error) if error.code() == Some("WRONGTYPE") => OTHER_TYPE.to_owned(),
        read => {
            read?.map_or_else(|| "0".to_owned(), |it| String::from_utf8_lossy(&it).into_owned())
        }
    };
    Ok(check(keys, &needed))
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
    fn an_earlier_layout_is_used_at_once_and_a_later_one_after_some_heartbeats() {
        let mut session = SessionLayout::new(Layout(2));
        assert_eq!(session.on_heartbeat(Layout(2)), None);
        assert_eq!(session.on_heartbeat(Layout(1)), Some(Layout(1)));
        let mut session = SessionLayout::new(Layout(1));
        for _ in 0..2 {
            for _ in 1..LATER_HEARTBEATS {
                assert_eq!(session.on_heartbeat(Layout(2)), None);
            }
            assert_eq!(session.on_heartbeat(Layout(1)), None, "an earlier node is there again");
        }
        let ends = (0..LATER_HEARTBEATS).map(|_| session.on_heartbeat(Layout(2)).is_some());
        assert_eq!(ends.filter(|ends| *ends).count(), 1);
    }

    #[test]
    fn a_later_layout_is_rejected_by_name() {
        let (keys, seen) = (Keys::new("weir"), NeededLayout::default());
        for (needed, expected) in [("0", 0), ("2", 2), ("1", 2)] {
            assert_eq!(seen.check(&keys, needed), Ok(()));
            assert_eq!(seen.get(), expected);
        }
        for (needed, shown) in [
            ("3", "3,"),
            ("99999999999", "99999999999,"),
            ("+2", "\"+2\", which is no number"),
            ("", "\"\", which is no number"),
            ("2 meta", "\"2 meta\", which is no number"),
            (OTHER_TYPE, "\"of another type\", which is no number"),
        ] {
            let error = seen.check(&keys, needed).unwrap_err().to_string();
            let start = format!("weir:realtime:{{afj}}:layout in Redis is {shown}");
            assert!(error.starts_with(&start), "{error}");
        }
        assert_eq!(seen.get(), 2);
    }
}
