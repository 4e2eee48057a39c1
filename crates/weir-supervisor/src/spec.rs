//! The specification of a child process.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use crate::restarts::RestartPolicy;

/// The specification of one child process, which is restarted whenever it dies.
#[derive(Debug)]
pub struct ChildSpec {
    /// The child's name in logs and errors.
    pub name: String,
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// Variables that are added to the parent's environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Descriptors that are open in every generation of the child, by name
    /// ([`inherited::Inherited`](crate::inherited::Inherited) finds them). The parent never closes
    /// them, so a listening socket outlives the process that serves it.
    pub descriptors: Vec<(String, OwnedFd)>,
    pub restart: RestartPolicy,
    /// A child that was ready and sends nothing for this long is replaced; None: never.
    pub unresponsive_after: Option<Duration>,
    /// Time between SIGTERM and SIGKILL.
    pub stop_deadline: Duration,
    /// None: a replaced process is asked to end (SIGTERM). Otherwise it is notified (SIGUSR1) and
    /// ends by itself once its connections have closed; of more replaced processes than this
    /// number, the oldest is told to close its streams (SIGUSR2).
    pub old_processes_max: Option<usize>,
}
