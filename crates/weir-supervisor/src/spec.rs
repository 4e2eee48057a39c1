//! What to run as a child, and what to hand it.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use crate::restarts::RestartPolicy;

/// One child process, started again whenever it dies.
#[derive(Debug)]
pub struct ChildSpec {
    /// What logs and errors call it.
    pub name: String,
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// Set in addition to the parent's environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Open in every generation of the child, under these names
    /// ([`inherited::Inherited`](crate::inherited::Inherited) finds them). The parent keeps them
    /// open for good: that is why a listening socket outlives the process that serves it.
    pub descriptors: Vec<(String, OwnedFd)>,
    pub restart: RestartPolicy,
    /// A child that was ready and says nothing for this long is replaced; None: never.
    pub unresponsive_after: Option<Duration>,
    /// From SIGTERM to SIGKILL.
    pub stop_deadline: Duration,
    /// None: a process that was replaced is asked to end (SIGTERM). Otherwise it is told that it was
    /// replaced (SIGUSR1) and ends by itself once its connections have; of more such processes than
    /// this the oldest is told to close those that have no end of their own (SIGUSR2).
    pub old_processes_max: Option<usize>,
}
