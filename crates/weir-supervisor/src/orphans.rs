//! Processes that lost their parent. As a subreaper the parent inherits those of its descendants,
//! and somebody must reap them.

use std::io;
use std::time::Duration;

use rustix::process::Pid;

use crate::system;

/// How long the dead wait at most. They cost an entry in the process table, no more, and the loop
/// turns by itself whenever anything happens.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// The dead that are reaped before other things have their turn.
const REAPED_PER_TURN_MAX: u32 = 256;

/// Adopted descendants.
#[derive(Debug)]
pub(crate) struct Orphans {
    pub(crate) reaped: u64,
    look_at: Duration,
}

impl Orphans {
    /// Adopts them from now on.
    pub(crate) fn adopt() -> io::Result<Self> {
        system::adopt_orphans()?;
        Ok(Self { reaped: 0, look_at: Duration::ZERO })
    }

    pub(crate) fn wakes_at(&self) -> Duration {
        self.look_at
    }

    /// Reaps the dead that nobody knows. Who is known keeps its status for those who watch it: it
    /// is met here only if it ended this very moment, and the next turn finds it.
    pub(crate) fn reap(&mut self, now: Duration, is_known: impl Fn(Pid) -> bool) {
        self.look_at = now + LOOK_INTERVAL;
        for _ in 0..REAPED_PER_TURN_MAX {
            let Some(pid) = system::ended_child() else { return };
            if is_known(pid) {
                self.look_at = now;
                return;
            }
            system::reap(pid);
            self.reaped += 1;
            tracing::info!(pid = pid.as_raw_pid(), reaped = self.reaped, "orphan reaped");
        }
        self.look_at = now;
    }
}
