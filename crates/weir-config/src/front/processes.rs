//! The keys of `[[front.apps]]` by which Weir starts the app's processes itself.

use std::sync::Arc;
use std::time::Duration;

use weir_supervisor::RestartPolicy;
use weir_supervisor::selection::SocketGroup;
use weir_supervisor::workers::{
    BoundBy, GroupNameError, GroupSpec, PROCESSES_MAX, Readiness, SocketKind,
};

use super::super::launch::{Launch, Recycling};
use weir_settings::{Section, TableReader, WAIT};

/// The processes of an app's workers.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(restart, path = "front.apps", check = Self::check)]
pub struct Processes {
    #[setting(flatten)]
    pub launch: Launch,
    /// A worker is ready when it answers a GET of this path with a status below 500. None: when it
    /// can be connected to.
    pub ready_path: Option<String>,
    /// Paths that a new worker gets requests for (GET), one after the other, before its first
    /// request from a client. Failures are logged and otherwise ignored. Together they may take
    /// nine tenths of start_deadline.
    pub warm_up: Vec<String>,
    /// The Host of these requests. None: the first of hosts, or "localhost".
    #[setting(advanced)]
    pub warm_up_host: Option<String>,
    /// A worker that is stopped receives no more requests and has this long to finish those in
    /// progress, before it gets stop_signal.
    #[setting(upgrade, range = WAIT, default = Duration::from_secs(5))]
    pub finish_timeout: Duration,
    /// A worker with a request older than this is killed and replaced. Its other requests get this
    /// long to end. None: never.
    #[setting(range = WAIT)]
    pub evict_after: Option<Duration>,
}

/// What only web workers have.
#[derive(Debug, Section)]
#[section(upgrade, path = "front.apps")]
struct Command {
    /// Program and arguments of a worker, instead of upstreams: Weir starts it, watches it and
    /// replaces it. They contain where it listens: "{socket}" (a unix socket's path), "{port}" (of
    /// 127.0.0.1) or "{fd}" (an inherited unix socket's number). With mode = "sockets": "{fd}" or
    /// "{fd0}", "{fd1}" .., unless it reads LISTEN_FDS. Also "{index}" and "{name}". No shell is
    /// involved.
    #[setting(some_texts)]
    command: Vec<String>,
    /// Processes of the command.
    #[setting(range = 1..=u64::from(PROCESSES_MAX), default = 1)]
    workers: u32,
    /// A worker that has received more requests than this from the present service process (up
    /// to a tenth fewer) is replaced; with mode = "sockets": one that reports more responses.
    /// None: never.
    #[setting(restart, range = 1..=1 << 50)]
    recycle_requests: Option<u64>,
}

impl Processes {
    /// Reads the processes of an app. None: it has no command.
    pub(super) fn read_app(table: &mut TableReader<'_>) -> Option<Self> {
        let mut command = Command::default();
        command.read(table);
        let mut processes = Self::default();
        processes.read(table);
        let Command { command, workers, recycle_requests } = command;
        processes.launch.command = command;
        processes.launch.count = workers;
        processes.launch.recycling.requests = recycle_requests;
        table.is_set(Command::COMMAND.name).then_some(processes)
    }

    fn check_warm_up(&self, table: &mut TableReader<'_>) {
        if self.warm_up.iter().any(|path| !is_path(path)) {
            table.error_at("warm_up", "write paths like \"/products\"");
        }
        if self.warm_up.len() > WARM_UP_MAX {
            table.error_at("warm_up", &format!("at most {WARM_UP_MAX} paths"));
        }
        let is_name = |host: &String| host.bytes().all(|it| it.is_ascii_graphic());
        if self.warm_up_host.as_ref().is_some_and(|host| !is_name(host)) {
            table.error_at("warm_up_host", "write a name like \"shop.example\"");
        }
    }

    fn check(&mut self, table: &mut TableReader<'_>) {
        self.check_warm_up(table);
        // If both are missing, that is reported elsewhere, and these keys may be valid.
        let is_run_elsewhere = table.is_set("upstreams") && !table.is_set("command");
        let own_keys = Command::KEYS.iter().filter(|key| **key != Command::COMMAND.name);
        for &name in own_keys.chain(Self::KEYS).chain(Launch::KEYS).chain(Recycling::KEYS) {
            if table.is_set(name) && is_run_elsewhere {
                table.error_at(name, "only allowed with command, where Weir starts the workers");
            }
        }
        if self.ready_path.as_ref().is_some_and(|path| !is_path(path)) {
            table.error_at("ready_path", "write a path like \"/health\"");
        }
    }

    /// Checks that the command contains the address at which the proxy reaches the worker.
    pub(super) fn check_listen_placeholder(&self, table: &mut TableReader<'_>) {
        // A command that could not be read has been reported.
        if !self.launch.command.is_empty() && self.sockets().is_none() {
            table.error_at(
                "command",
                "it does not set the address that a worker listens on; include {socket}, {port} or {fd}",
            );
        }
    }

    /// Returns the kind of socket that the command's placeholders request.
    fn sockets(&self) -> Option<SocketKind> {
        let contains =
            |text: &str| self.launch.command.iter().any(|argument| argument.contains(text));
        if contains("{socket}") {
            Some(SocketKind::UnixSocket(BoundBy::Worker))
        } else if contains("{fd}") {
            Some(SocketKind::UnixSocket(BoundBy::Parent))
        } else {
            contains("{port}").then_some(SocketKind::Port)
        }
    }

    /// Returns the settings that the parent uses, with the service's reset.
    pub fn parent_settings(&self) -> Self {
        Self {
            ready_path: None,
            warm_up: Vec::new(),
            warm_up_host: None,
            evict_after: None,
            launch: self.launch.parent_settings(),
            ..self.clone()
        }
    }

    /// Returns the names of the settings that differ between two results of [`Processes::parent_settings`].
    pub fn changed_settings(&self, other: &Self) -> Vec<&'static str> {
        let mut names = self.launch.changed_settings(&other.launch, "workers");
        names.extend((self.finish_timeout != other.finish_timeout).then_some("finish_timeout"));
        names
    }

    /// Returns the group's specification for the parent. With `shared`, all workers use those sockets.
    pub fn group(
        &self,
        app: &str,
        restart: &RestartPolicy,
        shared: Option<Arc<SocketGroup>>,
    ) -> Result<GroupSpec, GroupNameError> {
        Ok(GroupSpec {
            sockets: match shared {
                Some(group) => SocketKind::Group(group),
                None => self.sockets().unwrap_or(SocketKind::None),
            },
            readiness: Readiness::Probed,
            let_go_deadline: self.finish_timeout,
            ..self.launch.group(app, restart)?
        })
    }
}

/// Most paths of a warm-up.
const WARM_UP_MAX: usize = 100;

/// Returns whether `text` is a valid path of a request.
fn is_path(text: &str) -> bool {
    text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic())
}
