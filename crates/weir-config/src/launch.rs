//! How a command is run, several times: the keys that web workers (`[[front.apps]]`) and job workers
//! (`[workers.NAME]`) have in common.

use std::path::PathBuf;
use std::time::Duration;

use weir_base::secret::Secret;
use weir_supervisor::RestartPolicy;
use weir_supervisor::workers::{
    Dump, GroupName, GroupNameError, GroupSpec, ResourceLimits, WorkerSignal,
};

use super::keys::{Key, Keys, WAIT};
use weir_settings::{DAY, MILLISECOND};

/// The command, and what each of its processes gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    pub command: Vec<String>,
    pub count: u32,
    pub folder: Option<PathBuf>,
    pub user: Option<String>,
    pub environment: Vec<(String, Secret)>,
    /// None: as many as Weir.
    pub open_files: Option<u64>,
    /// None: as much as Weir.
    pub address_space: u64,
    pub start_deadline: Duration,
    pub stop_signal: String,
    pub stop_deadline: Duration,
    pub dump_signal: Option<String>,
    pub dump_wait: Duration,
    pub recycling: Recycling,
}

/// When a worker that serves is replaced by a fresh one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recycling {
    /// Bytes; 0: never.
    pub memory: u64,
    pub age: Option<Duration>,
    /// Of web workers.
    pub requests: Option<u64>,
    /// How often it is looked.
    pub interval: Duration,
}

impl Default for Recycling {
    fn default() -> Self {
        // Reading the memory of a process of some gigabytes takes milliseconds.
        Self { memory: 0, age: None, requests: None, interval: Duration::from_secs(10) }
    }
}

impl Default for Launch {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            count: 1,
            folder: None,
            user: None,
            environment: Vec::new(),
            open_files: None,
            address_space: 0,
            start_deadline: Duration::from_secs(60),
            stop_signal: "TERM".to_owned(),
            stop_deadline: Duration::from_secs(30),
            dump_signal: None,
            dump_wait: Duration::from_secs(1),
            recycling: Recycling::default(),
        }
    }
}

impl Launch {
    /// The names of the keys that [`Launch::read`] reads.
    pub(super) const KEYS: [&'static str; 13] = [
        "folder",
        "user",
        "environment",
        "open_files",
        "address_space",
        "start_deadline",
        "stop_signal",
        "stop_deadline",
        "dump_signal",
        "dump_wait",
        "recycle_memory",
        "recycle_age",
        "recycle_interval",
    ];

    /// All but the command and how often it is run.
    pub(super) fn read(&mut self, keys: &mut Keys<'_>) {
        keys.optional_path(
            Key::fixed("folder", "Where the command runs. None: where Weir does."),
            &mut self.folder,
        );
        keys.optional_text(
            Key::fixed(
                "user",
                "Whom the command runs as; only root may ask. The sockets of all workers lie in /run/weir/ then. None: whoever runs Weir.",
            ),
            &mut self.user,
        );
        self.read_limits(keys);
        self.read_ends(keys);
        self.recycling.read(keys);
        self.check_signals(keys);
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

    fn read_ends(&mut self, keys: &mut Keys<'_>) {
        keys.duration(
            Key::fixed(
                "start_deadline",
                "A worker that is not ready within this long is killed and started anew.",
            ),
            WAIT,
            &mut self.start_deadline,
        );
        keys.text(
            Key::fixed("stop_signal", "Asks a worker to end, finishing what it has: \"QUIT\" for unicorn, to which TERM means at once."),
            &mut self.stop_signal,
        );
        keys.duration(
            Key::fixed("stop_deadline", "A worker that has been asked to end (stop_signal) and still runs after this long is killed, with its process group and all that descends from it."),
            WAIT,
            &mut self.stop_deadline,
        );
        keys.optional_text(
            Key::fixed("dump_signal", "At which a worker says what it is doing: \"USR1\", \"TTIN\" for Sidekiq. Sent before it is evicted, and by weir workers dump. None: it is killed at once."),
            &mut self.dump_signal,
        );
        keys.duration(
            Key::fixed("dump_wait", "How long a worker has after dump_signal before it is killed."),
            WAIT,
            &mut self.dump_wait,
        );
    }

    fn check_signals(&self, keys: &mut Keys<'_>) {
        let signals =
            [("dump_signal", self.dump_signal.as_ref()), ("stop_signal", Some(&self.stop_signal))];
        for (name, signal) in signals {
            if let Some(Err(error)) = signal.map(|signal| signal.parse::<WorkerSignal>()) {
                keys.error_at(name, &error.to_string());
            }
        }
    }

    /// What the parent makes use of; the rest is the service's.
    pub(super) fn for_parent(&self) -> Self {
        Self { recycling: Recycling::default(), ..self.clone() }
    }

    /// The names of the settings in which they differ, with `count`'s.
    pub(super) fn differing(&self, other: &Self, count: &'static str) -> Vec<&'static str> {
        let differs = [
            ("command", self.command != other.command),
            (count, self.count != other.count),
            ("folder", self.folder != other.folder),
            ("user", self.user != other.user),
            ("environment", self.environment != other.environment),
            ("open_files", self.open_files != other.open_files),
            ("address_space", self.address_space != other.address_space),
            ("start_deadline", self.start_deadline != other.start_deadline),
            ("stop_signal", self.stop_signal != other.stop_signal),
            ("stop_deadline", self.stop_deadline != other.stop_deadline),
            ("dump_signal", self.dump_signal != other.dump_signal),
            ("dump_wait", self.dump_wait != other.dump_wait),
        ];
        differs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }

    /// For the parent, as far as it is the same for all.
    pub(super) fn group(
        &self,
        name: &str,
        restart: &RestartPolicy,
    ) -> Result<GroupSpec, GroupNameError> {
        let name: GroupName = name.parse()?;
        let dump = self.dump_signal.as_ref().and_then(|signal| signal.parse().ok());
        let variables = self.environment.iter();
        Ok(GroupSpec {
            processes: self.count,
            environment: variables
                .map(|(name, value)| (name.clone(), value.expose().to_owned()))
                .collect(),
            resource_limits: ResourceLimits {
                open_files: self.open_files,
                address_space_bytes: Some(self.address_space).filter(|bytes| *bytes > 0),
                ..ResourceLimits::default()
            },
            folder: self.folder.clone(),
            user: self.user.clone(),
            start_deadline: self.start_deadline,
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
        keys.duration(
            Key::fixed("recycle_interval", "How often a worker's memory is measured and it is looked whether one is to be replaced."),
            MILLISECOND * 10..=DAY,
            &mut self.interval,
        );
    }
}
