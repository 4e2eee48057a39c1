//! The keys of `[[front.apps]]` by which Weir starts the app's processes itself.

use std::sync::Arc;
use std::time::Duration;

use weir_supervisor::RestartPolicy;
use weir_supervisor::selection::SocketGroup;
use weir_supervisor::workers::{
    BoundBy, GroupNameError, GroupSpec, PROCESSES_MAX, Readiness, Sockets,
};

use super::super::keys::{Key, Keys, WAIT};
use super::super::launch::Launch;

/// The keys that mean nothing without a command, besides those of [`Launch`].
const OWN_KEYS: [&str; 7] = [
    "workers",
    "ready_path",
    "warm_up",
    "warm_up_host",
    "finish_timeout",
    "evict_after",
    "recycle_requests",
];

/// What is run as an app's workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processes {
    pub launch: Launch,
    /// Asked for before a worker counts as ready; None: it is ready when it can be connected to.
    pub ready_path: Option<String>,
    /// Paths that it is asked for before that.
    pub warm_up: Vec<String>,
    /// As which host; None: the app's first.
    pub warm_up_host: Option<String>,
    pub finish_timeout: Duration,
    /// None: no request is too old.
    pub evict_after: Option<Duration>,
}

impl Default for Processes {
    fn default() -> Self {
        Self {
            launch: Launch::default(),
            ready_path: None,
            warm_up: Vec::new(),
            warm_up_host: None,
            finish_timeout: Duration::from_secs(5),
            evict_after: None,
        }
    }
}

impl Processes {
    /// None: the app has no command.
    pub(super) fn read(keys: &mut Keys<'_>) -> Option<Self> {
        let mut own = Self::default();
        keys.some_texts(
            Key::fixed("command", "Program and arguments of a worker, instead of upstreams: Weir starts it, watches it and replaces it. Where it is to listen stands in it: \"{socket}\" (a unix socket's path), \"{port}\" (of 127.0.0.1) or \"{fd}\" (an inherited unix socket's number). With mode = \"sockets\": \"{fd}\" or \"{fd0}\", \"{fd1}\" .., unless it reads LISTEN_FDS. Also \"{index}\" and \"{name}\". No shell has a part in it."),
            &mut own.launch.command,
        );
        keys.number(
            Key::fixed("workers", "Processes of the command."),
            1..=u64::from(PROCESSES_MAX),
            &mut own.launch.count,
        );
        read_text(
            keys,
            "ready_path",
            "A worker is ready when it answers a GET of this path with a status below 500. None: when it can be connected to.",
            &mut own.ready_path,
        );
        own.read_warm_up(keys);
        own.read_waits(keys);
        own.launch.read(keys);
        keys.optional_number(
            Key::fixed("recycle_requests", "A worker that the present service process has given more requests than this (up to a tenth less) is replaced by a fresh one; with mode = \"sockets\": that says it has answered more. None: never."),
            1..=1 << 50,
            &mut own.launch.recycling.requests,
        );
        own.check(keys);
        keys.is_set("command").then_some(own)
    }

    fn read_warm_up(&mut self, keys: &mut Keys<'_>) {
        keys.texts(
            Key::fixed("warm_up", "Paths that a new worker is asked for (GET), one after the other, before it gets its first request. What fails is logged and does no harm; all of it may take as long as nine tenths of start_deadline leave."),
            &mut self.warm_up,
        );
        if self.warm_up.iter().any(|path| !is_path(path)) {
            keys.error_at("warm_up", "write paths like \"/products\"");
        }
        if self.warm_up.len() > WARM_UP_MAX {
            keys.error_at("warm_up", &format!("at most {WARM_UP_MAX} paths"));
        }
        read_text(
            keys,
            "warm_up_host",
            "The Host of these requests. None: the first of hosts, or \"localhost\".",
            &mut self.warm_up_host,
        );
        if self
            .warm_up_host
            .as_ref()
            .is_some_and(|host| !host.bytes().all(|it| it.is_ascii_graphic()))
        {
            keys.error_at("warm_up_host", "write a name like \"shop.example\"");
        }
    }

    fn read_waits(&mut self, keys: &mut Keys<'_>) {
        keys.duration(
            Key::fixed("finish_timeout", "A worker that is to end gets nothing more and may finish the requests that it has for this long, before it is asked to end (stop_signal)."),
            WAIT,
            &mut self.finish_timeout,
        );
        keys.optional_duration(
            Key::fixed("evict_after", "A worker with a request older than this is killed and replaced. Its other requests get this long to end. None: never."),
            WAIT,
            &mut self.evict_after,
        );
    }

    fn check(&self, keys: &mut Keys<'_>) {
        // Without either, what is missing is said; whether this key is wrong depends on what comes.
        let is_run_elsewhere = keys.is_set("upstreams") && !keys.is_set("command");
        for name in OWN_KEYS.into_iter().chain(Launch::KEYS) {
            if keys.is_set(name) && is_run_elsewhere {
                keys.error_at(name, "only where Weir starts the workers: there is no command");
            }
        }
        if self.ready_path.as_ref().is_some_and(|path| !is_path(path)) {
            keys.error_at("ready_path", "write a path like \"/health\"");
        }
    }

    /// Where the proxy is to reach a worker must stand in its command.
    pub(super) fn check_reach(&self, keys: &mut Keys<'_>) {
        // A command that could not be read has been reported.
        if !self.launch.command.is_empty() && self.sockets().is_none() {
            keys.error_at(
                "command",
                "nothing says where a worker is to listen; write {socket}, {port} or {fd} in it",
            );
        }
    }

    /// What a worker gets to listen on, by the first of its arguments that says so.
    fn sockets(&self) -> Option<Sockets> {
        let says = |text: &str| self.launch.command.iter().any(|argument| argument.contains(text));
        if says("{socket}") {
            Some(Sockets::UnixSocket(BoundBy::Worker))
        } else if says("{fd}") {
            Some(Sockets::UnixSocket(BoundBy::Parent))
        } else {
            says("{port}").then_some(Sockets::Port)
        }
    }

    /// What the parent makes use of; the rest is the service's.
    pub fn for_parent(&self) -> Self {
        Self {
            ready_path: None,
            warm_up: Vec::new(),
            warm_up_host: None,
            evict_after: None,
            launch: self.launch.for_parent(),
            ..self.clone()
        }
    }

    /// The settings in which they differ, of two [for the parent](Processes::for_parent).
    pub fn differing(&self, other: &Self) -> Vec<&'static str> {
        let mut names = self.launch.differing(&other.launch, "workers");
        names.extend((self.finish_timeout != other.finish_timeout).then_some("finish_timeout"));
        names
    }

    /// For the parent. With `shared`, all share those sockets, instead of what their arguments say.
    pub fn group(
        &self,
        app: &str,
        restart: &RestartPolicy,
        shared: Option<Arc<SocketGroup>>,
    ) -> Result<GroupSpec, GroupNameError> {
        Ok(GroupSpec {
            sockets: match shared {
                Some(group) => Sockets::Group(group),
                None => self.sockets().unwrap_or(Sockets::None),
            },
            readiness: Readiness::Probed,
            let_go_deadline: self.finish_timeout,
            ..self.launch.group(app, restart)?
        })
    }
}

/// Paths of one warm-up.
const WARM_UP_MAX: usize = 100;

/// What can stand in the first line of a request.
fn is_path(text: &str) -> bool {
    text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn read_text(
    keys: &mut Keys<'_>,
    name: &'static str,
    doc: &'static str,
    field: &mut Option<String>,
) {
    keys.optional_text(Key::fixed(name, doc), field);
}
