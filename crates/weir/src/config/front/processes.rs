//! The keys of `[[front.apps]]` by which Weir starts the app's processes itself.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_base::secret::Secret;
use weir_supervisor::RestartPolicy;
use weir_supervisor::selection::SocketGroup;
use weir_supervisor::workers::{
    BoundBy, Dump, GroupName, GroupNameError, GroupSpec, PROCESSES_MAX, Readiness, ResourceLimits,
    Sockets, WorkerSignal,
};

use super::super::keys::{Key, Keys, WAIT};
use super::super::units::{DAY, MILLISECOND};

/// The keys that mean nothing without a command.
const OWN_KEYS: [&str; 20] = [
    "workers",
    "folder",
    "user",
    "ready_path",
    "warm_up",
    "warm_up_host",
    "start_deadline",
    "finish_timeout",
    "stop_signal",
    "stop_deadline",
    "dump_signal",
    "dump_wait",
    "evict_after",
    "environment",
    "open_files",
    "address_space",
    "recycle_memory",
    "recycle_age",
    "recycle_requests",
    "recycle_interval",
];

/// What is run as an app's workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Processes {
    pub(crate) command: Vec<String>,
    pub(crate) count: u32,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) user: Option<String>,
    /// Asked for before a worker counts as ready; None: it is ready when it can be connected to.
    pub(crate) ready_path: Option<String>,
    /// Paths that it is asked for before that.
    pub(crate) warm_up: Vec<String>,
    /// As which host; None: the app's first.
    pub(crate) warm_up_host: Option<String>,
    pub(crate) start_deadline: Duration,
    pub(crate) finish_timeout: Duration,
    pub(crate) stop_signal: String,
    pub(crate) stop_deadline: Duration,
    /// None: no request is too old.
    pub(crate) evict_after: Option<Duration>,
    pub(crate) dump_signal: Option<String>,
    pub(crate) dump_wait: Duration,
    pub(crate) environment: Vec<(String, Secret)>,
    /// None: as many as Weir.
    pub(crate) open_files: Option<u64>,
    /// None: as much as Weir.
    pub(crate) address_space: u64,
    pub(crate) recycling: Recycling,
}

/// When a worker that serves is replaced by a fresh one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recycling {
    /// Bytes; 0: never.
    pub(crate) memory: u64,
    pub(crate) age: Option<Duration>,
    pub(crate) requests: Option<u64>,
    /// How often it is looked.
    pub(crate) interval: Duration,
}

impl Default for Recycling {
    fn default() -> Self {
        // Reading the memory of a process of some gigabytes takes milliseconds.
        Self { memory: 0, age: None, requests: None, interval: Duration::from_secs(10) }
    }
}

impl Default for Processes {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            count: 1,
            folder: None,
            user: None,
            ready_path: None,
            warm_up: Vec::new(),
            warm_up_host: None,
            start_deadline: Duration::from_secs(60),
            finish_timeout: Duration::from_secs(5),
            stop_signal: "TERM".to_owned(),
            stop_deadline: Duration::from_secs(30),
            evict_after: None,
            dump_signal: None,
            dump_wait: Duration::from_secs(1),
            environment: Vec::new(),
            open_files: None,
            address_space: 0,
            recycling: Recycling::default(),
        }
    }
}

impl Processes {
    /// None: the app has no command.
    pub(super) fn read(keys: &mut Keys<'_>) -> Option<Self> {
        let mut own = Self::default();
        keys.some_texts(
            Key::fixed("command", "Program and arguments of a worker, instead of upstreams: Weir starts it, watches it and replaces it. Where it is to listen stands in it: \"{socket}\" (a unix socket's path), \"{port}\" (of 127.0.0.1) or \"{fd}\" (an inherited unix socket's number). With mode = \"sockets\": \"{fd}\" or \"{fd0}\", \"{fd1}\" .., unless it reads LISTEN_FDS. Also \"{index}\" and \"{name}\". No shell has a part in it."),
            &mut own.command,
        );
        keys.number(
            Key::fixed("workers", "Processes of the command."),
            1..=u64::from(PROCESSES_MAX),
            &mut own.count,
        );
        keys.optional_path(
            Key::fixed("folder", "Where the command runs. None: where Weir does."),
            &mut own.folder,
        );
        read_text(
            keys,
            "user",
            "Whom the command runs as; only root may ask. None: whoever runs Weir.",
            &mut own.user,
        );
        read_text(
            keys,
            "ready_path",
            "A worker is ready when it answers a GET of this path with a status below 500. None: when it can be connected to.",
            &mut own.ready_path,
        );
        own.read_warm_up(keys);
        own.read_waits(keys);
        read_text(
            keys,
            "dump_signal",
            "Sent to a worker before it is evicted, so that it says what it is doing: \"USR1\". None: it is killed at once.",
            &mut own.dump_signal,
        );
        keys.text(
            Key::fixed("stop_signal", "Asks a worker to end, finishing what it has: \"QUIT\" for unicorn, to which TERM means at once."),
            &mut own.stop_signal,
        );
        own.read_limits(keys);
        own.recycling.read(keys);
        own.check(keys);
        keys.is_set("command").then_some(own)
    }

    fn read_warm_up(&mut self, keys: &mut Keys<'_>) {
        keys.texts(
            Key::fixed("warm_up", "Paths that a new worker is asked for (GET), one after the other, before it gets its first request. What fails is logged and does no harm; all of it may take as long as nine tenths of start_deadline leave."),
            &mut self.warm_up,
        );
        if self.warm_up.iter().any(|path| !is_path(path)) {
            keys.mistake_at("warm_up", "write paths like \"/products\"");
        }
        if self.warm_up.len() > WARM_UP_MAX {
            keys.mistake_at("warm_up", &format!("at most {WARM_UP_MAX} paths"));
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
            keys.mistake_at("warm_up_host", "write a name like \"shop.example\"");
        }
    }

    fn read_limits(&mut self, keys: &mut Keys<'_>) {
        keys.secrets(
            Key::fixed("environment", "A table of variables that the command gets in addition to Weir's own: texts, or { env = \"NAME\" } and { file = \"PATH\" }. Placeholders as in the command; \"{{\" is a brace."),
            &mut self.environment,
        );
        keys.optional_number(
            Key::fixed(
                "open_files",
                "Files that a worker may have open (RLIMIT_NOFILE). None: as many as Weir.",
            ),
            16..=1 << 30,
            &mut self.open_files,
        );
        keys.size(
            Key::fixed("address_space", "Address space that a worker may take (RLIMIT_AS), beyond which it gets no more memory: a last resort, well above recycle_memory. 0B: as much as Weir."),
            0..=1 << 50,
            &mut self.address_space,
        );
    }

    fn read_waits(&mut self, keys: &mut Keys<'_>) {
        let mut wait = |name, field: &mut Duration, doc| {
            keys.duration(Key::fixed(name, doc), WAIT, field);
        };
        wait(
            "start_deadline",
            &mut self.start_deadline,
            "A worker that is not ready within this long is killed and started anew.",
        );
        wait(
            "finish_timeout",
            &mut self.finish_timeout,
            "A worker that is to end gets nothing more and may finish the requests that it has for this long, before it is asked to end (stop_signal).",
        );
        wait(
            "stop_deadline",
            &mut self.stop_deadline,
            "A worker that has been asked to end (stop_signal) and still runs after this long is killed, with all processes that it has started.",
        );
        wait(
            "dump_wait",
            &mut self.dump_wait,
            "How long a worker has after dump_signal before it is killed.",
        );
        keys.optional_duration(
            Key::fixed("evict_after", "A worker with a request older than this is killed and replaced. Its other requests get this long to end. None: never."),
            WAIT,
            &mut self.evict_after,
        );
    }

    fn check(&self, keys: &mut Keys<'_>) {
        let has_command = keys.is_set("command");
        for name in OWN_KEYS {
            if keys.is_set(name) && !has_command {
                keys.mistake_at(name, "only where Weir starts the workers: there is no command");
            }
        }
        let signals =
            [("dump_signal", self.dump_signal.as_ref()), ("stop_signal", Some(&self.stop_signal))];
        for (name, signal) in signals {
            if let Some(Err(error)) = signal.map(|signal| signal.parse::<WorkerSignal>()) {
                keys.mistake_at(name, &error.to_string());
            }
        }
        if self.ready_path.as_ref().is_some_and(|path| !is_path(path)) {
            keys.mistake_at("ready_path", "write a path like \"/health\"");
        }
    }

    /// Where the proxy is to reach a worker must stand in its command.
    pub(super) fn check_reach(&self, keys: &mut Keys<'_>) {
        if self.sockets().is_none() {
            keys.mistake_at(
                "command",
                "nothing says where a worker is to listen; write {socket}, {port} or {fd} in it",
            );
        }
    }

    /// What a worker gets to listen on, by the first of its arguments that says so.
    fn sockets(&self) -> Option<Sockets> {
        let says = |text: &str| self.command.iter().any(|argument| argument.contains(text));
        if says("{socket}") {
            Some(Sockets::UnixSocket(BoundBy::Worker))
        } else if says("{fd}") {
            Some(Sockets::UnixSocket(BoundBy::Parent))
        } else {
            says("{port}").then_some(Sockets::Port)
        }
    }

    fn variables(&self) -> impl Iterator<Item = (String, String)> {
        self.environment.iter().map(|(name, value)| (name.clone(), value.expose().to_owned()))
    }

    /// What the parent makes use of; the rest is the service's.
    pub(crate) fn for_parent(&self) -> Self {
        Self {
            ready_path: None,
            warm_up: Vec::new(),
            warm_up_host: None,
            evict_after: None,
            recycling: Recycling::default(),
            ..self.clone()
        }
    }

    /// For the parent. With `shared`, all share those sockets, instead of what their arguments say.
    pub(crate) fn group(
        &self,
        app: &str,
        restart: &RestartPolicy,
        shared: Option<Arc<SocketGroup>>,
    ) -> Result<GroupSpec, GroupNameError> {
        let name: GroupName = app.parse()?;
        let dump = self.dump_signal.as_ref().and_then(|signal| signal.parse().ok());
        Ok(GroupSpec {
            processes: self.count,
            environment: self.variables().collect(),
            resource_limits: ResourceLimits {
                open_files: self.open_files,
                address_space_bytes: Some(self.address_space).filter(|bytes| *bytes > 0),
                ..ResourceLimits::default()
            },
            folder: self.folder.clone(),
            user: self.user.clone(),
            sockets: match shared {
                Some(group) => Sockets::Group(group),
                None => self.sockets().unwrap_or(Sockets::None),
            },
            readiness: Readiness::Probed,
            start_deadline: self.start_deadline,
            let_go_deadline: self.finish_timeout,
            stop_signal: self.stop_signal.parse().unwrap_or(WorkerSignal::TERM),
            stop_deadline: self.stop_deadline,
            dump: dump.map(|signal| Dump { signal, wait: self.dump_wait }),
            restart: restart.clone(),
            ..GroupSpec::new(name, self.command.clone())
        })
    }
}

impl Recycling {
    fn read(&mut self, keys: &mut Keys<'_>) {
        keys.size(
            Key::fixed("recycle_memory", "A worker with more memory than this (proportional set size, with the processes that it has started) is replaced by a fresh one, never two at once. 0B: never."),
            0..=1 << 50,
            &mut self.memory,
        );
        keys.optional_duration(
            Key::fixed("recycle_age", "The same for one that is older than this (up to a tenth less, so that not all are replaced together). None: never."),
            MILLISECOND..=DAY * 365,
            &mut self.age,
        );
        keys.optional_number(
            Key::fixed("recycle_requests", "The same for one that the present service process has given more requests than this (up to a tenth less); with mode = \"sockets\": that says it has answered more. None: never."),
            1..=1 << 50,
            &mut self.requests,
        );
        keys.duration(
            Key::fixed("recycle_interval", "How often a worker's memory is measured and it is looked whether one is to be replaced."),
            MILLISECOND * 10..=DAY,
            &mut self.interval,
        );
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
