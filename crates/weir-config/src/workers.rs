//! `[workers.NAME]`: processes that work off jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_supervisor::RestartPolicy;
use weir_supervisor::workers::{
    GroupName, GroupNameError, GroupSpec, JobSpec, PROCESSES_MAX, Readiness, THREADS_MAX,
    WorkerValues, limited_group,
};

use super::launch::Launch;
use weir_settings::{Section, TableReader, WAIT};

/// One group of them.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(upgrade, path = "workers.NAME")]
pub struct JobWorkers {
    #[setting(flatten)]
    pub launch: Launch,
    /// Jobs that one process runs at once, for {concurrency} in the command.
    #[setting(range = 1..=u64::from(THREADS_MAX))]
    concurrency: Option<u32>,
    /// Queues, in their order, for {queues} in the command: an argument of its own becomes one for
    /// each queue, elsewhere they are joined by commas.
    queues: Vec<String>,
    /// Placed before each queue, where {queues} is an argument of its own: "-q" for Sidekiq.
    queue_flag: Option<String>,
    /// Database connections that each of these jobs may need, for [budget]. 0: jobs of this group
    /// use no database.
    #[setting(range = 0..=1_000, default = 1)]
    connections_per_thread: u32,
    /// Database connections that each process needs in addition, for [budget].
    #[setting(range = 0..=100_000)]
    connections_per_process: u32,
    #[setting(with = read_readiness, default = Readiness::Started(READY_AFTER))]
    readiness: Readiness,
    /// A process that sends no WATCHDOG=1 (sd_notify) for this long is stuck: killed and replaced.
    /// None: it need not.
    #[setting(range = WAIT)]
    watchdog: Option<Duration>,
}

/// What only job workers have.
#[derive(Debug, Section)]
#[section(upgrade, path = "workers.NAME")]
struct Command {
    /// Required. Program and arguments of a process. "{queues}" and "{concurrency}" stand for the
    /// settings of these names, "{index}" and "{name}" for the process's number and name. No shell is
    /// involved.
    #[setting(some_texts)]
    command: Vec<String>,
    /// Number of processes.
    #[setting(range = 1..=u64::from(PROCESSES_MAX), default = 1)]
    processes: u32,
}

/// What shows that a process is ready.
#[derive(Debug, Section)]
#[section(upgrade, path = "workers.NAME")]
struct ReadinessTable {
    /// A process is ready when it has lived for this long, unless one of the next two says otherwise.
    #[setting(range = WAIT, default = READY_AFTER)]
    ready_after: Duration,
    /// A process is ready when a line of its output contains this text.
    ready_line: Option<String>,
    /// A process is ready when it sends READY=1 (sd_notify).
    ready_notify: bool,
}

/// A process that has lived for so long has found its settings and its server.
const READY_AFTER: Duration = Duration::from_secs(1);

const QUEUES: &str = JobWorkers::QUEUES.name;
const CONCURRENCY: &str = JobWorkers::CONCURRENCY.name;

/// Reads all groups. `apps`: names that are in use.
pub(super) fn read(table: &mut TableReader<'_>, apps: &[String]) -> BTreeMap<String, JobWorkers> {
    let mut all = BTreeMap::new();
    table.named("workers", |name, table| {
        if let Err(error) = name.parse::<GroupName>()
            && name != "NAME"
        {
            table.error(error.to_string());
        }
        if apps.iter().any(|app| app == name) {
            table.error(format!("{name:?} is an app's name already ([[front.apps]])"));
        }
        all.insert(name.to_owned(), JobWorkers::read_group(table));
    });
    all
}

impl JobWorkers {
    fn read_group(table: &mut TableReader<'_>) -> Self {
        let mut command = Command::default();
        command.read(table);
        table.require(Command::COMMAND.name);
        let mut group = Self::default();
        group.read(table);
        let Command { command, processes } = command;
        group.launch.command = command;
        group.launch.count = processes;
        group.check(table);
        group
    }

    fn check(&self, table: &mut TableReader<'_>) {
        let set = [(CONCURRENCY, self.concurrency.is_some()), (QUEUES, !self.queues.is_empty())];
        for (name, is_set) in set {
            let placeholder = format!("{{{name}}}");
            let says = |text: &String| text.contains(&placeholder);
            let environment = &self.launch.environment;
            let is_told = self.launch.command.iter().any(says)
                || environment.iter().any(|(_, value)| value.expose().contains(&placeholder));
            if is_set && !is_told {
                let why = format!("the command does not contain {placeholder}; add it");
                table.error_at(name, &why);
            }
            if !is_set && is_told {
                let why = format!("it contains {placeholder}, but {name} is not set");
                table.error_at("command", &why);
            }
        }
        if let Some(queue) = self.queues.iter().find(|queue| queue.contains('=')) {
            let weighted = queue.replace('=', ",");
            let why = format!("{queue:?} has a weight, which is written \"{weighted}\" here");
            table.error_at(QUEUES, &why);
        }
        if self.queue_flag.is_some() && !self.launch.command.iter().any(|it| it == "{queues}") {
            let why = "only allowed where \"{queues}\" is a separate argument";
            table.error_at("queue_flag", why);
        }
    }

    /// Returns the settings that the parent uses.
    pub fn parent_settings(&self) -> Self {
        Self { launch: self.launch.parent_settings(), ..self.clone() }
    }

    /// Returns the names of the settings that differ between two results of [`JobWorkers::parent_settings`].
    pub fn changed_settings(&self, other: &Self) -> Vec<&'static str> {
        let differs = [
            (CONCURRENCY, self.concurrency != other.concurrency),
            (QUEUES, self.queues != other.queues),
            ("queue_flag", self.queue_flag != other.queue_flag),
            ("connections_per_thread", self.connections_per_thread != other.connections_per_thread),
            (
                "connections_per_process",
                self.connections_per_process != other.connections_per_process,
            ),
            ("what makes it ready", self.readiness != other.readiness),
            ("watchdog", self.watchdog != other.watchdog),
        ];
        let own = differs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name);
        own.chain(self.launch.changed_settings(&other.launch, "processes")).collect()
    }

    /// Returns the group's specification for the parent.
    pub fn group(&self, name: &str, restart: &RestartPolicy) -> Result<GroupSpec, GroupNameError> {
        let jobs = self.job_spec();
        Ok(GroupSpec {
            variables: jobs.variables(&jobs.values),
            jobs: Some(jobs),
            readiness: self.readiness.clone(),
            watchdog: self.watchdog,
            // They finish and acknowledge what they have at this Weir, perhaps.
            ends_before_service: true,
            ..self.launch.group(name, restart)?
        })
    }

    /// Returns the group for a limited class of this group's jobs, which has no process without a limit. None: its command
    /// does not get threads and queues, or its name would be too long.
    pub fn limited_group(&self, name: &str, restart: &RestartPolicy) -> Option<GroupSpec> {
        let is_told = self.concurrency.is_some() && !self.queues.is_empty();
        let limited: GroupName = limited_group(name).parse().ok().filter(|_| is_told)?;
        let jobs = JobSpec { limited_of: Some(name.to_owned()), ..self.job_spec() };
        let own = self.group(name, restart).ok()?;
        Some(GroupSpec { name: limited, processes: 0, jobs: Some(jobs), ..own })
    }

    fn job_spec(&self) -> JobSpec {
        JobSpec {
            limited_of: None,
            values: WorkerValues { threads: self.concurrency, queues: self.queues.clone() },
            queue_flag: self.queue_flag.clone(),
            connections_per_thread: self.connections_per_thread,
            connections_per_process: self.connections_per_process,
        }
    }

    /// Returns the threads of one process. None: the command does not get them.
    pub fn concurrency(&self) -> Option<u32> {
        self.concurrency
    }

    /// Returns the database connections of one process, and of all.
    pub fn connections(&self) -> (u64, u64) {
        let jobs = self.job_spec();
        let each = u64::from(jobs.connections(&jobs.values));
        (each, each * u64::from(self.launch.count))
    }
}

fn read_readiness(readiness: &mut Readiness, table: &mut TableReader<'_>) {
    let mut settings = ReadinessTable::default();
    settings.read(table);
    let ReadinessTable { ready_after, ready_line, ready_notify } = settings;
    if ready_notify && ready_line.is_some() {
        table.error_at("ready_notify", "either this or ready_line: what shows that it is ready?");
    }
    *readiness = match ready_line {
        _ if ready_notify => Readiness::Notify,
        Some(line) => Readiness::Line(line),
        None => Readiness::Started(ready_after),
    };
}
