//! How a command is run, several times: the keys that web workers (`[[front.apps]]`) and job workers
//! (`[workers.NAME]`) have in common.

use std::path::PathBuf;
use std::time::Duration;

use weir_base::secret::Secret;
use weir_supervisor::RestartPolicy;
use weir_supervisor::workers::{
    Dump, GroupName, GroupNameError, GroupSpec, ResourceLimits, WorkerSignal,
};

use weir_settings::{DAY, MILLISECOND, Section, TableReader, WAIT};

/// The command, and what each of its processes gets.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(upgrade, check = Self::check_signals)]
pub struct Launch {
    /// Of the tables that have it.
    #[setting(skip)]
    pub command: Vec<String>,
    #[setting(skip, default = 1)]
    pub count: u32,
    /// Working directory of the command. None: that of Weir.
    pub folder: Option<PathBuf>,
    /// User that the command runs as, which requires that Weir runs as root. The sockets of all
    /// workers are then in /run/weir/. None: the user that runs Weir.
    pub user: Option<String>,
    /// A table of variables that the command gets in addition to Weir's own: texts, or { env =
    /// "NAME" } and { file = "PATH" }. Placeholders as in the command; "{{" is a brace.
    #[setting(secrets)]
    pub environment: Vec<(String, Secret)>,
    /// Files that a worker may have open (RLIMIT_NOFILE). None: as many as Weir.
    #[setting(range = 16..=1 << 30)]
    pub open_files: Option<u64>,
    /// Address space that a worker may take (RLIMIT_AS), beyond which it gets no more memory: a
    /// last resort, well above recycle_memory. 0B: as much as Weir.
    #[setting(advanced, size, range = 0..=1 << 50)]
    pub address_space: u64,
    /// A worker that is not ready within this time is killed and started again.
    #[setting(range = WAIT, default = Duration::from_secs(60))]
    pub start_deadline: Duration,
    /// Signal that makes a worker finish its work and end: "QUIT" for unicorn, which ends
    /// immediately on TERM.
    #[setting(default = "TERM".to_owned())]
    pub stop_signal: String,
    /// A worker that still runs this long after stop_signal is killed, with its process group
    /// and all its descendants.
    #[setting(range = WAIT, default = Duration::from_secs(30))]
    pub stop_deadline: Duration,
    /// Signal that makes a worker log what it is doing: "USR1", or "TTIN" for Sidekiq. Sent before
    /// it is evicted, and by weir workers dump. None: it is killed at once.
    pub dump_signal: Option<String>,
    /// How long a worker has after dump_signal before it is killed.
    #[setting(advanced, range = WAIT, default = Duration::from_secs(1))]
    pub dump_wait: Duration,
    #[setting(flatten)]
    pub recycling: Recycling,
}

/// When a worker that serves is replaced by a fresh one.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(restart)]
pub struct Recycling {
    /// A worker with more memory than this (proportional set size, with the processes that it has
    /// started) is replaced by a fresh one, never two at once. 0B: never.
    #[setting(size, key = "recycle_memory", range = 0..=1 << 50)]
    pub memory: u64,
    /// The same for one that is older than this (up to a tenth less, so that not all are replaced
    /// together). None: never.
    #[setting(key = "recycle_age", range = MILLISECOND..=DAY.saturating_mul(365))]
    pub age: Option<Duration>,
    /// Of web workers.
    #[setting(skip)]
    pub requests: Option<u64>,
    /// How often the memory of workers is measured, and old ones are replaced.
    #[setting(advanced, key = "recycle_interval", range = Duration::from_millis(10)..=DAY, default = Duration::from_secs(10))]
    pub interval: Duration,
}

impl Launch {
    fn check_signals(&mut self, table: &mut TableReader<'_>) {
        let signals = [
            (Self::DUMP_SIGNAL.name, self.dump_signal.as_ref()),
            ("stop_signal", Some(&self.stop_signal)),
        ];
        for (name, signal) in signals {
            if let Some(Err(error)) = signal.map(|signal| signal.parse::<WorkerSignal>()) {
                table.error_at(name, &error.to_string());
            }
        }
    }

    /// Returns the settings that the parent uses, with the service's reset.
    pub(super) fn parent_settings(&self) -> Self {
        Self { recycling: Recycling::default(), ..self.clone() }
    }

    /// Returns the names of the settings that differ. `count`: the name of the setting for the number of processes.
    pub(super) fn changed_settings(&self, other: &Self, count: &'static str) -> Vec<&'static str> {
        let differs = [
            ("command", self.command != other.command),
            (count, self.count != other.count),
            (Self::FOLDER.name, self.folder != other.folder),
            (Self::USER.name, self.user != other.user),
            (Self::ENVIRONMENT.name, self.environment != other.environment),
            (Self::OPEN_FILES.name, self.open_files != other.open_files),
            (Self::ADDRESS_SPACE.name, self.address_space != other.address_space),
            (Self::START_DEADLINE.name, self.start_deadline != other.start_deadline),
            (Self::STOP_SIGNAL.name, self.stop_signal != other.stop_signal),
            (Self::STOP_DEADLINE.name, self.stop_deadline != other.stop_deadline),
            (Self::DUMP_SIGNAL.name, self.dump_signal != other.dump_signal),
            (Self::DUMP_WAIT.name, self.dump_wait != other.dump_wait),
        ];
        differs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }

    /// Returns the specification for the parent, with the fields that all groups have.
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
