//! The scripts that Redis runs. Each file describes its keys, arguments and result.
//!
//! A script is one atomic step: it checks that a job is still where the caller saw it, and moves it.
//! So several nodes, or a node that was stopped for hours, may try the same step without harm. What
//! a node does by itself also carries its owner, the fencing token: the script does nothing once the
//! owner's lease is over. No script removes a job before its target has accepted it, so a key of
//! another type loses none.
//!
//! Where a script can't use keys of several slots (Redis Cluster, or several servers behind one
//! address), it gets fewer keys, and the callers do the rest in steps of their own (`split`).

use redis::Script;

/// All scripts, sent by their hash; Redis gets the text when it does not know the hash.
#[derive(Debug)]
pub(super) struct StoreScripts {
    pub(super) push: Pair,
    pub(super) fetch: Script,
    pub(super) take: Script,
    pub(super) count: Script,
    pub(super) running: Script,
    pub(super) release: Script,
    pub(super) give_back: Pair,
    pub(super) settle: Pair,
    pub(super) end: Script,
    pub(super) start: Script,
    pub(super) clear: Script,
    pub(super) batch_add: Script,
    pub(super) batch_change: Script,
    pub(super) batch_expire: Script,
    pub(super) shift: Pair,
    pub(super) due: Script,
    pub(super) lease: Script,
    pub(super) epoch: Script,
    pub(super) nodes: Script,
    pub(super) beats: Script,
    pub(super) forget: Script,
    pub(super) reserved: Script,
    pub(super) prune: Script,
    pub(super) trim: Script,
    pub(super) counts: Script,
    pub(super) statistics: Script,
    pub(super) leave: Script,
    pub(super) arrive: Script,
}

/// A script, and the same for jobs with features, which gets their keys and knows what to do with them. Jobs without
/// features pay for none of it.
#[derive(Debug)]
pub(super) struct Pair {
    plain: Script,
    with_features: Script,
}

impl Pair {
    pub(super) fn new(plain: &str, with_features: &str) -> Self {
        Self { plain: Script::new(plain), with_features: Script::new(with_features) }
    }

    /// Returns the script for jobs some of which have features, or none.
    pub(super) const fn of(&self, has_features: bool) -> &Script {
        if has_features { &self.with_features } else { &self.plain }
    }
}

/// Returns a script behind what it needs for jobs with features.
macro_rules! with_features {
    ($($file:expr),+) => {
        concat!(
            include_str!("scripts/locks.lua"),
            include_str!("scripts/batches.lua"),
            include_str!("scripts/features.lua"),
            $($file),+
        )
    };
}
pub(super) use with_features;

impl Default for StoreScripts {
    fn default() -> Self {
        Self {
            push: Pair::new(
                include_str!("scripts/push.lua"),
                with_features!(include_str!("scripts/push.lua")),
            ),
            fetch: Script::new(include_str!("scripts/fetch.lua")),
            take: Script::new(concat!(
                include_str!("scripts/classes.lua"),
                include_str!("scripts/take.lua")
            )),
            count: Script::new(concat!(
                include_str!("scripts/classes.lua"),
                include_str!("scripts/count.lua")
            )),
            running: Script::new(include_str!("scripts/running.lua")),
            release: Script::new(include_str!("scripts/release.lua")),
            give_back: Pair::new(
                include_str!("scripts/return.lua"),
                with_features!(include_str!("scripts/return.lua")),
            ),
            settle: Pair::new(
                include_str!("scripts/settle.lua"),
                with_features!(include_str!("scripts/settle.lua")),
            ),
            end: Script::new(with_features!(include_str!("scripts/end.lua"))),
            start: Script::new(with_features!(include_str!("scripts/start.lua"))),
            clear: Script::new(include_str!("scripts/clear.lua")),
            batch_add: Script::new(with_features!(include_str!("scripts/batch_add.lua"))),
            batch_change: Script::new(with_features!(include_str!("scripts/batch_change.lua"))),
            batch_expire: Script::new(with_features!(include_str!("scripts/batch_expire.lua"))),
            shift: Pair::new(
                concat!(include_str!("scripts/near.lua"), include_str!("scripts/move.lua")),
                with_features!(include_str!("scripts/near.lua"), include_str!("scripts/move.lua")),
            ),
            due: Script::new(include_str!("scripts/due.lua")),
            lease: Script::new(include_str!("scripts/lease.lua")),
            epoch: Script::new(include_str!("scripts/epoch.lua")),
            nodes: Script::new(include_str!("scripts/nodes.lua")),
            beats: Script::new(include_str!("scripts/beats.lua")),
            forget: Script::new(include_str!("scripts/forget.lua")),
            reserved: Script::new(include_str!("scripts/reserved.lua")),
            prune: Script::new(include_str!("scripts/prune.lua")),
            trim: Script::new(include_str!("scripts/trim.lua")),
            counts: Script::new(include_str!("scripts/counts.lua")),
            statistics: Script::new(include_str!("scripts/statistics.lua")),
            leave: Script::new(concat!(
                include_str!("scripts/near.lua"),
                include_str!("scripts/leave.lua")
            )),
            arrive: Script::new(include_str!("scripts/arrive.lua")),
        }
    }
}
