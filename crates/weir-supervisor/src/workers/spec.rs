//! What to run as a group of workers: one command, several times.

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::signals::WorkerSignal;
use crate::restarts::RestartPolicy;
use crate::selection::SocketGroup;

/// Bytes of a group's name: it becomes part of socket paths, which the kernel limits to 107 bytes.
pub const GROUP_NAME_BYTES_MAX: usize = 32;
/// Workers of one group. Each costs the parent up to four descriptors.
pub const PROCESSES_MAX: u32 = 1_000;
/// Listening sockets that one worker inherits.
pub const SOCKETS_MAX: usize = 64;

/// One command that is run `processes` times.
///
/// Each worker leads a process group of its own. When it has ended, whatever is left of that group
/// is killed: a left-over child would go on accepting from the inherited sockets unseen.
#[derive(Debug)]
pub struct GroupSpec {
    pub name: GroupName,
    /// Program and arguments, with [placeholders](Sockets) and those of `variables`; `{index}` is
    /// the worker's place in the group (from 0), `{name}` its name (`shop-0`), `{{` a brace.
    /// A program without a `/` is looked up in the worker's `PATH`. No shell is involved.
    pub command: Vec<String>,
    pub processes: u32,
    /// Set in addition to the parent's environment; values may have placeholders.
    pub environment: Vec<(String, String)>,
    /// Where workers run; None: where the parent does.
    pub folder: Option<PathBuf>,
    /// Whom workers run as; only root may ask. A name or a number.
    pub user: Option<String>,
    /// None: the user's own group.
    pub group: Option<String>,
    pub resource_limits: ResourceLimits,
    pub sockets: SocketKind,
    /// More placeholders, for the command and the environment. One with a list of values becomes as
    /// many arguments where it is an argument of its own, and is joined with commas elsewhere.
    pub variables: BTreeMap<String, Vec<String>>,
    pub readiness: Readiness,
    /// A worker that is not ready by then is killed, which counts as a death.
    pub start_deadline: Duration,
    /// Asks a worker to end, gracefully.
    pub stop_signal: WorkerSignal,
    /// A probed worker is asked to end once the service says that it sends it nothing more
    /// ([`Command::LetGo`](crate::control::Command::LetGo)), or after this.
    pub let_go_deadline: Duration,
    /// From there to SIGKILL for the whole process group.
    pub stop_deadline: Duration,
    /// When everything ends, these do so first, and the service is asked once they have: until then
    /// they need it. Others are asked once the service has ended: it needs them.
    pub ends_before_service: bool,
    /// Sent before an eviction, so that the worker says what it is doing.
    pub dump: Option<Dump>,
    /// A ready worker that sends no `WATCHDOG=1` for this long is evicted (`sd_notify(3)`).
    pub watchdog: Option<Duration>,
    /// Unlike the service process, a worker may fail its first start and is tried again.
    pub restart: RestartPolicy,
    /// A worker that was given up is tried again after this, or on command.
    pub retry_after: Duration,
}

/// What evictions ask a worker for.
#[derive(Clone, Copy, Debug)]
pub struct Dump {
    pub signal: WorkerSignal,
    /// The time that it gets for that.
    pub wait: Duration,
}

/// What each worker gets to listen on.
#[derive(Debug)]
pub enum SocketKind {
    /// Nothing: job workers.
    None,
    /// All workers inherit the same listening sockets, at 3, 4 .. with `LISTEN_FDS`, `LISTEN_PID`
    /// and `LISTEN_FDNAMES` as `sd_listen_fds(3)` wants them, unless the command names them itself:
    /// `{fd}` and `{fd0}` are the number of the first, `{fd1}` of the second and so on. Connections
    /// that wait outlive every worker.
    Inherited(Vec<ListeningSocket>),
    /// The same with a [slice](crate::selection::Plan::slice) of the group's sockets for each worker,
    /// and beside them its [record](crate::selection::busy), as `WEIR_BUSY_FD` and
    /// `WEIR_BUSY_INDEX`.
    Group(Arc<SocketGroup>),
    /// Each generation of a worker has a unix socket of its own, at `{socket}`.
    UnixSocket(BoundBy),
    /// Each generation of a worker has a loopback port of its own: `{port}`, for servers that can
    /// bind nothing else. It was free a moment before the start; if somebody takes it meanwhile,
    /// that start fails and the next one tries another port.
    Port,
}

/// A listening socket and its name in `LISTEN_FDNAMES`.
#[derive(Debug)]
pub struct ListeningSocket {
    pub name: String,
    pub descriptor: OwnedFd,
}

/// Which process binds a worker's unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundBy {
    /// The worker, at `{socket}`.
    Worker,
    /// The parent; the worker inherits it at `{fd}`.
    Parent,
}

/// What shows that a worker serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It has lived for this long.
    Started(Duration),
    /// A line of its output contains this.
    Line(String),
    /// It sends `READY=1` to `NOTIFY_SOCKET` (`sd_notify(3)`).
    Notify,
    /// The service process probes it and says so over the [control channel](crate::control). While
    /// no service is connected, the start deadline does not run.
    Probed,
}

/// `setrlimit(2)`; soft and hard alike. None: the parent's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceLimits {
    /// `RLIMIT_NOFILE`
    pub open_files: Option<u64>,
    /// `RLIMIT_CORE`
    pub core_bytes: Option<u64>,
    /// `RLIMIT_AS`
    pub address_space_bytes: Option<u64>,
}

/// A group's name: small letters, digits, `-` and `_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupName(String);

/// Not a group's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} can't name a group of workers: 1 to {GROUP_NAME_BYTES_MAX} small letters, digits, - and _"
)]
pub struct GroupNameError(String);

impl GroupSpec {
    /// A group of one with nothing to listen on, ready when it has lived for a second.
    #[must_use]
    pub fn new(name: GroupName, command: Vec<String>) -> Self {
        Self {
            name,
            command,
            processes: 1,
            environment: Vec::new(),
            folder: None,
            user: None,
            group: None,
            resource_limits: ResourceLimits::default(),
            sockets: SocketKind::None,
            variables: BTreeMap::new(),
            readiness: Readiness::Started(Duration::from_secs(1)),
            // Large applications need half a minute to load on a busy machine.
            start_deadline: Duration::from_secs(60),
            stop_signal: WorkerSignal::TERM,
            // The service needs a moment only: requests in hand are finished by the worker itself.
            let_go_deadline: Duration::from_secs(5),
            // As gunicorn's graceful_timeout; what takes longer has its own setting.
            stop_deadline: Duration::from_secs(30),
            ends_before_service: false,
            dump: None,
            watchdog: None,
            restart: RestartPolicy::default(),
            retry_after: Duration::from_secs(60),
        }
    }
}

impl GroupName {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for GroupName {
    type Err = GroupNameError;

    fn from_str(text: &str) -> Result<Self, GroupNameError> {
        let is_allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        if (1..=GROUP_NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(GroupNameError(text.to_owned()))
        }
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
