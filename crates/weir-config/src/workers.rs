//! `[workers.NAME]`: processes that work off jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_supervisor::RestartPolicy;
use weir_supervisor::workers::{GroupName, GroupNameError, GroupSpec, PROCESSES_MAX, Readiness};

use super::keys::{Key, Keys, WAIT};
use super::launch::Launch;

/// One group of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobWorkers {
    pub launch: Launch,
    /// Jobs that one process runs at once: told to the command.
    concurrency: Option<u32>,
    queues: Vec<String>,
    /// Before each queue, where the command takes them so.
    queue_flag: Option<String>,
    readiness: Readiness,
    watchdog: Option<Duration>,
}

/// A process that has lived for so long has found its settings and its server.
const READY_AFTER: Duration = Duration::from_secs(1);
/// Threads of a process.
const CONCURRENCY_MAX: u64 = 100_000;

const QUEUES: &str = "queues";
const CONCURRENCY: &str = "concurrency";

/// All groups, by their names; `apps`: names that are taken.
pub(super) fn read(keys: &mut Keys<'_>, apps: &[String]) -> BTreeMap<String, JobWorkers> {
    let mut all = BTreeMap::new();
    keys.named("workers", |name, keys| {
        if let Err(error) = name.parse::<GroupName>()
            && name != "NAME"
        {
            keys.error(error.to_string());
        }
        if apps.iter().any(|app| app == name) {
            keys.error(format!("{name:?} is an app's name already ([[front.apps]])"));
        }
        all.insert(name.to_owned(), JobWorkers::read(keys));
    });
    all
}

impl JobWorkers {
    fn read(keys: &mut Keys<'_>) -> Self {
        let mut launch = Launch::default();
        keys.some_texts(
            Key::fixed("command", "Required. Program and arguments of a process. \"{queues}\" and \"{concurrency}\" stand for the settings of these names, \"{index}\" and \"{name}\" for the process's number and name. No shell has a part in it."),
            &mut launch.command,
        );
        keys.require("command");
        keys.number(
            Key::fixed("processes", "How often the command runs."),
            1..=u64::from(PROCESSES_MAX),
            &mut launch.count,
        );
        let (mut concurrency, mut queues, mut queue_flag) = (None, Vec::new(), None);
        keys.optional_number(
            Key::fixed(
                CONCURRENCY,
                "Jobs that one process runs at once, for {concurrency} in the command.",
            ),
            1..=CONCURRENCY_MAX,
            &mut concurrency,
        );
        keys.texts(
            Key::fixed(QUEUES, "Queues, in their order, for {queues} in the command: an argument of its own becomes one for each queue, elsewhere they are joined by commas."),
            &mut queues,
        );
        keys.optional_text(
            Key::fixed("queue_flag", "Stands before each queue, where {queues} is an argument of its own: \"-q\" for Sidekiq."),
            &mut queue_flag,
        );
        let readiness = read_readiness(keys);
        let mut watchdog = None;
        keys.optional_duration(
            Key::fixed("watchdog", "A process that says no WATCHDOG=1 (sd_notify) for this long is stuck: killed and replaced. None: it need not."),
            WAIT,
            &mut watchdog,
        );
        launch.read(keys);
        let group = Self { launch, concurrency, queues, queue_flag, readiness, watchdog };
        group.check(keys);
        group
    }

    fn check(&self, keys: &mut Keys<'_>) {
        let set = [(CONCURRENCY, self.concurrency.is_some()), (QUEUES, !self.queues.is_empty())];
        for (name, is_set) in set {
            let placeholder = format!("{{{name}}}");
            let says = |text: &String| text.contains(&placeholder);
            let environment = &self.launch.environment;
            let is_told = self.launch.command.iter().any(says)
                || environment.iter().any(|(_, value)| value.expose().contains(&placeholder));
            if is_set && !is_told {
                let why = format!("nothing tells the command: write {placeholder} in it");
                keys.error_at(name, &why);
            }
            if !is_set && is_told {
                let why = format!("{placeholder} stands in it, and {name} is not set");
                keys.error_at("command", &why);
            }
        }
        if self.queue_flag.is_some() && !self.launch.command.iter().any(|it| it == "{queues}") {
            let why = "only where \"{queues}\" is an argument of its own";
            keys.error_at("queue_flag", why);
        }
    }

    /// What the parent makes use of.
    pub fn for_parent(&self) -> Self {
        Self { launch: self.launch.for_parent(), ..self.clone() }
    }

    /// The settings in which they differ, of two [for the parent](JobWorkers::for_parent).
    pub fn differing(&self, other: &Self) -> Vec<&'static str> {
        let differs = [
            (CONCURRENCY, self.concurrency != other.concurrency),
            (QUEUES, self.queues != other.queues),
            ("queue_flag", self.queue_flag != other.queue_flag),
            ("what makes it ready", self.readiness != other.readiness),
            ("watchdog", self.watchdog != other.watchdog),
        ];
        let own = differs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name);
        own.chain(self.launch.differing(&other.launch, "processes")).collect()
    }

    /// For the parent.
    pub fn group(&self, name: &str, restart: &RestartPolicy) -> Result<GroupSpec, GroupNameError> {
        let concurrency = self.concurrency.iter().map(ToString::to_string).collect();
        let variables = BTreeMap::from([
            (CONCURRENCY.to_owned(), concurrency),
            (QUEUES.to_owned(), self.queue_arguments()),
        ]);
        Ok(GroupSpec {
            variables,
            readiness: self.readiness.clone(),
            watchdog: self.watchdog,
            // They finish and acknowledge what they have at this Weir, perhaps.
            ends_before_service: true,
            ..self.launch.group(name, restart)?
        })
    }

    fn queue_arguments(&self) -> Vec<String> {
        let flag = || self.queue_flag.iter().cloned();
        self.queues.iter().flat_map(|queue| flag().chain([queue.clone()])).collect()
    }
}

fn read_readiness(keys: &mut Keys<'_>) -> Readiness {
    let (mut after, mut line, mut notifies) = (READY_AFTER, None, false);
    keys.duration(
        Key::fixed("ready_after", "A process is ready when it has lived for this long, unless one of the next two says otherwise."),
        WAIT,
        &mut after,
    );
    keys.optional_text(
        Key::fixed(
            "ready_line",
            "A process is ready when a line of its output contains this text.",
        ),
        &mut line,
    );
    keys.flag(
        Key::fixed("ready_notify", "A process is ready when it says READY=1 (sd_notify)."),
        &mut notifies,
    );
    if notifies && line.is_some() {
        keys.error_at("ready_notify", "either this or ready_line: what shows that it is ready?");
    }
    match line {
        _ if notifies => Readiness::Notify,
        Some(line) => Readiness::Line(line),
        None => Readiness::Started(after),
    }
}
