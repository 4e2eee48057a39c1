//! Orphaned descendants. As a subreaper, the parent inherits descendants that lost their own
//! parent, and must reap them.

use std::io;
use std::time::Duration;

use rustix::process::Pid;

use crate::system;

/// The longest interval between two checks for zombies. A zombie only costs an entry in the process
/// table, and the loop also checks whenever any event occurs.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// Zombies that are reaped per iteration of the loop.
const REAPED_PER_TURN_MAX: u32 = 256;

/// Reaps adopted descendants.
#[derive(Debug)]
pub(crate) struct Orphans {
    pub(crate) reaped: u64,
    check_at: Duration,
}

impl Orphans {
    /// Makes this process a subreaper.
    pub(crate) fn adopt() -> io::Result<Self> {
        system::adopt_orphans()?;
        Ok(Self { reaped: 0, check_at: Duration::ZERO })
    }

    pub(crate) fn wakes_at(&self) -> Duration {
        self.check_at
    }

    /// Reaps ended children that are not known. A known child keeps its status for its own
    /// supervision code: it is found here only if it ended just now, and the next iteration reaps
    /// it.
    pub(crate) fn reap(&mut self, now: Duration, is_known: impl Fn(Pid) -> bool) {
        self.check_at = now + LOOK_INTERVAL;
        for _ in 0..REAPED_PER_TURN_MAX {
            let Some(pid) = system::ended_child() else { return };
            if is_known(pid) {
                self.check_at = now;
                return;
            }
            system::reap(pid);
            self.reaped += 1;
            tracing::info!(pid = pid.as_raw_pid(), reaped = self.reaped, "orphan reaped");
        }
        self.check_at = now;
    }
}
