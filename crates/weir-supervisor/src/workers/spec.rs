//! The specification of a group of workers: one command that runs several times.

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::signals::WorkerSignal;
use super::values::JobSpec;
use crate::restarts::RestartPolicy;
use crate::selection::SocketGroup;

/// Limit of a group's name in bytes: it becomes part of socket paths, which the kernel limits to
/// 107 bytes.
pub const GROUP_NAME_BYTES_MAX: usize = 32;
/// Limit of the workers of one group. Each costs the parent up to four descriptors.
pub const PROCESSES_MAX: u32 = 1_000;
/// Limit of the listening sockets that one worker inherits.
pub const SOCKETS_MAX: usize = 64;

/// One command that is run `processes` times.
///
/// Each worker leads its own process group. When it has ended, the rest of that group is killed: a
/// leftover child would continue to accept connections from inherited sockets.
#[derive(Debug)]
pub struct GroupSpec {
    pub name: GroupName,
    /// Program and arguments, with the placeholders of [`sockets`](Self::sockets) and of
    /// `variables`; `{index}` is the worker's index in the group (from 0), `{name}` its name
    /// (`shop-0`), `{{` a brace. A program without a `/` is looked up in the worker's `PATH`. No
    /// shell is involved.
    pub command: Vec<String>,
    pub processes: u32,
    /// Variables that are added to the parent's environment; values may have placeholders.
    pub environment: Vec<(String, String)>,
    /// The working directory of workers; None: the parent's.
    pub folder: Option<PathBuf>,
    /// The user of the workers, a name or a number. Requires root.
    pub user: Option<String>,
    /// None: the user's primary group.
    pub group: Option<String>,
    pub resource_limits: ResourceLimits,
    pub sockets: SocketKind,
    /// Additional placeholders for the command and the environment. A placeholder with a list of
    /// values expands to several arguments where it is an argument by itself, and is joined with
    /// commas elsewhere.
    pub variables: BTreeMap<String, Vec<String>>,
    /// Threads and queues of job workers, which may be overridden at run time. Their placeholders are
    /// also in `variables`. None: workers of an app.
    pub jobs: Option<JobSpec>,
    pub readiness: Readiness,
    /// A worker that is not ready by then is killed, which counts as a death.
    pub start_deadline: Duration,
    /// Asks a worker to end gracefully.
    pub stop_signal: WorkerSignal,
    /// A probed worker is asked to end once the service has released it
    /// ([`ParentCommand::LetGo`](crate::control::ParentCommand::LetGo)), or after this time.
    pub let_go_deadline: Duration,
    /// Time from the stop signal to SIGKILL for the whole process group.
    pub stop_deadline: Duration,
    /// At shutdown, whether these workers end before the service, because they need it. Others are
    /// asked to end after the service, because it needs them.
    pub ends_before_service: bool,
    /// A signal that is sent before an eviction, so that the worker logs what it is doing.
    pub dump: Option<Dump>,
    /// A ready worker that sends no `WATCHDOG=1` for this long is evicted (`sd_notify(3)`).
    pub watchdog: Option<Duration>,
    /// The restart policy. Unlike the service process, a worker that fails its first start is
    /// retried.
    pub restart: RestartPolicy,
    /// A worker that was given up is retried after this time, or on command.
    pub retry_after: Duration,
}

/// The dump signal before an eviction.
#[derive(Clone, Copy, Debug)]
pub struct Dump {
    pub signal: WorkerSignal,
    /// How long the worker may take for the dump.
    pub wait: Duration,
}

/// What each worker listens on.
#[derive(Debug)]
pub enum SocketKind {
    /// Nothing: job workers.
    None,
    /// All workers inherit the same listening sockets, at 3, 4 .. with `LISTEN_FDS`, `LISTEN_PID`
    /// and `LISTEN_FDNAMES` as in `sd_listen_fds(3)`, unless the command names them itself: `{fd}`
    /// and `{fd0}` are the number of the first, `{fd1}` of the second and so on. Connections in the
    /// backlog survive every worker.
    Inherited(Vec<ListeningSocket>),
    /// Like `Inherited`, with a [slice](crate::selection::Plan::slice) of the group's sockets for
    /// each worker, and the worker's [record](crate::selection::busy) as `WEIR_BUSY_FD` and
    /// `WEIR_BUSY_INDEX`.
    Group(Arc<SocketGroup>),
    /// Each generation of a worker has its own unix socket at `{socket}`.
    UnixSocket(BoundBy),
    /// Each generation of a worker has its own loopback port, `{port}`, for servers that can bind
    /// nothing else. It was free just before the start; if another process takes it meanwhile, that
    /// start fails and the next one tries another port.
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

/// How the parent detects that a worker is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It has run for this long.
    Started(Duration),
    /// A line of its output contains this text.
    Line(String),
    /// It sends `READY=1` to `NOTIFY_SOCKET` (`sd_notify(3)`).
    Notify,
    /// The service process probes it and reports readiness over the [control
    /// channel](crate::control). While no service is connected, the start deadline does not run.
    Probed,
}

/// Limits for `setrlimit(2)`, soft and hard alike. None: the parent's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceLimits {
    /// `RLIMIT_NOFILE`
    pub open_files: Option<u64>,
    /// `RLIMIT_CORE`
    pub core_bytes: Option<u64>,
    /// `RLIMIT_AS`
    pub address_space_bytes: Option<u64>,
}

/// A group's name: lowercase letters, digits, `-` and `_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupName(String);

/// The text is not a valid group name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} can't name a group of workers: 1 to {GROUP_NAME_BYTES_MAX} small letters, digits, - and _"
)]
pub struct GroupNameError(String);

impl GroupSpec {
    /// Creates a group of one worker without sockets, which is ready after running for one second.
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
            jobs: None,
            readiness: Readiness::Started(Duration::from_secs(1)),
            // Large applications can take half a minute to load on a busy machine.
            start_deadline: Duration::from_secs(60),
            stop_signal: WorkerSignal::TERM,
            // Short, because the service only stops sending; the worker itself finishes its
            // requests.
            let_go_deadline: Duration::from_secs(5),
            // As gunicorn's graceful_timeout. Slower applications raise the setting.
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
